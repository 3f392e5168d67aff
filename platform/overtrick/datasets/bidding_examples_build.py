"""Recorded auctions, and solved deals that two sides bid, collected as examples on disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import Section, validated
from overtrick.config.overrides import field_overrides
from overtrick.core import Array, Deals, UserError
from overtrick.datasets import board_files, chunked_build
from overtrick.datasets.bidding_examples import KIND, SPLITS, in_test_split
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.bidders import Side, bid_auctions, load_side, rotate_deals, solved_deals
from overtrick.evaluation.system_agreement import select_auctions
from overtrick.games.bridge import auction_rules, contract_results, scoring
from overtrick.games.bridge.auction import features, packed_features
from overtrick.games.bridge.auction.game import DD_TABLE, DEAL_WIDTH
from overtrick.games.bridge.cards import CARDS, hand_bits
from overtrick.games.bridge.formats.pbn_lin import Board
from overtrick.games.bridge.par import par
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.auction_simulation import replay_auctions
from overtrick.games.bridge.system.loader import System
from overtrick.storage import parquet

RECORDED = "recorded"
STRONG_CLUB = ("Precision", "strong_club")  # words for systems that are read as precision
RECORDED_SYSTEMS = ("natural", "precision")  # what recorded systems are read as
BOARDS_AT_ONCE = 5000  # boards whose features lie in memory at once
PIECES_AHEAD = 8  # pieces of solved deals that are bid side by side


class ExamplesConfig(Section):
    """Which boards, and what their calls mean."""

    files: tuple[str, ...] = Field(description="boards with auctions")
    system_ns: str = Field(
        default=RECORDED,
        description="by name or as a file; recorded: by what is said of each board, else natural",
    )
    system_ew: str = Field(default=RECORDED, description="the same of East-West")
    kind: str | None = Field(default=None, description="only boards of this kind, such as human")
    outcomes: bool = Field(default=False, description="boards with double-dummy tricks, for IMPs")
    solved: bool = Field(
        default=False,
        description="the files hold deals with double-dummy tricks, which the two sides bid: "
        "systems, or folders of models",
    )
    seed: int = Field(default=0, ge=0, description="same seed, same examples")

    @model_validator(mode="after")
    def _solved_deals_are_bid_by_somebody(self) -> ExamplesConfig:
        if self.solved and RECORDED in (self.system_ns, self.system_ew):
            raise ValueError("solved deals have no auction: say who bids with --system-ns, -ew")
        if self.solved and self.kind is not None:
            raise ValueError("solved deals are of no kind: leave kind out")
        return self


class AnnotatedAuctions(NamedTuple):
    """G boards with their auctions, and the systems by which they are understood."""

    hands: Array  # (G, 4) sets of cards
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    calls: Array  # (G, L) padded with -1
    tables: Array | None  # (G, 4, 5) double-dummy tricks
    ns: System
    ew: System


def plan_of(files: Sequence[Path], overrides: Sequence[str]) -> ExamplesConfig:
    """The plan for some files of boards, by key=value overrides. Raises UserError."""
    if not files:
        raise UserError("examples of which boards? Name a file with --file")
    told = field_overrides(ExamplesConfig, overrides, "examples")
    if "files" in told:
        raise UserError("files are named with --file, not with files=")
    plan = validated(ExamplesConfig, told | {"files": tuple(map(str, files))})
    for name in (plan.system_ns, plan.system_ew):
        if plan.solved:
            load_side(name)
        elif name != RECORDED:
            loader.load(name)
    return plan


def place_of(plan: ExamplesConfig) -> Path:
    """Where the examples of a plan lie if nobody says another place."""
    return Path("examples") / "-".join(Path(name).stem for name in plan.files)


def generate(
    plan: ExamplesConfig, out: Path, crew: WorkerPool, progress: chunked_build.Progress
) -> dict[str, Any]:
    """Make the examples, or those that are still missing: the folder, rows, seconds taken, and a
    line for each board that was left out. Raises UserError where anything else lies, or nothing can
    be written."""
    began, problems = time.monotonic(), list[str]()
    made_with = plan.model_dump(mode="json") | {"rules": _rules(plan)}
    if not out.exists():
        folder = chunked_build.create_parts_folder(out)
        for file in folder.glob("*/*.parquet"):
            if not chunked_build.is_valid_part(
                file, KIND, made_with
            ):  # of another plan, or cut off
                file.unlink()
        for split in SPLITS:
            (folder / split).mkdir(exist_ok=True)
        parts = sum(board_files.count_parts(Path(name)) for name in plan.files)
        progress("boards", 0, parts)
        for number, part in enumerate(_parts(plan, crew, problems), 1):
            _write(plan, part, number, folder, made_with)
            progress("boards", number, max(parts, number))
        if not any(folder.glob(f"{SPLITS[0]}/*.parquet")):
            raise UserError(
                f"no board of {', '.join(plan.files)} can be learnt from, as it is asked"
            )
        os.replace(folder, out)
    heads = [parquet.head(file, KIND, made_with) for file in sorted(out.glob("*/*.parquet"))]
    if not heads:
        raise UserError(f"{out} is there and holds no examples: name another place with --out")
    rows, seconds = sum(head.rows for head in heads), time.monotonic() - began
    return {"path": str(out), "rows": rows, "seconds": seconds, "left_out": problems}


def check_system_rules(folder: str, made_with: Mapping[str, Any]) -> None:
    """Raise UserError if the systems by which recorded calls were understood say something else by
    now, so that new calls would be seen otherwise than these examples."""
    plan = validated(
        ExamplesConfig, {n: v for n, v in made_with.items() if n in ExamplesConfig.model_fields}
    )
    if not plan.solved and _rules(plan) != made_with.get("rules"):
        raise UserError(f"the systems have changed since {folder} was made: {KIND.remedy}")


def _rules(plan: ExamplesConfig) -> list[str]:
    """What the systems by which calls are understood say."""
    asked_for = (plan.system_ns, plan.system_ew)
    if plan.solved:
        return [loader.fingerprint(load_side(name).system) for name in asked_for]
    names = RECORDED_SYSTEMS if RECORDED in asked_for else ()
    return [loader.fingerprint(loader.load(n)) for n in (*asked_for, *names) if n != RECORDED]


def _parts(
    plan: ExamplesConfig, crew: WorkerPool, problems: list[str]
) -> Iterator[list[AnnotatedAuctions]]:
    """What is to be learnt from, some boards at a time."""
    for number, name in enumerate(plan.files):
        if plan.solved:
            yield from _bidden(plan, number, crew)
            continue
        left = 0
        for part in board_files.iterate_parts(Path(name)):
            problems += part.problems
            told = [board for board in part.boards if _serves(plan, board)]
            left += len(part.boards) - len(told)
            yield _recorded(plan, told)
        if left:
            problems.append(
                f"{name}: {left} boards are left out: they have no auction, are of another kind, "
                "or lack the double-dummy tricks that outcomes take"
            )


def _serves(plan: ExamplesConfig, board: Board) -> bool:
    solved_enough = board.table is not None or not plan.outcomes
    return bool(board.auction) and plan.kind in (None, board.kind) and solved_enough


def _bidden(
    plan: ExamplesConfig, number: int, crew: WorkerPool
) -> Iterator[list[AnnotatedAuctions]]:
    """Solved deals of a file with the hands at any seats, that two sides bid."""
    sides = load_side(plan.system_ns), load_side(plan.system_ew)
    pieces = _in_pieces(solved_deals(plan.files[number]))
    for first in count(step=PIECES_AHEAD):
        shards = [(deals,) for deals in islice(pieces, PIECES_AHEAD)]
        rng = generator(plan.seed, RngStream.INITIAL, number, first)
        for part, calls in crew.map(_bid, sides, shards, rng):
            yield [_with_tricks(part, calls, sides)]
        if len(shards) < PIECES_AHEAD:
            return


def _in_pieces(parts: Iterator[Deals]) -> Iterator[Deals]:
    """The same deals, PIECE at a time."""
    rest = np.zeros((0, DEAL_WIDTH), np.int8)
    for part in parts:
        rest = np.concatenate([rest, part])
        whole = len(rest) - len(rest) % BOARDS_AT_ONCE
        yield from (rest[k : k + BOARDS_AT_ONCE] for k in range(0, whole, BOARDS_AT_ONCE))
        rest = rest[whole:]
    if len(rest):
        yield rest


def _bid(rng: Generator, sides: tuple[Side, Side], deals: Deals) -> tuple[Deals, Array]:
    """Deals turned, and the auctions on them."""
    deal_rng, rng = rng.spawn(2)
    part = rotate_deals(deals, deal_rng)
    dealer, vulnerable = part[:, CARDS:DD_TABLE].T.astype(np.int64)
    return part, bid_auctions(*sides, part[:, :CARDS], dealer, vulnerable, rng)


def _with_tricks(deals: Deals, calls: Array, sides: tuple[Side, Side]) -> AnnotatedAuctions:
    dealer, vulnerable = deals[:, CARDS:DD_TABLE].T.astype(np.int64)
    tables = deals[:, DD_TABLE:].reshape(-1, 4, 5)
    own = hand_bits(deals[:, :CARDS])
    return AnnotatedAuctions(
        own, dealer, vulnerable, calls, tables, sides[0].system, sides[1].system
    )


def _recorded(plan: ExamplesConfig, boards: Sequence[Board]) -> list[AnnotatedAuctions]:
    """Recorded auctions, those side by side whose systems are the same."""
    together: dict[tuple[str, str], list[Board]] = {}
    for board in boards:
        said = zip((plan.system_ns, plan.system_ew), board.systems, strict=True)
        ns, ew = (_system(asked, words) for asked, words in said)
        together.setdefault((ns, ew), []).append(board)
    found = []
    for (ns, ew), mine in sorted(together.items(), key=lambda pair: pair[0]):
        for first in range(0, len(mine), BOARDS_AT_ONCE):
            some = mine[first : first + BOARDS_AT_ONCE]
            of, tables = select_auctions(some), [b.table for b in some if b.table is not None]
            told = np.stack(tables) if len(tables) == len(some) else None
            pair = loader.load(ns), loader.load(ew)
            found.append(
                AnnotatedAuctions(of.hands, of.dealer, of.vulnerable, of.calls, told, *pair)
            )
    return found


def _system(asked: str, said: str) -> str:
    if asked != RECORDED:
        return asked
    return "precision" if said in STRONG_CLUB else "natural"


def _write(
    plan: ExamplesConfig,
    part: Sequence[AnnotatedAuctions],
    number: int,
    folder: Path,
    made_with: Mapping[str, Any],
) -> None:
    """Keep the examples of some boards, unless they are there from before a stop."""
    files = [folder / split / f"{number:05d}.parquet" for split in SPLITS]
    for file, held in zip(files, (False, True), strict=True):
        if file.exists():
            continue
        chosen = [_of_split(bid, in_test_split(bid.hands) == held) for bid in part]
        columns = [_columns(plan, bid) for bid in chosen if len(bid.hands)]
        if not columns:
            continue
        whole = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
        order = generator(plan.seed, RngStream.TRAIN, number, held).permutation(len(whole["call"]))
        parquet.save(file, KIND, made_with, {name: c[order] for name, c in whole.items()})


def _of_split(bid: AnnotatedAuctions, rows: Array) -> AnnotatedAuctions:
    """Some of its boards."""
    tables = None if bid.tables is None else bid.tables[rows]
    hands, dealer, vulnerable, calls = (each[rows] for each in bid[:4])
    return AnnotatedAuctions(hands, dealer, vulnerable, calls, tables, bid.ns, bid.ew)


def _columns(plan: ExamplesConfig, bid: AnnotatedAuctions) -> dict[str, Array]:
    """The examples of some boards."""
    hands, dealer, vulnerable, calls, tables, ns, ew = bid
    made = calls >= 0
    game, place = np.nonzero(made)
    read = replay_auctions(hands, dealer, vulnerable, calls, ns, ew).read[made]
    ours = (dealer[game] + place) % 2 == 0

    def seen(after: bool) -> Array:
        told = features.auction_features(hands, dealer, vulnerable, calls, ns, ew, after=after)
        return packed_features.pack(told)

    columns = {
        "before": seen(after=False),
        "call": calls[made],
        "situation": auction_rules.bidding_situations(calls),
        "place": place.astype(np.int16),
        "length": made.sum(axis=1).astype(np.int16)[game],
        "type": np.empty(len(read), np.int8),
    }
    for side, rules in ((ours, ns), (~ours, ew)):
        columns["type"][side] = loader.rule_types(rules)[read[side]]
    if plan.outcomes:
        assert tables is not None
        reached = auction_rules.final_contracts(calls, dealer)
        tricks = tables[np.arange(len(tables)), reached.declarer, reached.strain].astype(np.int64)
        points = contract_results.north_south_points(reached, vulnerable, tricks)
        won = scoring.imps(points - par(tables, dealer, vulnerable).score)
        columns["after"] = seen(after=True)
        columns["imps"] = np.where(ours, won[game], -won[game]).astype(np.int8)
    return columns
