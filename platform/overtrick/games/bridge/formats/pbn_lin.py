"""Load and save boards in the formats PBN and LIN, with the parsers of the package endplay."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from endplay import types as endplay_types
from endplay.parsers import lin, pbn
from endplay.types import Bid, Card, Contract, Deal, Denom, Player, Vul

from overtrick.core import UserError
from overtrick.core.files import read_text, write_text
from overtrick.games.bridge import auction_rules, cards
from overtrick.games.bridge.auction_rules import PASSED_OUT
from overtrick.games.bridge.boards import (
    Board,
    BoardFile,
    parse_boards,
    require_boards,
    validated,
)
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, SEATS
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.double_dummy import DDS_STRAINS

VULNERABLE = dict(zip(VULNERABILITIES, (Vul.none, Vul.ns, Vul.ew, Vul.both), strict=True))
LETTER = dict(zip(map(Denom, DDS_STRAINS), auction_rules.STRAIN_LETTERS, strict=True))
DOUBLES = {"": "", "X": "x", "XX": "xx"}


def load(path: Path) -> BoardFile:
    """Load the valid boards of a .pbn or .lin file, and an error message for each invalid board.

    Raises UserError if the file cannot be read or has no valid board.
    """
    suffix = path.suffix.lower()
    if suffix not in (".pbn", ".lin"):
        raise UserError(f"{path}: boards are read from .pbn and .lin files")
    chunks = enumerate(_chunks(read_text(path, errors="replace"), suffix), 1)
    parts = ((f"board {number}, line {line}", chunk) for number, (line, chunk) in chunks)
    return require_boards(path, parse_boards(path, parts, partial(_board, suffix=suffix)))


def save(path: Path, boards: Sequence[Board]) -> None:
    """Save boards to a file in the format of its suffix, .pbn or .lin.

    Raises UserError for any other suffix. Raises UserError if a board to save as LIN has a contract
    but no auction, because LIN stores a contract only as an auction.
    """
    suffix = path.suffix.lower()
    if suffix not in (".pbn", ".lin"):
        raise UserError(f"{path}: boards are written to .pbn and .lin files")
    for number, board in enumerate(boards, 1):
        if suffix == ".lin" and board.contract is not None and not board.auction:
            raise UserError(
                f"{path}: board {number} has a contract but no auction: write a .pbn file"
            )
    write = _to_pbn if suffix == ".pbn" else _to_lin
    write_text(path, "".join(write(board) for board in boards))


def _chunks(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Split the text of a PBN or LIN file into boards; yield the line number and text of each.

    The line number is that of the board's first line, from 1. suffix: .pbn or .lin.
    """
    last: dict[str, str] = {}
    start, lines = 1, list[str]()
    if suffix == ".lin":
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r"(pn|qx|md)\|", line) and any("md|" in each for each in lines):
                yield start, "".join(lines)
                lines = []
            if line.strip():
                start = start if lines else number
                lines.append(line.strip())
        if lines:
            yield start, "".join(lines)
        return
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip():
            if line.startswith("%"):
                continue
            start = start if lines else number
            lines.append(_expand_repeated_tag(line, last))
        elif lines:
            yield start, "\n".join(lines) + "\n"
            lines = []


def _expand_repeated_tag(line: str, last: dict[str, str]) -> str:
    """Replace the value "#" of the PBN tag in `line`, if any, by the tag's previous value.

    last: the latest value of each tag, updated in place.
    """
    if found := re.match(r'\[(\w+) "(.*)"\]', line):
        tag, value = found[1], found[2]
        last[tag] = last.get(tag, value) if value == "#" else value
        return line.replace('"#"', f'"{last[tag]}"')
    return line


def _board(chunk: str, suffix: str) -> Board:
    """Parse and validate the text `chunk` of one board. suffix: .pbn or .lin.

    Raises UserError, or any exception of the package endplay, if the board is invalid.
    """
    declarer_unknown = False
    if suffix == ".pbn":
        theirs = pbn.loads(chunk)[0]
        result = re.search(r'\[Result "(\d+)"\]', chunk)
        tricks, play = int(result[1]) if result else None, list(theirs.play)
        if dealer := re.search(r'\[Dealer "([NESW])"\]', chunk):
            theirs.dealer = Player.find(dealer[1])  # endplay drops it if there is no contract
        if not theirs.auction and not re.search(r'\[Declarer "[NESW]"\]', chunk):
            declarer_unknown = True  # endplay assumes North
    else:
        claim = re.search(r"\|mc\|(\d+)\|", chunk)
        tricks = int(claim[1]) if claim else None
        play = [Card(each) for each in re.findall(r"\|pc\|(\w\w)(?=\|)", chunk)]
        if "md|" not in chunk:
            raise UserError("the deal (md) is missing")
        theirs = lin.loads("pn|,,,|" + re.sub(r"(pn\|[^|]*\||pc\|\w\w\||mc\|\d+\|)", "", chunk))[0]
    calls = tuple(_call(bid) for bid in theirs.auction)
    if calls == ("P",) * 3 and re.search(r"^AP\b", chunk, re.MULTILINE):
        calls += ("P",)  # endplay reads "all pass" as three passes, even if there is no bid
    contract, declarer = _contract(theirs)
    if contract is not None and declarer_unknown:
        declarer = None
    if theirs.dealer is None:
        raise UserError("the dealer is missing")
    return validated(
        Board(
            cards.parse_deal(theirs.deal.to_pbn()),
            SEATS[int(theirs.dealer)],
            next(said for said, vul in VULNERABLE.items() if vul == (theirs.vul or Vul.none)),
            calls,
            contract,
            declarer,
            tuple(CARD_NAMES.index(LETTER[card.suit] + card.rank.abbr) for card in play),
            None if contract == PASSED_OUT else tricks,
            theirs.board_num,
        )
    )


def _contract(theirs: endplay_types.Board) -> tuple[str | None, str | None]:
    """Return the contract and the declarer of a Board of the Python package endplay.

    The contract is text such as "3NX". An unknown contract or declarer is None.
    """
    contract = theirs.contract
    if contract is None:
        return None, None
    if contract.level == 0:
        return PASSED_OUT, None
    doubled = contract.penalty.abbr.upper()
    return f"{contract.level}{LETTER[contract.denom]}{doubled}", contract.declarer.abbr


def _call(bid: Any) -> str:
    """Convert a call, an object of the package endplay, to text: P, X, XX or 1C to 7N."""
    if hasattr(bid, "level"):
        return f"{bid.level}{LETTER[bid.denom]}"
    return {"": "P", "x": "X", "xx": "XX"}[bid.penalty.abbr.lower()]


def _endplay_board(board: Board) -> endplay_types.Board:
    """Convert a Board of this package to a Board of the package endplay."""
    contract = None
    if board.contract == PASSED_OUT:
        contract = Contract()
    elif board.contract is not None:
        said = board.contract[:2] + (board.declarer or "") + DOUBLES[board.contract[2:]]
        contract = Contract(said)
        if board.tricks is not None:
            contract.result = board.tricks - int(board.contract[0]) - 6
    return endplay_types.Board(
        Deal(cards.format_deal(board.holder)),
        [Bid({"P": "pass", "X": "x", "XX": "xx"}.get(call, call)) for call in board.auction],
        [Card(CARD_NAMES[card]) for card in board.play],
        board.number,
        vul=VULNERABLE[board.vulnerable],
        dealer=Player(SEATS.index(board.dealer)),
        contract=contract,
        claimed=len(board.play) < CARDS and board.tricks is not None,
    )


def _to_pbn(board: Board) -> str:
    said = pbn.dumps([_endplay_board(board)])
    lines = [line for line in said.splitlines() if not line.startswith("%") and line.strip()]
    if board.number is None:
        lines = [line for line in lines if not line.startswith("[Board ")]
    if board.tricks is None and board.contract != PASSED_OUT:
        lines = ['[Result "?"]' if line.startswith("[Result") else line for line in lines]
    return "\n".join(lines) + "\n\n"


def _to_lin(board: Board) -> str:
    return lin.dumps([_endplay_board(board)]).strip() + "\n"
