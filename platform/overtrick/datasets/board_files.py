"""Boards from any file that holds them, and what a set of boards is like (Zhang et al. 2022,
Fig. 9)."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.core import Array, UserError
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.cards import CARD_NAMES, SEATS, parse_deal
from overtrick.games.bridge.formats import pbn_lin, zhang_tsv
from overtrick.games.bridge.formats.pbn_lin import VULNERABLE, Board, BoardFile
from overtrick.storage import parquet

REQUIRED = ("deal", "dealer", "vulnerability")
TEXT_COLUMNS = ("auction", "contract", "declarer", "play")
SYSTEM_COLUMNS = (("system_ns", "sys_inferred_ns"), ("system_ew", "sys_inferred_ew"))
SOLVED = "dd_table"
OPTIONAL = (
    *TEXT_COLUMNS,
    "result_tricks",
    "board",
    "kind",
    SOLVED,
    *itertools.chain(*SYSTEM_COLUMNS),
)
TABLE_ENDINGS = (".tsv", ".txt")  # rows of the paper's formats
ENDINGS = (".parquet", ".pbn", ".lin", *TABLE_ENDINGS)
NOBODY = "nobody"
UNKNOWN = ("", "unknown")  # words for a system that nobody knows


def load(path: Path) -> BoardFile:
    """The boards of a file: Parquet with a deal, dealer and vulnerability a row (and what there is
    of auction, contract, declarer, play, result_tricks, kind, and what each pair plays: stated
    system_ns and _ew, inferred sys_inferred_ns and _ew), PBN, LIN, or the paper's rows.

    A bad board is left out, and named with what is wrong. Raises UserError for a file that cannot
    be read, or in which no board is sound.
    """
    read = list(iterate_parts(path))
    boards, problems = (
        list(itertools.chain(*(getattr(part, name) for part in read)))
        for name in ("boards", "problems")
    )
    return pbn_lin.board_file(path, boards, problems)


def iterate_parts(path: Path) -> Iterator[BoardFile]:
    """The same some boards at a time, so that a large Parquet file never lies whole in memory."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UserError(f"{path}: boards are read from {', '.join(ENDINGS)} files")
    if ending in TABLE_ENDINGS:
        yield from _cut(zhang_tsv.load(path))
    elif ending != ".parquet":
        yield from _cut(pbn_lin.load(path))
    else:
        yield from _from_parquet(path)


def _cut(whole: BoardFile) -> Iterator[BoardFile]:
    """Boards that lie in memory, in parts of the size of others."""
    for first in range(0, len(whole.boards), parquet.ROWS):
        problems = [] if first else whole.problems
        yield BoardFile(whole.boards[first : first + parquet.ROWS], problems)


def count_parts(path: Path) -> int:
    """How many parts of a file there are, or at least. Raises UserError."""
    return parquet.batch_count(path) if path.suffix.lower() == ".parquet" else 1


def save(path: Path, boards: Sequence[Board]) -> None:
    """Write boards as PBN, LIN or the paper's rows, by the file's ending. Raises UserError."""
    write = zhang_tsv.save if path.suffix.lower() in TABLE_ENDINGS else pbn_lin.save
    write(path, boards)


def _from_parquet(path: Path) -> Iterator[BoardFile]:
    if not path.is_file():
        raise UserError(f"cannot read {path}: no such file")
    number = 0
    for columns in parquet.batches(path, REQUIRED, OPTIONAL):
        boards: list[Board] = []
        problems: list[str] = []
        for values in zip(*columns.values(), strict=True):
            number += 1
            try:
                boards.append(_board(dict(zip(columns, values, strict=True)), number))
            except UserError as error:
                problems.append(f"{path}: row {number}: {error}")
        yield BoardFile(boards, problems)


def _board(row: dict[str, Any], number: int) -> Board:
    """One row. Raises UserError."""
    for name in REQUIRED:
        if not isinstance(row[name], str):
            raise UserError(f"its {name} is {row[name]!r}, not text")
    if row["dealer"] not in tuple(SEATS):
        raise UserError(f"its dealer is '{row['dealer']}', not one of {', '.join(SEATS)}")
    if row["vulnerability"] not in VULNERABLE:
        raise UserError(f"vulnerability is {', '.join(VULNERABLE)}, not '{row['vulnerability']}'")
    texts = (*TEXT_COLUMNS, "kind", SOLVED, *itertools.chain(*SYSTEM_COLUMNS))
    for name, kind in (*((name, str) for name in texts), ("result_tricks", int)):
        if not isinstance(row.get(name), kind | None):
            raise UserError(
                f"its {name} is {row[name]!r}, not {'text' if kind is str else 'a number'}"
            )
    calls = auction_rules.parse_calls(row.get("auction") or "")
    contract, declarer = row.get("contract") or None, row.get("declarer") or None
    if contract is None and calls:
        auction_rules.check_auction(calls)
        contract, declarer = auction_rules.describe_contract(calls, row["dealer"])
    played = (row.get("play") or "").split()
    if unknown := set(played) - set(CARD_NAMES):
        raise UserError(f"'{min(unknown)}' in its play is no card")
    return pbn_lin.validated(
        Board(
            parse_deal(row["deal"]),
            row["dealer"],
            row["vulnerability"],
            tuple(auction_rules.CALLS[made] for made in calls),
            contract,
            declarer,
            tuple(CARD_NAMES.index(card) for card in played),
            row.get("result_tricks"),
            row.get("board") or number,
            (_told(row, SYSTEM_COLUMNS[0]), _told(row, SYSTEM_COLUMNS[1])),
            row.get("kind") or "",
            zhang_tsv.parse_trick_table(row[SOLVED]) if row.get(SOLVED) else None,
        )
    )


def _told(row: dict[str, Any], columns: tuple[str, ...]) -> str:
    """What is said of a side's system, or inferred; nothing where nobody knows."""
    return next((row[name] for name in columns if row.get(name) not in (None, *UNKNOWN)), "")


def statistics(boards: Sequence[Board]) -> dict[str, Any]:
    """How a set of boards is distributed, in counts: who deals, who opens (makes the first bid), in
    which place after the dealer, vulnerability, calls of an auction, first calls, opening bids; and
    the mean and the standard deviation of the auctions' lengths, None without auctions."""
    told = [board for board in boards if board.auction]
    openings = [_opening(board.auction) for board in told]
    lengths = np.array([len(board.auction) for board in told])
    places = [NOBODY if place is None else place for place in openings]
    opener = Counter(
        NOBODY if place is None else SEATS[(SEATS.index(board.dealer) + place) % 4]
        for board, place in zip(told, openings, strict=True)
    )
    bids = Counter(
        board.auction[place] for board, place in zip(told, openings, strict=True)
        if place is not None
    )  # fmt: skip
    first = Counter(board.auction[0] for board in told)
    ordered = [auction_rules.CALLS[auction_rules.PASS], *auction_rules.CALLS[: auction_rules.BIDS]]
    return {
        "boards": len(boards),
        "auctions": len(told),
        "dealer": _counts(Counter(board.dealer for board in boards), SEATS),
        "opener": _counts(opener, (*SEATS, NOBODY)),
        "opener_place": {
            name: places.count(place)
            for name, place in (("1st", 0), ("2nd", 1), ("3rd", 2), ("4th", 3), (NOBODY, NOBODY))
        },
        "vulnerability": _counts(Counter(board.vulnerable for board in boards), VULNERABLE),
        "length": _by_length(lengths),
        "mean_length": float(lengths.mean()) if told else None,
        "length_deviation": float(lengths.std()) if told else None,
        "first_call": {call: first[call] for call in ordered if call in first},
        "opening": {bid: bids[bid] for bid in ordered if bid in bids},
    }


def panels(told: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Statistics as counts by title, for people and for a picture."""
    titles = {
        "dealer": "dealer",
        "opener": "opener (makes the first bid)",
        "vulnerability": "vulnerability",
        "length": "calls of an auction",
        "first_call": "first call",
        "opening": "opening bid",
    }
    return {title: told[name] for name, title in titles.items()}


def _opening(calls: Sequence[str]) -> int | None:
    """The place of the first bid."""
    return next((k for k, call in enumerate(calls) if call not in ("P", "X", "XX")), None)


def _counts(found: Counter[str], names: Any) -> dict[str, int]:
    return {name: found[name] for name in names}


def _by_length(lengths: Array) -> dict[str, int]:
    """How many auctions have each length from the shortest to the longest."""
    if not len(lengths):
        return {}
    return {str(n): int((lengths == n).sum()) for n in range(lengths.min(), lengths.max() + 1)}
