"""Messages of the Blue Chip Bridge table-manager protocol, version 18: write and parse them.

A message is one line of ASCII text that ends with CR LF. Case does not matter. Source:
bluechipbridge.co.uk/protocol.htm, and the controller in OpenSpiel's `bots/bluechip_bridge.py`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from overtrick.core import UserError
from overtrick.games.bridge.auction_rules import BIDS, CALLS, DOUBLE, PASS, REDOUBLE
from overtrick.games.bridge.board_observation import FIRST_PLAY
from overtrick.games.bridge.cards import CARD_NAMES, RANKS, SUITS, TRICKS

VERSION = 18
SEAT_NAMES = ("North", "East", "South", "West")
ANY_SEAT = "ANYPL"  # a client that takes the seat of its port
MAX_LINE_LENGTH = 1000  # characters
VULNERABLE = ("Neither", "N/S", "E/W", "Both")
START_OF_BOARD, END_OF_SESSION = "Start of Board", "End of session"
TOO_LATE = "Error: too late; the table acts for you until the end of the board"
_SEAT = "|".join(SEAT_NAMES)
_VERBS = {"passes": PASS, "doubles": DOUBLE, "redoubles": REDOUBLE}


class ProtocolError(Exception):
    """A line that is not the expected message; its text says what would be."""


class TableAction(NamedTuple):
    """A call or a card in a message, as an action of the game `bridge`."""

    seat: int  # the seat that calls, or whose card is played
    action: int
    explanation: str | None  # meaning of an alerted call; None without an alert


class BoardHeader(NamedTuple):
    """Number, dealer (a seat) and vulnerability (0 None, 1 NS, 2 EW, 3 All) of a board."""

    board: int
    dealer: int
    vulnerable: int


def _parse(pattern: str, line: str, wanted: str) -> re.Match[str]:
    """Match a whole line, ignoring case and the amount of white space.

    Raises ProtocolError that says what was wanted.
    """
    found = re.fullmatch(pattern, " ".join(line.split()), re.IGNORECASE)
    if found is None:
        raise ProtocolError(f"expected {wanted}, not '{line[:60]}'")
    return found


def seat_of(name: str) -> int:
    """Return the seat, 0 to 3 for N, E, S, W, of a seat's name in any case."""
    return SEAT_NAMES.index(name.capitalize())


def format_connect(team: str, seat: int | None) -> str:
    """Return a client's first message; seat None takes the seat of the port."""
    place = ANY_SEAT if seat is None else SEAT_NAMES[seat]
    return f'Connecting "{team}" as {place} using protocol version {VERSION}'


def parse_connect(line: str) -> tuple[str, int | None]:
    """Return the team and the seat (None: any) of a client's first message."""
    found = _parse(
        rf'connecting "([^"]*)" as ({_SEAT}|{ANY_SEAT}) using protocol version (\d+)',
        line,
        'Connecting "TEAM" as SEAT using protocol version 18',
    )
    if int(found[3]) != VERSION:
        raise ProtocolError(f"protocol version {VERSION} is spoken here, not {found[3]}")
    return found[1], None if found[2].upper() == ANY_SEAT else seat_of(found[2])


def format_seated(seat: int, team: str) -> str:
    """Return the answer to a client's first message."""
    return f'{SEAT_NAMES[seat]} ("{team}") seated'


def parse_seated(line: str) -> str:
    """Return the name of the seat, in the server's case, from the answer to a connection."""
    return _parse(rf'({_SEAT}) \("[^"]*"\) seated', line, 'SEAT ("TEAM") seated')[1]


def format_teams(north_south: str, east_west: str) -> str:
    """Return the message with the names of both teams."""
    return f'Teams : N/S : "{north_south}" E/W : "{east_west}"'


def parse_teams(line: str) -> tuple[str, str]:
    """Return the names of North-South's and East-West's team."""
    found = _parse(
        r'teams ?: ?N/S ?:? ?"([^"]*)"[.,]? ?E/W ?:? ?"([^"]*)".*', line,
        'Teams : N/S : "TEAM" E/W : "TEAM"',
    )  # fmt: skip
    return found[1], found[2]


def format_deal(board: BoardHeader) -> str:
    """Return the message with a board's number, dealer and vulnerability."""
    return (
        f"Board number {board.board}. Dealer {SEAT_NAMES[board.dealer]}. "
        f"{VULNERABLE[board.vulnerable]} vulnerable."
    )


def parse_deal(line: str) -> BoardHeader:
    """Return the number, dealer and vulnerability of a board."""
    found = _parse(
        rf"board number (\d+) ?\. dealer ({_SEAT}) ?\. ({'|'.join(VULNERABLE)}) vulnerable ?\.?",
        line,
        "Board number N. Dealer SEAT. Neither (or N/S, E/W, Both) vulnerable.",
    )
    names = [name.lower() for name in VULNERABLE]
    return BoardHeader(int(found[1]), seat_of(found[2]), names.index(found[3].lower()))


def format_hand(owner: str, cards: int) -> str:
    """Return the message with a hand, suits from spades down. owner: a seat's name, or Dummy."""
    suits = []
    for suit in reversed(range(len(SUITS))):
        ranks = [RANKS[r] for r in reversed(range(TRICKS)) if cards >> (TRICKS * suit + r) & 1]
        suits.append(f"{SUITS[suit]} {' '.join(ranks) or '-'}.")
    return f"{owner}'s cards : {' '.join(suits)}"


def parse_hand(line: str, owner: str) -> int:
    """Return the 13 cards of a hand as a bit mask. owner: the seat's name, or Dummy."""
    wanted = f"{owner}'s cards : S A K. H -. D ... C ..."
    found = _parse(rf"{owner}'s cards ?: ?(.*)", line, wanted)
    cards = 0
    for part in found[1].upper().replace("10", "T").split("."):
        words = part.split()
        if not words:
            continue
        if words[0] not in tuple(SUITS):
            raise ProtocolError(f"expected {wanted}, not '{line[:60]}'")
        for rank in "".join(words[1:]).replace("-", ""):
            if rank not in RANKS:
                raise ProtocolError(f"'{rank}' is not a rank in '{line[:60]}'")
            cards |= 1 << (TRICKS * SUITS.index(words[0]) + RANKS.index(rank))
    if cards.bit_count() != TRICKS:
        raise ProtocolError(f"a hand has {TRICKS} cards, not {cards.bit_count()}: '{line[:60]}'")
    return cards


def format_action(name: str, made: int, explanation: str | None = None) -> str:
    """Return the message of a call or a card. name: the seat's name. made: an action."""
    if made >= FIRST_PLAY:
        card = CARD_NAMES[made - FIRST_PLAY].lower()
        return f"{name} plays {card[1]}{card[0]}"
    if made < BIDS:
        said = f"{name} bids {CALLS[made].replace('N', 'NT')}"
    else:
        said = f"{name} {next(verb for verb, call in _VERBS.items() if call == made).upper()}"
    if explanation is None:
        return said
    plain = explanation.encode("ascii", "replace").decode()
    return f"{said} Alert. {plain}".strip()


def parse_action(line: str) -> TableAction:
    """Return the call or the card of a message; an alert's text follows the word Alert."""
    found = _parse(
        rf"({_SEAT}) (?:(passes|doubles|redoubles)|bids ([1-7]) ?(C|D|H|S|NT|N)"
        r"|plays ([2-9TJQKA])([CDHS]))\.?(?: (?:alert|infos)\.? ?(.*))?",
        line,
        "SEAT passes, doubles, redoubles, bids 1NT or plays 4S",
    )
    if found[2]:
        made = _VERBS[found[2].lower()]
    elif found[3]:
        made = CALLS.index(found[3] + found[4].upper()[0])
    else:
        made = FIRST_PLAY + CARD_NAMES.index(found[6].upper() + found[5].upper())
    return TableAction(seat_of(found[1]), made, found[7])


def format_ready(name: str, what: str) -> str:
    """Return a client's message that it is ready, such as North ready for teams."""
    return f"{name} ready {what}"


def parse_ready(line: str, seat: int, what: str) -> None:
    """Check that a client's message says that its seat is ready, such as "for teams".

    Raises ProtocolError for another message.
    """
    wanted = f"{SEAT_NAMES[seat]} ready {what}"
    _parse(re.escape(wanted).replace(r"\ ", " "), line, wanted)


def team_name(player: str) -> str:
    """Return a team's name for a player or a path: its last 40 characters, without quotes."""
    return re.sub(r"[^ !#-~]", "_", player)[-40:]


def check_team(team: str) -> str:
    """Return a team's name. Raises UserError for a name that messages cannot contain."""
    if not re.fullmatch(r"[ !#-~]{1,40}", team):
        raise UserError(f"a team's name has 1 to 40 ASCII characters without quotes, not '{team}'")
    return team
