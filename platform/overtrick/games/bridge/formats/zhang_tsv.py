"""Boards as rows of text, in the two formats of Zhang et al. 2022 (Tables 2 and 3): a line each,
columns parted by tabs, under a line with their names. The second format has one column more, the
double-dummy tricks.

Vulnerability is None, NS, EW or All; Opener, who calls first, N, E, S or W; a hand has its spades
first, as Q94.KJ97.52.9763; the Bid Sequence is a whole auction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from overtrick.core import Array, UserError
from overtrick.core.files import write_text
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.cards import SEATS, TRICKS, format_deal, parse_deal
from overtrick.games.bridge.formats.pbn_lin import VULNERABLE, Board

HANDS = ("North", "East", "South", "West")
COLUMNS = ("Vulnerability", "Opener", *HANDS, "Bid Sequence")
WITH_TRICKS = (*COLUMNS, "Double dummy analysis")

ORDER = np.ix_([0, 2, 1, 3], [4, 3, 2, 1, 0])
"""From seats N E S W and strains C D H S N to N S E W and N S H D C, and back."""


@dataclass(frozen=True)
class Rows:
    """The boards of a text, and a line for each one that was left out."""

    boards: list[Board]
    tables: Array | None  # (R, 4, 5) int8 double-dummy tricks; None in the format without
    problems: list[str]


def format_trick_table(table: Array) -> str:
    """Double-dummy tricks (4, 5) as 20 hexadecimal digits: North, South, East and West declare in
    notrump, spades, hearts, diamonds and clubs."""
    return "".join(f"{tricks:x}" for tricks in table[ORDER].ravel().tolist())


def parse_trick_table(text: str) -> Array:
    """(4, 5) int8 double-dummy tricks from 20 hexadecimal digits. Raises UserError."""
    digits = text.lower()
    most = f"{TRICKS:x}"
    if len(digits) != 20 or any(each not in "0123456789abcdef" or each > most for each in digits):
        raise UserError(f"'{text}' is no double-dummy analysis: 20 digits from 0 to {most}")
    table = np.array([int(each, 16) for each in digits], np.int8)
    return table.reshape(4, 5)[ORDER]


def load(path: Path) -> Rows:
    """The boards of a file. A bad row is left out, and named with what is wrong; a file in which
    none is sound, or that cannot be read, raises UserError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UserError(f"cannot read {path}: {why}") from None
    header, *lines = text.splitlines() or [""]
    columns = tuple(name.strip() for name in header.split("\t"))
    if columns not in (COLUMNS, WITH_TRICKS):
        wanted = ", ".join(WITH_TRICKS[:-1])
        raise UserError(
            f"{path}: line 1 must name the columns, parted by tabs: {wanted}, and, if there are "
            f"tricks, {WITH_TRICKS[-1]}"
        )
    boards: list[Board] = []
    tables: list[Array] = []
    problems: list[str] = []
    for number, line in enumerate(lines, 2):
        if not line.strip():
            continue
        try:
            board, table = _read(line, columns)
        except UserError as error:
            problems.append(f"{path}: line {number}: {error}")
        else:
            boards.append(board)
            tables += [] if table is None else [table]
    if not boards:
        if problems:
            raise UserError(f"{problems[0]}; no row of the file is sound")
        raise UserError(f"{path} holds no boards")
    return Rows(boards, np.stack(tables) if tables else None, problems)


def save(path: Path, boards: Sequence[Board], tables: Array | None = None) -> None:
    """Write boards as rows, with their double-dummy tricks (R, 4, 5) if they are given. Raises
    UserError for a board without a whole auction, or for tricks of more or fewer boards."""
    if tables is not None and len(tables) != len(boards):
        raise UserError(f"{path}: {len(boards)} boards with {len(tables)} tables of tricks")
    lines = ["\t".join(COLUMNS if tables is None else WITH_TRICKS)]
    for number, board in enumerate(boards):
        try:
            auction_rules.check_auction(auction_rules.parse_calls(" ".join(board.auction)))
        except UserError as error:
            raise UserError(f"{path}: board {number + 1}: {error}") from None
        hands = format_deal(board.holder).removeprefix("N:").split()
        cells = [board.vulnerable, board.dealer, *hands, " ".join(board.auction)]
        lines.append(
            "\t".join(cells + ([] if tables is None else [format_trick_table(tables[number])]))
        )
    write_text(path, "\n".join(lines) + "\n")


def _read(line: str, columns: tuple[str, ...]) -> tuple[Board, Array | None]:
    """One row, and its tricks if it has any. Raises UserError."""
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != len(columns):
        raise UserError(f"{len(cells)} columns, not {len(columns)}")
    vulnerable, opener, *hands, bids = cells[: len(COLUMNS)]
    if vulnerable not in VULNERABLE:
        raise UserError(f"vulnerability is {', '.join(VULNERABLE)}, not '{vulnerable}'")
    dealer = opener[0] if opener in HANDS else opener
    if dealer not in tuple(SEATS):
        raise UserError(f"the opener is N, E, S or W, not '{opener}'")
    for name, hand in zip(HANDS, hands, strict=True):
        if hand.count(".") != 3 or " " in hand:
            raise UserError(f"{name}'s cards '{hand}' are no hand, such as Q94.KJ97.52.9763")
    calls = auction_rules.parse_calls(bids)
    auction_rules.check_auction(calls)
    contract, declarer = auction_rules.describe_contract(calls, dealer)
    board = Board(
        parse_deal("N:" + " ".join(hands)),
        dealer,
        vulnerable,
        tuple(auction_rules.CALLS[made] for made in calls),
        contract,
        declarer,
    )
    return board, parse_trick_table(cells[-1]) if columns == WITH_TRICKS else None
