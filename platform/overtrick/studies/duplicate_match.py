"""Two sides meet, systems or trained bidders: every deal at two tables, with the seats exchanged.

A contract is worth what its side makes double dummy, and the difference between the tables is
turned into IMPs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError, concat_columns
from overtrick.core.files import write_text
from overtrick.datasets.bridge_deals import deal_boards
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.bidders import Side, bid_auctions, load_side
from overtrick.games.bridge import auction_rules, contract_results, diagram, double_dummy, scoring
from overtrick.games.bridge.auction.game import DEAL_WIDTH, UNSOLVED, Auction
from overtrick.games.bridge.auction_rules import Contracts
from overtrick.games.bridge.cards import CARDS, SEATS, format_deal
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.system import auction_simulation, loader
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.storage.game_records import Games, Move

SHARD = 50  # boards, whatever the number of workers
REPORTS = (".md", ".csv")
UNIT = "imp"


class Table(NamedTuple):
    """What came of G boards at one table."""

    calls: Array  # (G, L) padded with -1
    contracts: Contracts
    tricks: Array  # (G,) of the declaring side; -1 where all passed
    score: Array  # (G,) points of North-South


class Boards(NamedTuple):
    """G boards of a match; at the open table the first side sits North-South."""

    holder: Array  # (G, 52) the seat that holds each card
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    open: Table
    closed: Table
    imps: Array  # (G,) won by the first side


class Match(NamedTuple):
    """A match that was played."""

    a: Side
    b: Side
    boards: Boards

    @property
    def mean(self) -> float:
        """IMPs a board of the first side."""
        return float(self.boards.imps.mean())

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return float(self.boards.imps.std(ddof=1) / np.sqrt(len(self.boards.imps)))


def known(name: str) -> bool:
    """Is this a bidding system, by name or as a file, rather than a player of another game?"""
    return name in loader.system_names() or Path(name).suffix == loader.SUFFIX


def match(
    a: str, b: str, boards: int, seed: int, crew: WorkerPool, progress: Callable[[int], None]
) -> Match:
    """So many boards between two sides, as `bidders.side_of` knows them; dealer and vulnerability
    rotate. progress is told of the boards done. Raises UserError for a side that nobody knows."""
    sides = load_side(a), load_side(b)
    shards = [(first, min(SHARD, boards - first)) for first in range(0, boards, SHARD)]
    done = 0

    def tell(shard: int, part: Boards) -> None:
        nonlocal done
        done += len(part.imps)
        progress(done)

    progress(done)
    parts = crew.map(_play, sides, shards, generator(seed, RngStream.EVALUATE), tell)
    return Match(*sides, concat_columns(parts))


def _play(rng: Generator, sides: tuple[Side, Side], first: int, count: int) -> Boards:
    """Some boards at both tables; a contract that both reach is solved once."""
    a, b = sides
    holder, dealer, vulnerable = deal_boards(first, count, "rotating", "rotating", rng)
    calls = [
        bid_auctions(ns, ew, holder, dealer, vulnerable, child)
        for (ns, ew), child in zip(((a, b), (b, a)), rng.spawn(2), strict=True)
    ]
    contracts = [auction_rules.final_contracts(each, dealer) for each in calls]
    declarer, strain = (
        np.concatenate([getattr(each, name) for each in contracts])
        for name in ("declarer", "strain")
    )
    asked = np.column_stack([np.tile(np.arange(count), 2), declarer, strain])
    (played,) = np.nonzero(declarer >= 0)
    different, place = np.unique(asked[played], axis=0, return_inverse=True)
    tricks = np.full(2 * count, -1)
    if len(different):
        board, declarer, strain = different.T
        tricks[played] = double_dummy.contract_tricks(holder[board], declarer, strain)[
            place.ravel()
        ]
    at_open, at_closed = (
        Table(made, each, won, contract_results.north_south_points(each, vulnerable, won))
        for made, each, won in zip(calls, contracts, np.split(tricks, 2), strict=True)
    )
    imps = scoring.imps(at_open.score - at_closed.score)
    return Boards(holder, dealer, vulnerable, at_open, at_closed, imps)


def record_of(played: Match) -> Games:
    """Convert the auctions of a match to recorded games: those at the open table first.

    The payoff of a game is the points of its contract at double-dummy tricks.
    """
    boards = played.boards
    deals = np.full((len(boards.holder), DEAL_WIDTH), UNSOLVED, np.int8)
    deals[:, :CARDS] = boards.holder
    deals[:, CARDS], deals[:, CARDS + 1] = boards.dealer, boards.vulnerable
    players, moves, points = [], list[list[Move]](), []
    for side, table in enumerate((boards.open, boards.closed)):
        for calls, dealer in zip(table.calls, boards.dealer, strict=True):
            made = calls[calls >= 0]
            moves.append([Move((int(dealer) + k) % 4, int(call)) for k, call in enumerate(made)])
        players += [[side, 1 - side] * 2] * len(table.calls)
        points += [[score, -score] * 2 for score in table.score.tolist()]
    sides = (played.a, played.b)
    return Games(
        Auction.name, {"scoring": "points"}, (sides[0].name, sides[1].name),
        np.tile(deals, (2, 1)), moves, np.array(players), np.array(points, np.float64),
        tuple(side.system.name for side in sides),
    )  # fmt: skip


def find_bidder(name: str) -> Path | None:
    """Find the folder of a model that bids, by its folder or its run; None if it is none.

    Raises UserError for a damaged model.
    """
    try:
        folder = lifecycle.find_model(name)
    except UserError:  # there is no such run: it may be a bidding system
        return None
    stored = model_files.load(folder)
    bids = any(weight.startswith("calls.") for weight in stored.weights)
    return folder if stored.game == Auction.name and bids else None


def rows(played: Match) -> list[dict[str, Any]]:
    """A row a board: what was called, reached and made at both tables, points of North-South, and
    the IMPs of the first system."""
    boards = played.boards
    columns: dict[str, list[Any]] = {
        "board": list(range(1, 1 + len(boards.imps))),
        "dealer": [SEATS[seat] for seat in boards.dealer],
        "vulnerability": [VULNERABILITIES[which] for which in boards.vulnerable],
        "deal": [format_deal(holder) for holder in boards.holder],
    }
    for name, table in (("open", boards.open), ("closed", boards.closed)):
        declarers = contract_results.format_declarers(table.contracts)
        columns |= {
            f"{name}_auction": [auction_rules.format_calls(_made(calls)) for calls in table.calls],
            f"{name}_contract": contract_results.describe_contracts(table.contracts),
            f"{name}_tricks": [
                None if who is None else int(n)
                for who, n in zip(declarers, table.tricks, strict=True)
            ],
            f"{name}_score": table.score.tolist(),
        }
    columns["imps"] = boards.imps.tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def shown(played: Match, board: int, signs: bool = True) -> str:
    """A board (from 0) as a diagram, with both auctions and what each call says."""
    boards, row = played.boards, rows(_only(played, board))[0]
    lines = [
        f"Board {board + 1}, dealer {row['dealer']}, vulnerable {row['vulnerability']}",
        diagram.hands_diagram(boards.holder[board], signs=signs),
    ]
    pairs = (played.a, played.b), (played.b, played.a)
    for name, table, (ns, ew) in zip(
        ("open", "closed"), (boards.open, boards.closed), pairs, strict=True
    ):
        calls, dealer = _made(table.calls[board]), int(boards.dealer[board])
        told = auction_simulation.explain_calls(
            calls, dealer, int(boards.vulnerable[board]), ns.system, ew.system
        )
        said = diagram.call_meanings(calls, dealer, told, signs)
        tricks = "" if row[f"{name}_tricks"] is None else f", {row[f'{name}_tricks']} tricks"
        points = f"{row[f'{name}_contract']}{tricks}: {row[f'{name}_score']:+d} to North-South"
        lines += [
            f"\nNorth-South {ns.name}, East-West {ew.name}",
            diagram.auction_table(calls, dealer, signs), "\n".join(said), points,
        ]  # fmt: skip
    return "\n".join([*lines, f"\n{row['imps']:+d} IMPs to {played.a.name}"])


def _only(played: Match, board: int) -> Match:
    """The match as if it had one board."""

    def of(part: Any) -> Any:
        return type(part)(*map(of, part)) if isinstance(part, tuple) else part[board : board + 1]

    return played._replace(boards=of(played.boards))


def _made(calls: Array) -> list[int]:
    """The calls of one row (L,)."""
    return [int(made) for made in calls[calls >= 0]]


def check_report(out: Path) -> None:
    """Raise UserError for a report of another kind than those that can be written."""
    if out.suffix not in REPORTS:
        raise UserError(f"a report is a {' or '.join(REPORTS)} file, not '{out.name}'")
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: {out.parent} is no folder")


def report(played: Match, out: Path, show: int = 0) -> None:
    """Write a row a board to a .csv file, or to an .md file with the first boards as diagrams."""
    check_report(out)
    every = rows(played)
    if out.suffix == ".csv":
        text = io.StringIO()
        table = csv.DictWriter(text, list(every[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(every)
        write_text(out, text.getvalue())
        return
    left_out = ("deal",)
    names = [name for name in every[0] if name not in left_out]
    lines = [
        f"# {played.a.name} against {played.b.name}",
        f"{played.mean:+.3f} ± {played.standard_error:.3f} IMPs a board, {len(every)} boards; "
        f"{played.a.name} sits North-South at the open table. Tricks are double dummy, points "
        "those of North-South.",
        "\n".join(
            [
                f"| {' | '.join(name.replace('_', ' ') for name in names)} |",
                f"|{'---|' * len(names)}",
                *(f"| {' | '.join(_cell(row[name]) for name in names)} |" for row in every),
            ]
        ),
        *(f"```\n{shown(played, board)}\n```" for board in range(min(show, len(every)))),
    ]
    write_text(out, "\n\n".join(lines) + "\n")


def _cell(entry: Any) -> str:
    return "-" if entry is None else str(entry)
