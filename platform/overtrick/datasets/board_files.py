"""Read and write bridge boards in all known file formats, and compute statistics of boards.

The statistics are those of Zhang et al. 2022, Fig. 9.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overtrick.core import UserError
from overtrick.games.bridge import auction_rules, contract_results
from overtrick.games.bridge.boards import (
    Board,
    BoardFile,
    check_vulnerability,
    require_boards,
    validated,
)
from overtrick.games.bridge.cards import CARD_NAMES, SEATS, parse_deal
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.formats import pbn_lin, zhang_tsv
from overtrick.storage import parquet

REQUIRED = dict.fromkeys(("deal", "dealer", "vulnerability"), str)
SYSTEM_COLUMNS = (("system_ns", "sys_inferred_ns"), ("system_ew", "sys_inferred_ew"))
SOLVED = "dd_table"
TEXTS = ("auction", "contract", "declarer", "play", "kind", SOLVED, *sum(SYSTEM_COLUMNS, ()))
OPTIONAL = dict.fromkeys(TEXTS, str) | {"result_tricks": int, "board": int}
TABLE_ENDINGS = (".tsv", ".txt")  # the formats of Zhang et al. 2022
WRITTEN_ENDINGS = (".pbn", ".lin", *TABLE_ENDINGS)
ENDINGS = (".parquet", *WRITTEN_ENDINGS)
NOBODY = "nobody"
PLACES = ("1st", "2nd", "3rd", "4th")
UNKNOWN = ("", "unknown")  # values of a system column that name no system


def load(path: Path) -> BoardFile:
    """Read all boards of a file: Parquet, PBN, LIN, or tab-separated text.

    Tab-separated text has a format of Zhang et al. 2022 (see zhang_tsv). A Parquet file has the
    columns deal, dealer and vulnerability. Optional columns:

    - auction, contract, declarer, play, result_tricks, board, dd_table
    - kind: kind of players, such as human or robot
    - system_ns and system_ew: the stated bidding systems of both pairs
    - sys_inferred_ns and sys_inferred_ew: the inferred bidding systems

    Names, alerts, notes, rooms and tags are read from PBN and LIN only.

    Invalid boards are left out; `problems` of the result lists the reasons. Raises UserError for a
    file that cannot be read, or that has no valid board.
    """
    parts = list(iterate_parts(path))
    boards = [board for part in parts for board in part.boards]
    problems = [line for part in parts for line in part.problems]
    return require_boards(path, BoardFile(boards, problems))


def iterate_parts(path: Path) -> Iterator[BoardFile]:
    """Yield the boards of a file in parts of at most `parquet.ROWS` boards.

    A Parquet file is read part by part, so the file may be larger than memory; each part has its
    own problems. Of other files the first part has all problems. Raises UserError for an unknown
    file extension, a file that cannot be read, and a file of another format than Parquet without
    valid boards.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise UserError(f"{path}: boards are read from {', '.join(ENDINGS)} files")
    if ending in TABLE_ENDINGS:
        yield from _split(zhang_tsv.load(path))
    elif ending != ".parquet":
        yield from _split(pbn_lin.load(path))
    else:
        yield from _from_parquet(path)


def _split(file: BoardFile) -> Iterator[BoardFile]:
    """Split boards in memory into parts of at most `parquet.ROWS` boards."""
    for first in range(0, len(file.boards), parquet.ROWS):
        problems = [] if first else file.problems
        yield BoardFile(file.boards[first : first + parquet.ROWS], problems)


def count_parts(path: Path) -> int:
    """Return the number of parts that `iterate_parts` yields, for a progress display.

    The number is exact for a Parquet file. A file of any other format counts as one part, even if
    `iterate_parts` yields more. Raises UserError for an unreadable file.
    """
    return parquet.batch_count(path) if path.suffix.lower() == ".parquet" else 1


def save(path: Path, boards: Sequence[Board]) -> None:
    """Write boards as PBN, LIN or tab-separated text, depending on the file extension.

    Tab-separated text has double-dummy tables only if every board has one. Raises UserError for
    boards that the format cannot hold, or if the file cannot be written.
    """
    if path.suffix.lower() in TABLE_ENDINGS:
        tables = [board.table for board in boards if board.table is not None]
        complete = bool(boards) and len(tables) == len(boards)
        zhang_tsv.save(path, boards, np.stack(tables) if complete else None)
    else:
        pbn_lin.save(path, boards)


def _from_parquet(path: Path) -> Iterator[BoardFile]:
    if not os.path.isfile(path):
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
    """Parse one row of a Parquet file of boards. Raises UserError for an invalid board.

    `number`: the board number if the row has none.
    """
    for name in REQUIRED:
        if row[name] is None:
            raise UserError(f"it has no {name}")
    if row["dealer"] not in tuple(SEATS):
        raise UserError(f"its dealer is '{row['dealer']}', not one of {', '.join(SEATS)}")
    check_vulnerability(row["vulnerability"])
    calls = auction_rules.parse_calls(row.get("auction") or "")
    contract, declarer = row.get("contract") or None, row.get("declarer") or None
    if contract is None and calls:
        auction_rules.check_auction(calls)
        contract, declarer = contract_results.describe_contract(calls, row["dealer"])
    played = (row.get("play") or "").split()
    if unknown := set(played) - set(CARD_NAMES):
        raise UserError(f"'{min(unknown)}' in its play is not a card")
    return validated(
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
            (_system(row, SYSTEM_COLUMNS[0]), _system(row, SYSTEM_COLUMNS[1])),
            row.get("kind") or "",
            zhang_tsv.parse_trick_table(row[SOLVED]) if row.get(SOLVED) else None,
        )
    )


def _system(row: dict[str, Any], columns: tuple[str, ...]) -> str:
    """Return the stated bidding system of a pair, else the inferred system, else an empty string.

    `row`: one row of a Parquet file of boards. `columns`: the names of the columns for the stated
    and the inferred system.
    """
    return next((row[name] for name in columns if row.get(name) not in (None, *UNKNOWN)), "")


def statistics(boards: Sequence[Board]) -> dict[str, Any]:
    """Count the boards of a set by their properties (Zhang et al. 2022, Fig. 9).

    The properties are:

    - dealer and vulnerability
    - opener (the seat that makes the first bid), and its distance from the dealer
    - number of calls; also mean and standard deviation, None without auctions
    - first call and opening bid

    Boards without an auction count only for dealer and vulnerability. Returns the counts of each
    property by value.
    """
    auctions = [board for board in boards if board.auction]
    lengths = [len(board.auction) for board in auctions]
    opened = [(board, _opening_place(board.auction)) for board in auctions]
    places = Counter(NOBODY if place is None else PLACES[place] for _, place in opened)
    opener = Counter(
        NOBODY if place is None else SEATS[(SEATS.index(board.dealer) + place) % 4]
        for board, place in opened
    )
    bids = Counter(board.auction[place] for board, place in opened if place is not None)
    first = Counter(board.auction[0] for board in auctions)
    spread = range(min(lengths, default=0), max(lengths, default=-1) + 1)
    ordered = [auction_rules.CALLS[auction_rules.PASS], *auction_rules.CALLS[: auction_rules.BIDS]]
    return {
        "boards": len(boards),
        "auctions": len(auctions),
        "dealer": _counts(Counter(board.dealer for board in boards), SEATS),
        "opener": _counts(opener, (*SEATS, NOBODY)),
        "opener_place": _counts(places, (*PLACES, NOBODY)),
        "vulnerability": _counts(Counter(board.vulnerable for board in boards), VULNERABILITIES),
        "length": {str(n): lengths.count(n) for n in spread},
        "mean_length": float(np.mean(lengths)) if lengths else None,
        "length_deviation": float(np.std(lengths)) if lengths else None,
        "first_call": {call: first[call] for call in ordered if call in first},
        "opening": {bid: bids[bid] for bid in ordered if bid in bids},
    }


def count_annotations(boards: Sequence[Board]) -> dict[str, int]:
    """Count the boards with names, a room, alerts, commentary or tables of results."""
    return {
        "names": sum(any(board.players) for board in boards),
        "rooms": sum(bool(board.room) for board in boards),
        "alerts": sum(bool(board.alerted or board.explanations) for board in boards),
        "commentary": sum(bool(board.comments) for board in boards),
        "tables": sum(bool(board.sections) for board in boards),
    }


def panels(counts: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Select six of the frequency tables that `statistics` returns, and give them readable titles.

    `counts`: the result of `statistics`. Returns for each title the number of boards by value, such
    as the number of boards by dealer.
    """
    return {
        "dealer": counts["dealer"],
        "opener (makes the first bid)": counts["opener"],
        "vulnerability": counts["vulnerability"],
        "calls of an auction": counts["length"],
        "first call": counts["first_call"],
        "opening bid": counts["opening"],
    }


def _opening_place(calls: Sequence[str]) -> int | None:
    """Return the index of the first bid in an auction, or None if there is no bid.

    `calls`: such as P, X, XX, 1C or 7N.
    """
    return next((k for k, call in enumerate(calls) if call not in ("P", "X", "XX")), None)


def _counts(found: Counter[str], names: Iterable[str]) -> dict[str, int]:
    return {name: found[name] for name in names}
