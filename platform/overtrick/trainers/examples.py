"""Calls of recorded auctions as examples to learn from: packed, parted by deal, read as a stream.

An example is a call that somebody made. Its columns: before, the 1,284 features (161 bytes) before
the call; call; situation, as `auction.situations`; place in its auction from 0, and length of that;
type, as known.TYPES. With outcomes also after, the features as the caller has them once the call is
made, and imps, those of the contract against par at double-dummy tricks, for the caller's side.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick import store
from overtrick.config import Section, Share
from overtrick.core import Array, Refused
from overtrick.games.bridge import auction, features, packed, result, score, system
from overtrick.games.bridge.auction_game import TABLE
from overtrick.games.bridge.bidding import follow
from overtrick.games.bridge.cards import CARDS, hands
from overtrick.games.bridge.par import par
from overtrick.games.bridge.records import Board
from overtrick.games.bridge.system import System
from overtrick.trainers import parted, recorded
from overtrick.trainers.agreement import auctions_of
from overtrick.trainers.bidders import auctions, side_of, solved, turned
from overtrick.trainers.generate import asked, validated
from overtrick.workers import Part, generator

KIND = store.Kind("bidding examples", packed.VERSION, "generate them again, in another folder")
SPLITS = ("train", "test")
TOGETHER = 4  # files of a window, in which examples are shuffled
RECORDED = "recorded"
STRONG_CLUB = ("Precision", "strong_club")  # words for systems that are read as precision
PIECE = 5000  # boards whose features lie in memory at once


class Plan(Section):
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
    held: Share = Field(default=0.2, description="share of deals that are kept for testing")


class Bid(NamedTuple):
    """G boards with their auctions, and the systems by which they are understood."""

    hands: Array  # (G, 4) sets of cards
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    calls: Array  # (G, L) padded with -1
    tables: Array | None  # (G, 4, 5) double-dummy tricks
    ns: System
    ew: System


def plan_of(files: Sequence[Path], overrides: Sequence[str]) -> Plan:
    """The plan for some files of boards, by key=value overrides. Raises Refused."""
    if not files:
        raise Refused("examples of which boards? Name a file with --file")
    plan = validated(Plan, asked(Plan, overrides, "examples") | {"files": tuple(map(str, files))})
    for name in (plan.system_ns, plan.system_ew):
        if plan.solved:
            side_of(name)
        elif name != RECORDED:
            system.load(name)
    return plan


def place_of(plan: Plan) -> Path:
    """Where the examples of a plan lie if nobody says another place."""
    return Path("examples") / "-".join(Path(name).stem for name in plan.files)


def generate(plan: Plan, out: Path, progress: parted.Progress) -> dict[str, Any]:
    """Make the examples, or those that are still missing: the folder, rows, seconds taken, and a
    line for each board that was left out. Raises Refused where anything else lies, or nothing can
    be written."""
    began, problems = time.monotonic(), list[str]()
    made_with = plan.model_dump(mode="json")
    if not out.exists():
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"cannot write to {out.parent}: {error.strerror}") from None
        folder = parted.open_parts(out)
        for split in SPLITS:
            (folder / split).mkdir(exist_ok=True)
        paths = [Path(name) for name in plan.files]
        total = sum(map(recorded.count, paths))
        progress("boards", 0, total)
        for number, part in enumerate(_parts(plan, problems), 1):
            _write(plan, part, number, folder, made_with)
            progress("boards", number, max(total, number))
        if not any(folder.glob("train/*.parquet")):
            raise Refused(f"no board of {', '.join(plan.files)} can be learnt from, as it is asked")
        os.replace(folder, out)
    counts = [_rows_of(file, made_with) for file in sorted(out.glob("*/*.parquet"))]
    if not counts:
        raise Refused(f"{out} is there and holds no examples: name another place with --out")
    seconds = time.monotonic() - began
    return {"path": str(out), "rows": sum(counts), "seconds": seconds, "left_out": problems}


def _parts(plan: Plan, problems: list[str]) -> Iterator[list[Bid]]:
    """What is to be learnt from, some boards at a time."""
    for name in plan.files:
        if plan.solved:
            yield from _bidden(plan, Path(name))
            continue
        for part in recorded.parts(Path(name)):
            problems += part.problems
            yield _recorded(plan, part.boards)


def _bidden(plan: Plan, file: Path) -> Iterator[list[Bid]]:
    """Solved deals with the hands at any seats, that two sides bid."""
    deals, sides = solved(str(file)), [side_of(name) for name in (plan.system_ns, plan.system_ew)]
    ns, ew = (side.system for side in sides)
    for first in range(0, len(deals), PIECE):
        rng = generator(plan.seed, Part.INITIAL, first)
        part = turned(deals[first : first + PIECE], rng)
        holder, (dealer, vulnerable) = part[:, :CARDS], part[:, CARDS:TABLE].T.astype(np.int64)
        calls = auctions(sides[0], sides[1], holder, dealer, vulnerable, rng)
        tables = part[:, TABLE:].reshape(-1, 4, 5)
        yield [Bid(hands(holder), dealer, vulnerable, calls, tables, ns, ew)]


def _recorded(plan: Plan, boards: Sequence[Board]) -> list[Bid]:
    """Recorded auctions, those side by side whose systems are the same."""
    together: dict[tuple[str, str], list[Board]] = {}
    for board in boards:
        asked_for = plan.kind in (None, board.kind)
        if asked_for and board.auction and (board.table is not None or not plan.outcomes):
            said = zip((plan.system_ns, plan.system_ew), board.systems, strict=True)
            ns, ew = (_system(asked, words) for asked, words in said)
            together.setdefault((ns, ew), []).append(board)
    found = []
    for (ns, ew), mine in sorted(together.items(), key=lambda pair: pair[0]):
        for first in range(0, len(mine), PIECE):
            some = mine[first : first + PIECE]
            of, tables = auctions_of(some), [b.table for b in some if b.table is not None]
            told = np.stack(tables) if len(tables) == len(some) else None
            pair = system.load(ns), system.load(ew)
            found.append(Bid(of.hands, of.dealer, of.vulnerable, of.calls, told, *pair))
    return found


def _system(asked: str, said: str) -> str:
    if asked != RECORDED:
        return asked
    return "precision" if said in STRONG_CLUB else "natural"


def _write(
    plan: Plan, part: Sequence[Bid], number: int, folder: Path, made_with: Mapping[str, Any]
) -> None:
    """Keep the examples of some boards, unless they are there from before a stop."""
    for k, split in enumerate(SPLITS):
        file = folder / split / f"{number:05d}.parquet"
        chosen = [_of_split(bid, for_judging(bid.hands, plan.held) == (k == 1)) for bid in part]
        columns = [_columns(plan, bid) for bid in chosen if len(bid.hands)]
        if file.exists() or not columns:
            continue
        whole = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
        order = generator(plan.seed, Part.TRAIN, number, k).permutation(len(whole["call"]))
        store.save(file, KIND, made_with, {name: c[order] for name, c in whole.items()})


def _of_split(bid: Bid, rows: Array) -> Bid:
    """Some of its boards."""
    tables = None if bid.tables is None else bid.tables[rows]
    hands, dealer, vulnerable, calls = (each[rows] for each in bid[:4])
    return Bid(hands, dealer, vulnerable, calls, tables, bid.ns, bid.ew)


def for_judging(hands: Array, share: float) -> Array:
    """(G,) bool which deals (G, 4) are kept for testing: by what they hold alone, so that a deal
    and its rotations are on the same side in every set that is ever made."""
    with np.errstate(over="ignore"):
        mixed = [np.zeros(len(hands), np.uint64) for _ in range(4)]
        for turn in range(4):
            for seat in range(4):
                own = hands[:, (seat + turn) % 4].astype(np.uint64)
                mixed[turn] = (mixed[turn] ^ own) * np.uint64(0x9E3779B97F4A7C15)
                mixed[turn] ^= mixed[turn] >> np.uint64(29)
        least = np.minimum.reduce(mixed)
        least = (least ^ (least >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (least >> np.uint64(11)).astype(np.float64) / 2.0**53 < share


def _columns(plan: Plan, bid: Bid) -> dict[str, Array]:
    """The examples of some boards."""
    hands, dealer, vulnerable, calls, tables, ns, ew = bid
    made = calls >= 0
    game, place = np.nonzero(made)
    read = follow(hands, dealer, vulnerable, calls, ns, ew).read[made]
    ours = (dealer[game] + place) % 2 == 0

    def seen(after: bool) -> Array:
        told = features.rows(hands, dealer, vulnerable, calls, ns, ew, after=after)
        return packed.packed(told)

    columns = {
        "before": seen(after=False),
        "call": calls[made],
        "situation": auction.situations(calls),
        "place": place.astype(np.int16),
        "length": made.sum(axis=1).astype(np.int16)[game],
        "type": np.empty(len(read), np.int8),
    }
    for side, rules in ((ours, ns), (~ours, ew)):
        columns["type"][side] = system.types(rules)[read[side]]
    if plan.outcomes:
        assert tables is not None
        reached = auction.contract_of(calls, dealer)
        tricks = tables[np.arange(len(tables)), reached.declarer, reached.strain].astype(np.int64)
        points = result.points(reached, vulnerable, tricks)
        won = score.imps(points - par(tables, dealer, vulnerable).score)
        columns["after"] = seen(after=True)
        columns["imps"] = np.where(ours, won[game], -won[game]).astype(np.int8)
    return columns


class Examples:
    """The examples of one side of a folder, never all in memory. Raises Refused if there are none,
    if they are damaged, or of features of another version."""

    def __init__(self, folder: str, split: str) -> None:
        self.files = sorted(Path(folder).glob(f"{split}/*.parquet"))
        if not self.files:
            raise Refused(
                f"no examples in {folder}: overtrick generate examples --file BOARDS --out {folder}"
            )
        self.counts = [_rows_of(file) for file in self.files]
        self.columns = tuple(store.load(self.files[0], KIND).columns)

    def __len__(self) -> int:
        return sum(self.counts)

    def batches(self, size: int, rng: Generator) -> Iterator[dict[str, Array]]:
        """Every example once, so many at a time, in random order: files at random, and examples at
        random among those of some files, of which the next are read meanwhile."""
        order = rng.permutation(len(self.files))
        windows = [order[k : k + TOGETHER] for k in range(0, len(order), TOGETHER)]
        rest: dict[str, Array] = {}
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self._window, windows[0])
            for k in range(len(windows)):
                rows = coming.result()
                if k + 1 < len(windows):
                    coming = ahead.submit(self._window, windows[k + 1])
                if rest:
                    rows = {name: np.concatenate([rest[name], rows[name]]) for name in rows}
                count = len(rows["call"])
                mixed, whole = rng.permutation(count), count - count % size
                for first in range(0, whole, size):
                    yield {name: c[mixed[first : first + size]] for name, c in rows.items()}
                rest = {name: column[mixed[whole:]] for name, column in rows.items()}
        if len(rest["call"]):
            yield rest

    def in_order(self, most: int) -> Iterator[dict[str, Array]]:
        """The first examples, at most so many, file by file."""
        for file, count in zip(self.files, self.counts, strict=True):
            if most <= 0:
                return
            columns = store.load(file, KIND).columns
            yield {name: column[:most] for name, column in columns.items()}
            most -= count

    def _window(self, places: Array) -> dict[str, Array]:
        parts = [store.load(self.files[k], KIND).columns for k in places]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _rows_of(file: Path, made_with: Mapping[str, Any] | None = None) -> int:
    return len(store.load(file, KIND, made_with).columns["call"])
