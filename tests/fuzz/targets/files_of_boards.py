"""Fuzz targets: recorded games, boards in every format, data sets of `generate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq
from tests.fuzz.inputs import Files
from tests.fuzz.target import Target
from tests.fuzz.targets import shared_inputs

from overtrick.core import UserError, select_rows
from overtrick.core.files import write_text
from overtrick.datasets import board_files, card_abstraction_build, minibridge_games
from overtrick.datasets.bidding_examples import KIND as EXAMPLES
from overtrick.datasets.bidding_examples import BiddingExamples
from overtrick.datasets.bridge_deals import KIND as DEALS
from overtrick.datasets.card_abstraction_build import ABSTRACTION
from overtrick.datasets.chunked_build import generate
from overtrick.datasets.minibridge_games import KIND as MINIBRIDGE
from overtrick.datasets.minibridge_games import MinibridgeConfig
from overtrick.distributed.workers import LocalPool
from overtrick.evaluation import bidders, system_agreement
from overtrick.games import registry
from overtrick.games.bridge.boards import Comment, Section
from overtrick.games.bridge.cardplay import play_records
from overtrick.games.bridge.formats import pbn_lin, zhang_tsv
from overtrick.games.bridge.system import loader
from overtrick.games.poker.holdem.abstract_game import AbstractHoldem
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.storage import game_records, parquet
from overtrick.studies import html_of_files

RECORDED = ("leduc", "kuhn", "liars_dice", "minibridge", "brps")


def recorded_games() -> list[Files]:
    """Return files of recorded games of several games."""
    found = []
    for name in RECORDED:
        game = registry.make(name, **registry.match_options(name, {}))
        recorder = game_records.Recorder(game)
        policies = [UniformPolicy()] * game.seats
        play(recorder, policies, 2, np.random.default_rng(1), recorded=())
        who = np.tile(np.arange(game.seats) % 2, (2, 1))
        games = game_records.Games(
            name, registry.match_options(name, {}), ("a", "b"), recorder.deals, recorder.moves,
            who, recorder.payoff,
        )  # fmt: skip
        path = Path("games.parquet")
        game_records.save(path, games)
        found.append({"games.parquet": path.read_bytes()})
    auctions = (shared_inputs.STORED / "auction_games.parquet").read_bytes()
    return [*found, {"games.parquet": auctions}]


def view_games(folder: Path) -> None:
    """Read recorded games, replay them, and write their page as `view` does."""
    page = html_of_files.html_of_file(folder / "games.parquet", 50, None)
    write_text(folder / "view.html", page)
    games = game_records.load(folder / "games.parquet")
    for number in range(len(games.moves)):
        for _ in game_records.steps(games, number):
            pass


def boards() -> list:
    """Return bridge boards with auctions and card play."""
    path = Path("boards.pbn")
    holder = (np.arange(52) % 4).astype(np.int8)
    bid = ("1N", "P", "3N", "P", "P", "P")
    played = board_files.Board(
        holder, "N", "NS", bid, "3N", "N", tuple(range(8)), None, 1, ("natural", "precision")
    )
    passed = board_files.Board(holder[::-1].copy(), "E", "All", ("P",) * 4, "Pass", None, number=2)
    described = replace(
        played, explanations={0: "15-17", 2: 'to "play"'}, alerted=(0,), card_notes={1: "count"},
        comments=(Comment("Welcome.", ""), Comment("two\nlines", 2), Comment("a lead", 7)),
        tags={"Event": "Cup", "zz": "own"}, marks={0: "!"},
        sections=(Section("ScoreTable", "Place;Score", ("1 420", "2 -50")),),
    )  # fmt: skip
    names, teams = ("N. Orth", "E. Ast", "S. Outh", "W. Est"), ("Home", "Away")
    rooms = [
        replace(board, players=names, teams=teams, room=room, number=3)
        for board, room in ((described, "Open"), (replace(passed, auction=()), "Closed"))
    ]
    found = [played, passed, *rooms]
    pbn_lin.save(path, found)
    return found


def board_tables() -> list[Files]:
    """Return Parquet files of boards."""
    fixture = parquet.load(shared_inputs.RUNS / "data" / "deals.parquet", DEALS)
    few = select_rows(fixture.columns, np.s_[:3])
    parquet.save(Path("few.parquet"), DEALS, fixture.parameters, few)
    columns = {
        "deal": ["N:AKQJ.T98.765.432 T987.AKQJ.432.76 65.7654.AKQ.AKQJ 432.32.JT98.T985"] * 2,
        "dealer": ["N", "E"], "vulnerability": ["None", "All"],
        "auction": ["1N P P P", "P P P P"], "board": [1, 2], "kind": ["human", "robot"],
        "sys_inferred_ns": ["natural", "unknown"], "result_tricks": [7, None],
        "dd_table": ["7" * 20, "0" * 20], "play": ["", None],
    }  # fmt: skip
    pq.write_table(pa.table(columns), "own.parquet")
    return [{"boards.parquet": Path(name).read_bytes()} for name in ("few.parquet", "own.parquet")]


def text_boards() -> list[Files]:
    """Return .pbn, .lin and .tsv files of boards."""
    found = []
    for name in ("boards.pbn", "boards.lin", "boards.tsv"):
        board_files.save(Path(name), boards()[: 2 if name == "boards.tsv" else None])
        found.append({name: Path(name).read_bytes()})
    zhang_tsv.save(Path("boards.tsv"), boards()[:2], np.full((2, 4, 5), 7, np.int8))
    return [*found, {"boards.tsv": Path("boards.tsv").read_bytes()}]


def use_boards(folder: Path) -> None:
    """Read, count, convert and view boards, and compare their auctions with a system."""
    path = next(iter(sorted(folder.glob("boards.*"))), folder / "boards.pbn")
    board_files.count_parts(path)
    found = board_files.load(path)
    board_files.panels(board_files.statistics(found.boards))
    for ending in (".pbn", ".lin", ".tsv"):
        try:
            board_files.save(folder / f"copy{ending}", found.boards)
        except UserError as error:
            if len(str(error).splitlines()) != 1:
                raise
    write_text(folder / "view.html", html_of_files.html_of_file(path, 50, "natural"))
    auctions = system_agreement.select_auctions(found.boards, None, None)
    system_agreement.follow_system(loader.load("natural"), auctions)


def read_solved_deals(folder: Path) -> None:
    """Read deals with double-dummy tricks as a training run does."""
    bidders.sample_deals.__wrapped__((str(folder / "deals.parquet"),), 5, 0)


def solved_deals() -> list[Files]:
    """Return a file of solved deals."""
    return [{"deals.parquet": each["boards.parquet"]} for each in board_tables()]


def bidding_examples() -> list[Files]:
    """Return a small folder of bidding examples."""
    found = {}
    for split in ("train", "test"):
        path = shared_inputs.RUNS / "data" / "examples" / split / "00001.parquet"
        found[f"examples/{split}/00001.examples.parquet"] = path.read_bytes()
    return [found]


def read_examples(folder: Path) -> None:
    """Read bidding examples in batches."""
    for split in ("train", "test"):
        data = BiddingExamples(str(folder / "examples"), split)
        for batch in data.batches(64, np.random.default_rng(0)):
            assert len(batch["call"])
        list(data.in_order(10))


def minibridge_folders() -> list[Files]:
    """Return a folder of stored games of Mini-Bridge."""
    from tests.fuzz import inputs

    config = MinibridgeConfig.parse(["games=6", "seed=1"])
    generate(config, Path("games"), LocalPool())
    return [{f"games/{k}": v for k, v in inputs.read_folder(Path("games")).items()}]


def read_minibridge(folder: Path) -> None:
    """Read stored games of Mini-Bridge, and the decisions that a Q-table learns from."""
    games = minibridge_games.load(folder / "games")
    play_records.decision_trajectories(games.deals, games.cards, (0, 2), games.rewards(True))
    minibridge_games.check_games_folder(str(folder / "games"), {"strain": "notrump"})


def abstractions() -> list[Files]:
    """Return a small card abstraction."""
    return [{"abstraction.parquet": (shared_inputs.STORED / "abstraction.parquet").read_bytes()}]


def use_abstraction(folder: Path) -> None:
    """Make abstract hold'em from a stored card abstraction, as `solve` does."""
    file = folder / "abstraction.parquet"
    game = AbstractHoldem(str(file))
    game.portable_options()
    game.check_file()
    game.bucketed_game(card_abstraction_build.load_abstraction(file))


TARGETS = (
    Target("recorded games", recorded_games, view_games, 4, {".parquet": game_records.KIND}),
    Target("boards in Parquet", board_tables, use_boards, 4, {".parquet": DEALS}),
    Target("boards in text", text_boards, use_boards, 5),
    Target("solved deals", solved_deals, read_solved_deals, 4, {".parquet": DEALS}),
    Target("bidding examples", bidding_examples, read_examples, 3, {".parquet": EXAMPLES}),
    Target("card abstraction", abstractions, use_abstraction, 2, {".parquet": ABSTRACTION}),
    Target("minibridge games", minibridge_folders, read_minibridge, 3, {".parquet": MINIBRIDGE}),
)
