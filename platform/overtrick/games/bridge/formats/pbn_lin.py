"""Boards in the files that players exchange: PBN and LIN, by way of endplay.

What endplay says of tricks is not used where nobody claimed: of a LIN file it counts them as if
North led to each, and it fails on an unfinished one. They are counted by our own engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from endplay.parsers import lin, pbn
from endplay.types import Bid, Card, Contract, Deal, Player, Vul
from endplay.types import Board as Theirs

from overtrick.core import Array, UserError
from overtrick.core.files import write_text
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import PASSED_OUT
from overtrick.games.bridge.cards import (
    CARD_NAMES,
    CARDS,
    SEATS,
    TRICKS,
    format_deal,
    hand_bits,
    parse_deal,
)
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.double_dummy import DENOMINATIONS
from overtrick.games.bridge.trick_rules import NO_CARD, replay_tricks

VULNERABLE = dict(zip(VULNERABILITIES, (Vul.none, Vul.ns, Vul.ew, Vul.both), strict=True))
LETTER = dict(zip(DENOMINATIONS, auction_rules.STRAIN_LETTERS, strict=True))
DOUBLES = {"": "", "X": "x", "XX": "xx"}


@dataclass(frozen=True)
class Board:
    """One deal as it was bid and played, as far as that is known."""

    holder: Array  # (52,) int8 the seat that holds each card
    dealer: str  # N, E, S or W
    vulnerable: str  # None, NS, EW or All
    auction: tuple[str, ...] = ()  # P X XX 1C .. 7N
    contract: str | None = None  # as 4S, 3NX or 2HXX; Pass if all passed
    declarer: str | None = None
    play: tuple[int, ...] = ()  # the cards in the order played
    tricks: int | None = None  # of the declaring side
    number: int | None = None
    systems: tuple[str, str] = ("", "")  # what is said of North-South's and East-West's bidding
    kind: str = ""  # who sat there, in the words of the file: human, robot
    table: Array | None = None  # (4, 5) int8 double-dummy tricks of N E S W in C D H S NT

    @property
    def strain(self) -> int:
        """The number of the contract's strain."""
        assert self.contract is not None
        return auction_rules.STRAIN_LETTERS.index(self.contract[1])


@dataclass(frozen=True)
class BoardFile:
    """The boards of a file, and a line for each one that was left out."""

    boards: list[Board]
    problems: list[str]


def load(path: Path) -> BoardFile:
    """The boards of a .pbn or .lin file. A bad one is left out, and named with what is wrong; a
    file in which none is sound, or that cannot be read, raises UserError."""
    suffix = path.suffix.lower()
    if suffix not in (".pbn", ".lin"):
        raise UserError(f"{path}: boards are read from .pbn and .lin files")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    boards, problems = [], []
    for number, (line, chunk) in enumerate(_chunks(text, suffix), 1):
        where = f"{path}: board {number}, line {line}"
        try:
            boards.append(_board(chunk, suffix))
        except UserError as error:
            problems.append(f"{where}: {error}")
        except Exception as error:  # endplay raises many kinds at what it cannot read
            problems.append(f"{where}: it cannot be read ({type(error).__name__}: {error})")
    return board_file(path, boards, problems)


def board_file(path: Path, boards: list[Board], problems: list[str]) -> BoardFile:
    """What was read of a file. Raises UserError if no board of it is sound."""
    if problems and not boards:
        raise UserError(f"{problems[0]}; no board of the file is sound")
    if not boards:
        raise UserError(f"{path} holds no boards")
    return BoardFile(boards, problems)


def save(path: Path, boards: Sequence[Board]) -> None:
    """Write boards as PBN or LIN, by the file's ending. Raises UserError for another one, and for a
    board that LIN cannot hold: it tells the contract by the auction alone."""
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


def validated(board: Board) -> Board:
    """The same board, with the tricks of a play to the last card. Raises UserError for auctions,
    contracts or tricks that cannot be, a contract that the auction does not reach, cards that
    could not be played, or tricks that the play contradicts."""
    if board.auction:
        _check_auction(board)
    if board.contract and not re.fullmatch(f"{PASSED_OUT}|[1-7][CDHSN]X{{0,2}}", board.contract):
        raise UserError(f"'{board.contract}' is no contract")
    if board.tricks is not None and not 0 <= board.tricks <= TRICKS:
        raise UserError(f"{board.tricks} tricks are recorded, but there are {TRICKS}")
    played = board.contract not in (None, PASSED_OUT)
    if played and board.declarer is None:
        raise UserError(f"nobody declares {board.contract}")
    if not played:
        if board.play or board.tricks is not None:
            raise UserError("it was played, but in no contract")
        return board
    return _counted(board) if board.play else board


def _check_auction(board: Board) -> None:
    """Raise UserError for an auction that is not lawful, or not that of the board's contract."""
    calls = auction_rules.parse_calls(" ".join(board.auction))
    auction_rules.check_auction(calls, done=board.contract is not None)
    if board.contract is None:
        return
    contract, declarer = auction_rules.describe_contract(calls, board.dealer)
    if (contract, declarer) != (board.contract, board.declarer):
        said = f"{contract} by {declarer or 'nobody'}"
        raise UserError(
            f"{board.contract} by {board.declarer} is recorded, but its auction has {said}"
        )


def _counted(board: Board) -> Board:
    """A played board with its tricks. Raises UserError as checked."""
    cards = np.full((1, CARDS), NO_CARD)
    cards[0, : len(board.play)] = board.play
    leader = (SEATS.index(str(board.declarer)) + 1) % 4
    won, wrong = replay_tricks(
        hand_bits(board.holder[None]), np.array([board.strain]), np.array([leader]), cards
    )
    if wrong[0] != NO_CARD:
        card = CARD_NAMES[board.play[wrong[0]]]
        raise UserError(f"card {wrong[0] + 1} of its play, {card}, is not held or does not follow")
    left = -(-(CARDS - len(board.play)) // 4)  # tricks that nobody has won yet
    if board.tricks is None:
        return board if left else replace(board, tricks=int(won[0]))
    if not won[0] <= board.tricks <= won[0] + left:
        raise UserError(f"{board.tricks} tricks are recorded, but its play has {won[0]}")
    return board


def _chunks(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """The first line of each board, from 1, and its text."""
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
            lines.append(_as_before(line, last))
        elif lines:
            yield start, "\n".join(lines) + "\n"
            lines = []


def _as_before(line: str, last: dict[str, str]) -> str:
    """A PBN line in which # stands for the value that its tag had last."""
    if found := re.match(r'\[(\w+) "(.*)"\]', line):
        tag, value = found[1], found[2]
        last[tag] = last.get(tag, value) if value == "#" else value
        return line.replace('"#"', f'"{last[tag]}"')
    return line


def _board(chunk: str, suffix: str) -> Board:
    """One board of its text. Raises UserError, or what endplay raises."""
    unknown = False  # who declares
    if suffix == ".pbn":
        theirs = pbn.loads(chunk)[0]
        result = re.search(r'\[Result "(\d+)"\]', chunk)
        tricks, play = int(result[1]) if result else None, list(theirs.play)
        if dealer := re.search(r'\[Dealer "([NESW])"\]', chunk):
            theirs.dealer = Player.find(dealer[1])  # endplay drops it where there is no contract
        if not theirs.auction and not re.search(r'\[Declarer "[NESW]"\]', chunk):
            unknown = True  # endplay takes North
    else:
        claim = re.search(r"\|mc\|(\d+)\|", chunk)
        tricks = int(claim[1]) if claim else None
        play = [Card(each) for each in re.findall(r"\|pc\|(\w\w)(?=\|)", chunk)]
        if "md|" not in chunk:
            raise UserError("no deal (md) in it")
        theirs = lin.loads("pn|,,,|" + re.sub(r"(pn\|[^|]*\||pc\|\w\w\||mc\|\d+\|)", "", chunk))[0]
    calls = tuple(_call(bid) for bid in theirs.auction)
    if calls == ("P",) * 3 and re.search(r"^AP\b", chunk, re.MULTILINE):
        calls += ("P",)  # endplay takes "all pass" for three of them, also where nobody has bid
    contract, declarer = _contract(theirs)
    if contract is not None and unknown:
        declarer = None
    if theirs.dealer is None:
        raise UserError("nobody deals")
    return validated(
        Board(
            parse_deal(theirs.deal.to_pbn()),
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


def _contract(theirs: Theirs) -> tuple[str | None, str | None]:
    """The contract and its declarer."""
    contract = theirs.contract
    if contract is None:
        return None, None
    if contract.level == 0:
        return PASSED_OUT, None
    doubled = contract.penalty.abbr.upper()
    return f"{contract.level}{LETTER[contract.denom]}{doubled}", contract.declarer.abbr


def _call(bid: Any) -> str:
    """P X XX 1C .. 7N."""
    if hasattr(bid, "level"):
        return f"{bid.level}{LETTER[bid.denom]}"
    return {"": "P", "x": "X", "xx": "XX"}[bid.penalty.abbr.lower()]


def _theirs(board: Board) -> Theirs:
    """The board as endplay has it."""
    contract = None
    if board.contract == PASSED_OUT:
        contract = Contract()
    elif board.contract is not None:
        said = board.contract[:2] + (board.declarer or "") + DOUBLES[board.contract[2:]]
        contract = Contract(said)
        if board.tricks is not None:
            contract.result = board.tricks - int(board.contract[0]) - 6
    return Theirs(
        Deal(format_deal(board.holder)),
        [Bid({"P": "pass", "X": "x", "XX": "xx"}.get(call, call)) for call in board.auction],
        [Card(CARD_NAMES[card]) for card in board.play],
        board.number,
        vul=VULNERABLE[board.vulnerable],
        dealer=Player(SEATS.index(board.dealer)),
        contract=contract,
        claimed=len(board.play) < CARDS and board.tricks is not None,
    )


def _to_pbn(board: Board) -> str:
    said = pbn.dumps([_theirs(board)])
    lines = [line for line in said.splitlines() if not line.startswith("%") and line.strip()]
    if board.number is None:
        lines = [line for line in lines if not line.startswith("[Board ")]
    if board.tricks is None and board.contract != PASSED_OUT:
        lines = ['[Result "?"]' if line.startswith("[Result") else line for line in lines]
    return "\n".join(lines) + "\n\n"


def _to_lin(board: Board) -> str:
    return lin.dumps([_theirs(board)]).strip() + "\n"
