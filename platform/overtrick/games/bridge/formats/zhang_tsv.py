"""Load and save boards as tab-separated text, in the two formats of Zhang et al. 2022, Tables 2-3.

The first line names the columns; every other line is a board. Columns:

- Vulnerability: None, NS, EW or All
- Opener: the dealer, N, E, S or W
- North, East, South, West: hands, spades first, such as Q94.KJ97.52.9763
- Bid Sequence: a complete auction
- Double dummy analysis (only in the second format): double-dummy tricks as in `format_trick_table`
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from overtrick.core import Array, UserError
from overtrick.core.files import read_text, write_text
from overtrick.games.bridge import auction_rules, contract_results
from overtrick.games.bridge.boards import (
    Board,
    BoardFile,
    check_vulnerability,
    parse_boards,
    require_boards,
)
from overtrick.games.bridge.cards import SEATS, TRICKS, format_deal, parse_deal

HANDS = ("North", "East", "South", "West")
COLUMNS = ("Vulnerability", "Opener", *HANDS, "Bid Sequence")
WITH_TRICKS = (*COLUMNS, "Double dummy analysis")

ORDER = np.ix_([0, 2, 1, 3], [4, 3, 2, 1, 0])
"""Index that converts a trick table between our order (NESW, CDHSN) and the file's (NSEW, NSHDC).
The same index works in both directions."""


def format_trick_table(table: Array) -> str:
    """Format a double-dummy table (4, 5) as 20 hex digits.

    The rows of the table are the declarers NESW, its columns the strains CDHSN. The digits are in
    the order of declarers N, S, E, W, and for each declarer in the order of strains notrump,
    spades, hearts, diamonds, clubs.
    """
    return "".join(f"{tricks:x}" for tricks in table[ORDER].ravel().tolist())


def parse_trick_table(text: str) -> Array:
    """Parse a double-dummy table from 20 hex digits; return tricks (4, 5) int8.

    The rows are the declarers NESW, the columns the strains CDHSN. `format_trick_table` describes
    the order of the digits. Raises UserError unless the text has 20 hex digits from 0 to d (13).
    """
    digits = text.lower()
    most = f"{TRICKS:x}"
    if len(digits) != 20 or any(each not in "0123456789abcdef" or each > most for each in digits):
        raise UserError(f"'{text}' is not a double-dummy analysis: 20 digits from 0 to {most}")
    table = np.array([int(each, 16) for each in digits], np.int8)
    return table.reshape(4, 5)[ORDER]


def load(path: Path) -> BoardFile:
    """Load the valid boards of a tab-separated file, and an error message for each invalid row.

    The boards contain double-dummy tricks if the file has this column. Raises UserError if the file
    cannot be read or has no valid row.
    """
    header, *lines = read_text(path).splitlines() or [""]
    columns = tuple(name.strip() for name in header.split("\t"))
    if columns not in (COLUMNS, WITH_TRICKS):
        wanted = ", ".join(WITH_TRICKS[:-1])
        raise UserError(
            f"{path}: line 1 must name the columns, separated by tabs: {wanted}, and, if there "
            f"are tricks, {WITH_TRICKS[-1]}"
        )
    rows = ((f"line {number}", line) for number, line in enumerate(lines, 2) if line.strip())
    found = parse_boards(path, rows, partial(_parse_row, columns=columns))
    return require_boards(path, found)


def save(path: Path, boards: Sequence[Board], tables: Array | None = None) -> None:
    """Save R boards to a tab-separated file.

    tables: (R, 4, 5) double-dummy tricks of the boards; None omits this column. Raises UserError
    for a board without a complete auction, or if `tables` does not have R entries.
    """
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
        cells += [] if tables is None else [format_trick_table(tables[number])]
        lines.append("\t".join(cells))
    write_text(path, "\n".join(lines) + "\n")


def _parse_row(line: str, columns: tuple[str, ...]) -> Board:
    """Parse one line of a file as a board. columns: names of the columns of the file.

    Raises UserError for an invalid line.
    """
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != len(columns):
        raise UserError(f"{len(cells)} columns, not {len(columns)}")
    vulnerable, opener, *hands, bids = cells[: len(COLUMNS)]
    check_vulnerability(vulnerable)
    dealer = opener[0] if opener in HANDS else opener
    if dealer not in tuple(SEATS):
        raise UserError(f"the opener is N, E, S or W, not '{opener}'")
    for name, hand in zip(HANDS, hands, strict=True):
        if hand.count(".") != 3 or " " in hand:
            raise UserError(f"{name}'s cards '{hand}' are not a hand such as Q94.KJ97.52.9763")
    calls = auction_rules.parse_calls(bids)
    auction_rules.check_auction(calls)
    return Board(
        parse_deal("N:" + " ".join(hands)),
        dealer,
        vulnerable,
        tuple(auction_rules.CALLS[made] for made in calls),
        *contract_results.describe_contract(calls, dealer),
        table=parse_trick_table(cells[-1]) if columns == WITH_TRICKS else None,
    )
