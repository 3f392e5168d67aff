"""Bridge boards of any file format: the record Board, and its validation by the rules of bridge.

Error messages of invalid boards in a file are collected here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from overtrick.core import Array, UserError
from overtrick.games.bridge import auction_rules, cards, contract_results
from overtrick.games.bridge.auction_rules import PASSED_OUT
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, SEATS, TRICKS
from overtrick.games.bridge.contract_results import VULNERABILITIES
from overtrick.games.bridge.trick_rules import NO_CARD, replay_tricks

PartT = TypeVar("PartT")
ROOMS = OPEN, CLOSED = "Open", "Closed"


class Comment(NamedTuple):
    """Text about a board, and the place where it stands.

    place: the number of calls and cards before the text, or the name of the PBN tag that it
    follows; "" stands for the place before all tags.
    """

    text: str
    place: int | str = 0


class Section(NamedTuple):
    """Section of a PBN file that lists rows below a tag, such as ScoreTable."""

    name: str
    header: str  # value of the tag: names of the columns, such as "Rank;Names;TotalScore"
    lines: tuple[str, ...]  # rows as in the file


@dataclass(frozen=True)
class Board:
    """One bridge deal with its auction, contract and card play, as far as they are known.

    Calls are counted from 0, and cards in the order played from 0.
    """

    holder: Array  # (52,) int8 the seat that holds each card
    dealer: str  # N, E, S or W
    vulnerable: str  # None, NS, EW or All
    auction: tuple[str, ...] = ()  # calls: P, X, XX, 1C to 7N
    contract: str | None = None  # such as 4S, 3NX or 2HXX; Pass if all passed
    declarer: str | None = None  # N, E, S or W
    play: tuple[int, ...] = ()  # cards in the order played
    tricks: int | None = None  # tricks of the declaring side
    number: int | None = None  # number of the board
    systems: tuple[str, str] = ("", "")  # bidding systems of North-South and East-West, if known
    kind: str = ""  # kind of players as in the file, such as human or robot
    table: Array | None = None  # (4, 5) int8 double-dummy tricks of N E S W in C D H S NT
    players: tuple[str, str, str, str] = ("",) * 4  # names of North, East, South and West
    teams: tuple[str, str] = ("", "")  # names of the home team and of the visiting team
    room: str = ""  # Open or Closed; "" outside matches of teams
    explanations: Mapping[int, str] = field(default_factory=dict)  # what calls mean, by call
    alerted: tuple[int, ...] = ()  # calls that were alerted
    card_notes: Mapping[int, str] = field(default_factory=dict)  # notes to cards, by card
    marks: Mapping[int, str] = field(default_factory=dict)
    """Marks such as ! and $2 by the number of calls and cards before the marked one."""
    comments: tuple[Comment, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    """Event, Site, Date, Scoring and all tags of PBN that have no field here, in their order.

    Commands of LIN without a field are here too, under their names of two small letters. The values
    of a repeated command are separated by |.
    """
    sections: tuple[Section, ...] = ()

    @property
    def strain(self) -> int:
        """Return the contract's strain, 0 to 4 for C, D, H, S, NT."""
        assert self.contract is not None
        return auction_rules.STRAIN_LETTERS.index(self.contract[1])

    @property
    def auction_is_complete(self) -> bool:
        """Return whether the auction is known to its end."""
        calls = [auction_rules.CALLS.index(call) for call in self.auction]
        return auction_rules.is_complete(calls)


ROUND = 16  # boards in a cycle of dealer and vulnerability (Laws of Duplicate Bridge, Law 2)
ROTATION = np.array([(board + board // 4) % 4 for board in range(ROUND)])
"""Vulnerability code of each board in the cycle: None NS EW All, NS EW All None, ..."""


def rotating_dealer_and_vulnerability(board: Array) -> tuple[Array, Array]:
    """Return dealers (G,) and vulnerabilities (G,) of the boards of a match, numbered from 0.

    Vulnerabilities are indices into VULNERABILITIES.
    """
    return board % 4, ROTATION[board % ROUND]


def finished_board(
    deal: Array, calls: Sequence[int], cards: Sequence[int], tricks: int | None, number: int
) -> Board:
    """Return a board whose auction has ended, and whose cards may have been played.

    deal: (54,) or more: holder of each card, dealer, index of the vulnerability. cards: in the
    order played, or none. tricks: of the declaring side; None if all passed.
    """
    dealer = SEATS[deal[CARDS]]
    contract, declarer = contract_results.describe_contract(calls, dealer)
    return Board(
        deal[:CARDS],
        dealer,
        VULNERABILITIES[deal[CARDS + 1]],
        tuple(auction_rules.CALLS[call] for call in calls),
        contract,
        declarer,
        tuple(int(card) for card in cards),
        tricks,
        number,
    )


def parse_number(said: str) -> int | None:
    """Return a number of at most nine digits; None if the text is not one."""
    return int(said) if re.fullmatch(r"\s*[0-9]{1,9}\s*", said) else None


def check_vulnerability(vulnerable: str) -> None:
    """Raise UserError unless this is a vulnerability: None, NS, EW or All."""
    if vulnerable not in VULNERABILITIES:
        raise UserError(f"vulnerability is {', '.join(VULNERABILITIES)}, not '{vulnerable}'")


@dataclass(frozen=True)
class BoardFile:
    """Valid boards of a file, and one error message for each board that could not be read."""

    boards: list[Board]
    problems: list[str]


def parse_boards(
    path: Path, parts: Iterable[tuple[str, PartT]], parse: Callable[[PartT], Board]
) -> BoardFile:
    """Parse the boards of a file; collect an error message for each invalid board.

    path: name of the file, for error messages.
    parts: (where, content) of each board; `where` is the line or number of the board in the file,
        for error messages.
    parse: function that parses the content of a board and raises UserError if it is invalid.
    """
    boards, problems = list[Board](), list[str]()
    for place, content in parts:
        try:
            boards.append(parse(content))
        except UserError as error:
            problems.append(f"{path}: {place}: {error}")
    return BoardFile(boards, problems)


def require_boards(path: Path, found: BoardFile) -> BoardFile:
    """Return `found` unchanged. Raises UserError if the file `path` has no valid board."""
    if found.problems and not found.boards:
        raise UserError(f"{found.problems[0]}; the file has no valid board")
    if not found.boards:
        raise UserError(f"{path} contains no boards")
    return found


def validated(board: Board) -> Board:
    """Validate a board, and return it; fill in its number of tricks if its card play is complete.

    Raises UserError for

    - an illegal auction, contract or card
    - an impossible number of tricks
    - a contract that differs from the result of the auction
    - a number of tricks that differs from the result of the card play
    """
    if board.auction:
        _check_auction(board)
    if board.contract and not re.fullmatch(f"{PASSED_OUT}|[1-7][CDHSN]X{{0,2}}", board.contract):
        raise UserError(f"'{board.contract}' is not a contract")
    if board.declarer is not None and board.declarer not in tuple(SEATS):
        raise UserError(f"'{board.declarer}' is not a declarer: write N, E, S or W")
    if board.tricks is not None and not 0 <= board.tricks <= TRICKS:
        raise UserError(f"{board.tricks} tricks are recorded, but there are {TRICKS}")
    played = board.contract not in (None, PASSED_OUT)
    if played and board.declarer is None:
        raise UserError(f"{board.contract} has no declarer")
    if not played:
        if board.play or board.tricks is not None:
            raise UserError("there are cards or tricks, but no contract")
        return board
    return _replay_play(board) if board.play else board


def _check_auction(board: Board) -> None:
    """Raise UserError if the auction of a board is illegal or differs from its contract."""
    calls = auction_rules.parse_calls(" ".join(board.auction))
    auction_rules.check_auction(calls, done=board.contract is not None)
    if board.contract is None:
        return
    contract, declarer = contract_results.describe_contract(calls, board.dealer)
    if (contract, declarer) != (board.contract, board.declarer):
        said = f"{contract} by {declarer or 'nobody'}"
        raise UserError(
            f"{board.contract} by {board.declarer} is recorded, but its auction has {said}"
        )


def _replay_play(board: Board) -> Board:
    """Replay the card play of a board; if it is complete, return the board with its tricks.

    Raises UserError for an illegal card, or if the recorded number of tricks contradicts the card
    play.
    """
    if len(board.play) > CARDS:
        raise UserError(f"{len(board.play)} cards are played, but there are {CARDS}")
    hands, play = cards.hand_bits(board.holder[None]), np.full((1, CARDS), NO_CARD)
    play[0, : len(board.play)] = board.play
    leader = (SEATS.index(str(board.declarer)) + 1) % 4
    won, wrong = replay_tricks(hands, np.array([board.strain]), np.array([leader]), play)
    if wrong[0] != NO_CARD:
        card = CARD_NAMES[board.play[wrong[0]]]
        raise UserError(
            f"card {wrong[0] + 1} of its play, {card}, is not held or does not follow suit"
        )
    left = -(-(CARDS - len(board.play)) // 4)  # unfinished tricks
    if board.tricks is None:
        return board if left else replace(board, tricks=int(won[0]))
    if not won[0] <= board.tricks <= won[0] + left:
        raise UserError(f"{board.tricks} tricks are recorded, but its play has {won[0]}")
    return board
