"""Generate bidding examples from recorded auctions, or from double-dummy solved deals.

Solved deals have no auction. Two bidders, one for each side, bid these deals. A bidder is a bidding
system or a trained model.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.overrides import field_overrides
from overtrick.config.sections import validated
from overtrick.core import Array, Deals, UserError, concat_columns, select_rows
from overtrick.datasets import board_files, chunked_build
from overtrick.datasets.bidding_examples import KIND, SPLITS, in_test_split
from overtrick.datasets.chunked_build import DatasetConfig, Progress
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.bidders import (
    Side,
    bid_auctions,
    load_side,
    rotate_deals,
    solved_deals,
    split_player,
)
from overtrick.evaluation.system_agreement import select_auctions
from overtrick.games.bridge import auction_rules, contract_results, scoring
from overtrick.games.bridge.auction import features, packed_features
from overtrick.games.bridge.auction.game import DD_TABLE, DEAL_WIDTH
from overtrick.games.bridge.boards import Board
from overtrick.games.bridge.cardplay.played_tables import play_every_contract
from overtrick.games.bridge.cards import CARDS, card_holders, hand_bits
from overtrick.games.bridge.par import par
from overtrick.games.bridge.system import loader
from overtrick.games.bridge.system.auction_simulation import replay_auctions
from overtrick.games.bridge.system.loader import System
from overtrick.storage import locate, model_files, parquet

TricksSource = Literal["double_dummy", "careful"]
"""Tricks that score contracts: double dummy, or of `careful` players on both sides."""

RECORDED = "recorded"  # config value: use the system that each board names
STRONG_CLUB = ("Precision", "strong_club")  # recorded names that are interpreted as precision
RECORDED_SYSTEMS = ("natural", "precision")  # interpretations of recorded names
BOARDS_AT_ONCE = 5000  # boards whose features are in memory at once
PIECES_AHEAD = 8  # pieces of solved deals that are bid in parallel


class ExamplesConfig(DatasetConfig):
    """Settings of generated bidding examples: files of boards, and each side's bidding system."""

    subject = "examples"

    files: tuple[str, ...]
    """Files of boards with auctions."""

    system_ns: str = RECORDED
    """Bidding system of North-South, by name or as a file; recorded: the system that each board
    names, or natural if it names none."""

    system_ew: str = RECORDED
    """Bidding system of East-West, given in the same way."""

    kind: str | None = None
    """Use only boards of this kind, such as human."""

    outcomes: bool = False
    """Add the IMPs of each board's contract against par."""

    tricks: TricksSource = "double_dummy"
    """Tricks of outcomes. double_dummy: those of the boards. careful: those of `careful` players on
    both sides, who do not see hidden hands."""

    solved: bool = False
    """The files hold deals with double-dummy tricks and no auctions; system_ns and system_ew bid
    them, and may be folders of models. Seats are rotated, and dealer and vulnerability drawn, at
    random; those in the files are not used."""

    seed: int = Field(default=0, ge=0)
    """Random seed of the order of examples; for solved deals also of seats, dealers,
    vulnerabilities and calls."""

    @model_validator(mode="after")
    def _solved_deals_need_bidders(self) -> ExamplesConfig:
        if self.solved and RECORDED in (self.system_ns, self.system_ew):
            raise ValueError("solved deals have no auction: set --system-ns and --system-ew")
        if self.solved and self.kind is not None:
            raise ValueError("solved deals have no kind: leave kind out")
        if self.tricks != "double_dummy" and not self.outcomes:
            raise ValueError("tricks has no use without outcomes=true")
        return self

    @classmethod
    def parse(cls, overrides: Sequence[str] = (), files: Sequence[Path] = ()) -> ExamplesConfig:
        """Build the configuration from board files and `key=value` overrides.

        Raises UserError for unknown keys or wrong values, and if a bidding system or model cannot
        be loaded.
        """
        if not files:
            raise UserError("name a file of boards with --file")
        values = field_overrides(cls, overrides, cls.subject)
        if "files" in values:
            raise UserError("files are named with --file, not with files=")
        config = validated(cls, values | {"files": tuple(map(str, files))})
        config.rules()
        return config

    def rules(self) -> list[str]:
        """Return a hash of the rules of each bidding system that interprets the examples' calls.

        Raises UserError if a system cannot be loaded.
        """
        names = (self.system_ns, self.system_ew)
        if self.solved:
            return [loader.fingerprint(load_side(name).system) for name in names]
        recorded = RECORDED_SYSTEMS if RECORDED in names else ()
        return [loader.fingerprint(loader.load(n)) for n in (*names, *recorded) if n != RECORDED]

    def input_digests(self) -> dict[str, str]:
        """Return a digest of each board file, and of each model that bids, by name.

        Raises UserError for a board file that cannot be read.
        """
        found = {}
        for name in self.files:
            try:
                with Path(name).open("rb") as opened:
                    found[name] = hashlib.file_digest(opened, "sha256").hexdigest()
            except OSError as error:
                raise UserError(f"cannot read {name}: {error.strerror}") from None
        for name in (self.system_ns, self.system_ew) if self.solved else ():
            folder = locate.model_folder(split_player(name)[0])
            if model_files.is_model(folder):
                files = json.dumps(locate.digests(folder), sort_keys=True)
                found[name] = hashlib.sha256(files.encode()).hexdigest()
        return found

    def default_path(self) -> Path:
        """Return a folder named after the board files."""
        return Path("examples") / "-".join(Path(name).stem for name in self.files)

    def build(self, out: Path, pool: WorkerPool, progress: Progress) -> dict[str, Any]:
        """Generate the examples in the folder `out`, or check the existing examples.

        If `out` exists, raises UserError unless its examples have these settings, and board files
        and models have not changed since. Returns a dictionary with two keys:

        - `rows`: the number of examples.
        - `left_out`: a message for each board or file that could not be used.
        """
        problems = list[str]()
        made_with = self.model_dump(mode="json") | {"rules": self.rules()}
        made_with["digests"] = self.input_digests()
        if out.exists():
            _check_unchanged(out, made_with["digests"])
        else:
            folder = chunked_build.create_parts_folder(out)
            for file in folder.glob("*/*.parquet"):
                if not chunked_build.is_valid_part(file, KIND, made_with):
                    file.unlink()
            for split in SPLITS:
                (folder / split).mkdir(exist_ok=True)
            parts = sum(map(self._count_parts, self.files))
            progress("boards", 0, parts)

            def file_of(split: str, number: int) -> Path:
                return folder / split / f"{number:05d}.parquet"

            def is_done(number: int) -> bool:
                return all(file_of(split, number).exists() for split in SPLITS)

            for number, part in enumerate(_parts(self, pool, problems, is_done), 1):
                for test, split in enumerate(SPLITS):
                    file = file_of(split, number)
                    if not file.exists() and (examples := _examples(self, part, number, test)):
                        parquet.save(file, KIND, made_with, examples)
                progress("boards", number, max(parts, number))
            if not any(folder.glob(f"{SPLITS[0]}/*.parquet")):
                files = ", ".join(self.files)
                shutil.rmtree(folder)
                raise UserError(f"no board of {files} gives an example with these options")
            os.replace(folder, out)
        heads = [parquet.head(file, KIND, made_with) for file in sorted(out.glob("*/*.parquet"))]
        if not heads:
            raise UserError(f"{out} exists without examples: name another folder with --out")
        return {"rows": sum(head.rows for head in heads), "left_out": problems}

    def _count_parts(self, name: str) -> int:
        """Return the number of batches of a file, for a progress display."""
        if self.solved:
            return -(-parquet.row_count(Path(name)) // BOARDS_AT_ONCE)
        return board_files.count_parts(Path(name))


def _check_unchanged(out: Path, digests: Mapping[str, str]) -> None:
    """Raise UserError if a board file or model has changed since examples were made from it.

    `out`: the folder of the examples. `digests`: of the files and models now, by name.
    """
    for file in sorted(out.glob("*/*.parquet"))[:1]:
        made_from = parquet.head(file, KIND).parameters.get("digests", {})
        for name, digest in digests.items():
            if made_from.get(name, digest) != digest:
                raise UserError(f"{name} has changed since {out} was made: {KIND.remedy}")


class AnnotatedAuctions(NamedTuple):
    """G bridge boards with their auctions and the bidding systems that interpret the calls."""

    hands: Array  # (G, 4) the cards of each seat as bit sets
    dealer: Array  # (G,)
    vulnerable: Array  # (G,)
    calls: Array  # (G, L) padded with -1
    tables: Array | None  # (G, 4, 5) tricks by declarer and strain
    ns: System
    ew: System

    def select(self, rows: Array) -> AnnotatedAuctions:
        """Return the boards for which `rows` (G,) bool is True."""
        columns = {name: select_rows(getattr(self, name), rows) for name in self._fields[:5]}
        return self._replace(**columns)


def check_system_rules(folder: str, made_with: Mapping[str, Any]) -> None:
    """Raise UserError if a bidding system has changed since examples were generated with it.

    The features of new auctions would then differ from the features in the examples. `folder`: of
    the examples. `made_with`: the parameters stored with the examples. Examples of solved deals are
    not checked.
    """
    values = {n: v for n, v in made_with.items() if n in ExamplesConfig.model_fields}
    config = validated(ExamplesConfig, values)
    if not config.solved and config.rules() != made_with.get("rules"):
        raise UserError(f"the systems have changed since {folder} was made: {KIND.remedy}")


def _parts(
    config: ExamplesConfig,
    pool: WorkerPool,
    problems: list[str],
    is_done: Callable[[int], bool],
) -> Iterator[list[AnnotatedAuctions]]:
    """Yield the auctions of all files in batches, grouped by the bidding systems of both sides.

    Each batch is a list of such groups. `problems`: a list to which messages are appended: one for
    each invalid board, and one for each file with boards that cannot be used. `is_done`: returns
    whether the examples of a batch exist, given its number, from 1; solved deals of such batches
    are not bid again, and their list is empty.
    """
    before = 0
    for number, name in enumerate(config.files):
        if config.solved:
            for auctions in _bid_deals(config, number, pool, before, is_done):
                before += 1
                yield auctions
            continue
        left_out = 0
        for part in board_files.iterate_parts(Path(name)):
            problems += part.problems
            usable = [board for board in part.boards if _is_usable(config, board)]
            left_out += len(part.boards) - len(usable)
            yield _group_by_systems(config, usable)
        if left_out:
            problems.append(
                f"{name}: {left_out} boards are left out: they have no auction, are of another "
                "kind, or lack the finished auction or the double-dummy tricks that outcomes need"
            )


def _is_usable(config: ExamplesConfig, board: Board) -> bool:
    if not board.auction or config.kind not in (None, board.kind):
        return False
    has_tricks = board.table is not None or config.tricks == "careful"
    return not config.outcomes or (has_tricks and board.auction_is_complete)


def _bid_deals(
    config: ExamplesConfig,
    number: int,
    pool: WorkerPool,
    before: int,
    is_done: Callable[[int], bool],
) -> Iterator[list[AnnotatedAuctions]]:
    """Rotate the seats of one file's solved deals at random, and let both sides bid the deals.

    Yields the auctions in batches. `number`: the index of the file in `config.files`. `before`: the
    number of batches of the files before it. `is_done`: as in `_parts`.
    """
    sides = load_side(config.system_ns), load_side(config.system_ew)
    pieces = _in_pieces(solved_deals(config.files[number]))
    for first in count(step=PIECES_AHEAD):
        shards = [(deals,) for deals in islice(pieces, PIECES_AHEAD)]
        rng = generator(config.seed, RngStream.INITIAL, number, first)
        numbers = range(before + first + 1, before + first + 1 + len(shards))
        if all(map(is_done, numbers)):
            yield from ([] for _ in shards)
        else:
            for columns in pool.map(_bid, sides, shards, rng):
                yield [AnnotatedAuctions(*columns, *(side.system for side in sides))]
        if len(shards) < PIECES_AHEAD:
            return


def _in_pieces(parts: Iterator[Deals]) -> Iterator[Deals]:
    """Regroup batches of deals into batches of BOARDS_AT_ONCE deals; the last may be smaller.

    A deal is a row of DEAL_WIDTH numbers: cards, dealer, vulnerability and double-dummy tricks.
    """
    rest = np.zeros((0, DEAL_WIDTH), np.int8)
    for part in parts:
        rest = np.concatenate([rest, part])
        used = len(rest) - len(rest) % BOARDS_AT_ONCE
        yield from (rest[k : k + BOARDS_AT_ONCE] for k in range(0, used, BOARDS_AT_ONCE))
        rest = rest[used:]
    if len(rest):
        yield rest


def _bid(rng: Generator, sides: tuple[Side, Side], deals: Deals) -> tuple[Array, ...]:
    """Rotate the seats of solved deals at random, and let both sides bid the deals.

    `sides`: the bidders of North-South and East-West. `deals`: (G, DEAL_WIDTH) cards, dealer,
    vulnerability and double-dummy tricks. Returns the first five fields of AnnotatedAuctions, from
    `hands` to `tables`.
    """
    deal_rng, rng = rng.spawn(2)
    deals = rotate_deals(deals, deal_rng)
    holder, tables = deals[:, :CARDS], deals[:, DD_TABLE:].reshape(-1, 4, 5)
    dealer, vulnerable = deals[:, CARDS:DD_TABLE].T.astype(np.int64)
    calls = bid_auctions(*sides, holder, dealer, vulnerable, rng)
    return hand_bits(holder), dealer, vulnerable, calls, tables


def _group_by_systems(config: ExamplesConfig, boards: Sequence[Board]) -> list[AnnotatedAuctions]:
    """Group recorded auctions by the bidding systems of North-South and East-West.

    A group has at most BOARDS_AT_ONCE boards.
    """
    groups: dict[tuple[str, str], list[Board]] = {}
    for board in boards:
        named = zip((config.system_ns, config.system_ew), board.systems, strict=True)
        ns, ew = (_system(configured, recorded) for configured, recorded in named)
        groups.setdefault((ns, ew), []).append(board)
    found = []
    for (ns, ew), members in sorted(groups.items(), key=lambda pair: pair[0]):
        for first in range(0, len(members), BOARDS_AT_ONCE):
            some = members[first : first + BOARDS_AT_ONCE]
            solved = [board.table for board in some if board.table is not None]
            tables = np.stack(solved) if len(solved) == len(some) else None
            columns = select_auctions(some)[:4]
            found.append(AnnotatedAuctions(*columns, tables, loader.load(ns), loader.load(ew)))
    return found


def _system(configured: str, recorded: str) -> str:
    """Return the name of a side's bidding system: `configured`, unless this is RECORDED.

    With RECORDED, the system is derived from `recorded`, the system's name in the file of boards:
    "precision" for a strong-club system, "natural" for any other.
    """
    if configured != RECORDED:
        return configured
    return "precision" if recorded in STRONG_CLUB else "natural"


def _examples(
    config: ExamplesConfig, part: Sequence[AnnotatedAuctions], number: int, test: int
) -> dict[str, Array]:
    """Return the bidding examples of one split from a batch of auctions, in random order.

    `part`: the batch, grouped by bidding systems. `number`: the number of the batch, which seeds
    the order. `test`: 0 for the training split, 1 for the test split. Returns arrays by column
    name; an empty dictionary if no board of the batch is in the split.
    """
    chosen = [group.select(in_test_split(group.hands) == test) for group in part]
    columns = [
        _columns(config, _with_scoring_tricks(config, group))
        for group in chosen
        if len(group.hands)
    ]
    if not columns:
        return {}
    examples = concat_columns(columns)
    rng = generator(config.seed, RngStream.TRAIN, number, test)
    return select_rows(examples, rng.permutation(len(examples["call"])))


def _with_scoring_tricks(config: ExamplesConfig, auctions: AnnotatedAuctions) -> AnnotatedAuctions:
    """Return the boards with the tables of tricks that score their contracts."""
    if not config.outcomes or config.tricks == "double_dummy":
        return auctions
    tables = play_every_contract(card_holders(auctions.hands), config.tricks)
    return auctions._replace(tables=tables)


def _columns(config: ExamplesConfig, auctions: AnnotatedAuctions) -> dict[str, Array]:
    """Return the bidding examples of some boards as arrays by column name, one row for each call.

    `datasets/bidding_examples.py` lists the columns.
    """
    hands, dealer, vulnerable, calls, tables, ns, ew = auctions
    made = calls >= 0
    game, place = np.nonzero(made)
    read = replay_auctions(hands, dealer, vulnerable, calls, ns, ew).read[made]
    ours = (dealer[game] + place) % 2 == 0

    def packed(after: bool) -> Array:
        rows = features.auction_features(hands, dealer, vulnerable, calls, ns, ew, after=after)
        return packed_features.pack(rows)

    columns = {
        "before": packed(after=False),
        "call": calls[made],
        "callers": auction_rules.recorded_callers(calls),
        "place": place.astype(np.int16),
        "length": made.sum(axis=1).astype(np.int16)[game],
        "type": np.empty(len(read), np.int8),
    }
    for side, rules in ((ours, ns), (~ours, ew)):
        columns["type"][side] = loader.rule_types(rules)[read[side]]
    if config.outcomes:
        assert tables is not None
        final = auction_rules.final_contracts(calls, dealer)
        tricks = tables[np.arange(len(tables)), final.declarer, final.strain].astype(np.int64)
        points = contract_results.north_south_points(final, vulnerable, tricks)
        won = scoring.imps(points - par(tables, dealer, vulnerable).score)
        columns["after"] = packed(after=True)
        columns["imps"] = np.where(ours, won[game], -won[game]).astype(np.int8)
    return columns
