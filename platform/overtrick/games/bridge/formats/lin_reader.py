"""Parse boards in LIN, the format of Bridge Base Online.

A file is a list of commands `xx|value|` with names of two letters. The commands of a match come
before its boards: `vg` names the event and the teams, `rs` the results of both rooms, `pn` eight
players. The command `qx|o1|` begins board 1 of the open room, `qx|c1|` that of the closed room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from overtrick.core import Array, UserError
from overtrick.games.bridge import auction_rules, cards, contract_results
from overtrick.games.bridge.auction_rules import CALLS, PASSED_OUT
from overtrick.games.bridge.boards import (
    CLOSED,
    OPEN,
    ROOMS,
    Board,
    Comment,
    parse_number,
    validated,
)
from overtrick.games.bridge.cards import CARD_NAMES, RANKS, SEATS, SUITS

Commands = list[tuple[str, str]]  # (name, value)
LAYOUT = ("st", "rh", "pg", "va", "sa", "up", "ht", "lf", "rt")
"""Commands that arrange the page of a viewer. They are not kept."""
PARSED = ("pn", "md", "sv", "mb", "an", "pc", "mc", "nt")
"""Commands with a field in Board."""
RECORD = ("mb", "pc", "mc")  # commands of the auction and the card play
TEXTS = ("nt", "an")  # commands in whose values a line break stands for a blank
SEAT_ORDER = "SWNE"  # of players, hands and the number of the dealer
VULNERABLE = {
    "": "None", "o": "None", "0": "None", "-": "None", "n": "NS", "e": "EW", "b": "All",
}  # fmt: skip
CALL_LETTERS = {"p": "P", "d": "X", "r": "XX"}
SCORING = {"I": "IMP", "P": "MP", "B": "BAM"}
EVENT_TAGS = (("Event", 0), ("Stage", 1), ("HomeCarryOver", 6), ("VisitCarryOver", 8))
"""Tags of the fields of the command vg."""
VG_FIELDS = 9
STARTS = ("vg", "qx", "pn", "md")  # commands with which a board may begin
_START = re.compile(rf"^(?=[ \t]*(?:{'|'.join(STARTS)})\|)", re.MULTILINE)
ROOM = re.compile(r"([oc])([0-9]{1,9})(?![0-9])")
_RESULT = re.compile(r"([1-7])(NT?|[SHDC])(X{0,2})([NESW])(=|[+-][0-9]{1,2})", re.IGNORECASE)
_PASS = ("PASS", "P")


@dataclass
class _Match:
    """Commands before the boards of a match."""

    commands: Commands = field(default_factory=list)

    def value(self, name: str) -> str:
        """Return the value of the first command of a name; an empty text if there is none."""
        return next((value for each, value in self.commands if each == name), "")

    def event(self) -> list[str]:
        """Return the nine fields of the command vg: event, segment, scoring, boards, teams."""
        return (_split_list(self.value("vg")) + [""] * VG_FIELDS)[:VG_FIELDS]

    def of_board(self, name: str, room: str, number: int) -> str:
        """Return the entry of a board in a list with two entries for each board.

        name: rs or mp. The boards are those of the command bn, else they begin with the first
        board of vg.
        """
        numbers, first = self.value("bn"), self.event()[3]
        if numbers:
            listed = [parse_number(each) for each in numbers.split(",")]
            place = listed.index(number) if number in listed else -1
        else:
            place = number - (parse_number(first) or 1)
        entries = _split_list(self.value(name))
        index = 2 * place + ROOMS.index(room)
        return entries[index] if place >= 0 and index < len(entries) else ""


@dataclass
class Part:
    """Commands of one board of a file."""

    line: int  # the line on which it begins, from 1
    number: int  # of the board in the file, from 1
    commands: Commands = field(default_factory=list)
    match: _Match = field(default_factory=_Match)
    first: bool = False  # whether it is the first board of its match

    @property
    def place(self) -> tuple[str, int] | None:
        """The room and the number of the board in its match; None outside matches."""
        found = ROOM.match(self.value("qx") or "")
        return found and ((OPEN if found[1] == "o" else CLOSED), int(found[2]))

    def value(self, name: str) -> str | None:
        """Return the value of the first command of a name; None if there is none."""
        return next((value for each, value in self.commands if each == name), None)


def split(text: str) -> Iterator[Part]:
    """Split the text of a LIN file into boards.

    A match that has results of both rooms for a board, but the board of only one room, yields a
    board without an auction for the other room, if the first room has a valid deal.
    """
    found, part = list[Part](), Part(1, 1)
    commands = list(_commands(text))
    for k, (line, name, value) in enumerate(commands):
        opens = name in ("vg", "qx") and part.value("qx") is not None
        starts = name in STARTS and part.value("md") is not None
        if name == "pn" and starts:
            following = (commands[place][1] for place in range(k + 1, len(commands)))
            starts = not _names_players(part, following)
        if opens or starts:
            found.append(part)
            part = Part(line, len(found) + 1, match=part.match)
        if name == "qx" and ROOM.match(value) and (part.value("vg") is not None or not found):
            part = Part(line, part.number, match=_Match(part.commands), first=True)
        if not part.commands:
            part.line = line
        part.commands.append((name, value))
    if part.commands:
        found.append(part)
    yield from _both_rooms(found)


def _commands(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, name and value of each command. A line may begin with a board's command.

    A text that is not the name of a command is yielded too, for an error message.
    """
    line = 1
    for segment in _START.split(text):
        pieces = segment.split("|")
        for name, value in zip(pieces[::2], [*pieces[1::2], ""], strict=False):
            command = name.strip().lower()
            if command or value.strip():
                said = _join_lines(value.strip("\n"), " " if command in TEXTS else "")
                yield line + name[: len(name) - len(name.lstrip())].count("\n"), command, said
            line += name.count("\n") + value.count("\n")


def _join_lines(text: str, blank: str) -> str:
    """Join the lines of a text by `blank`, without the blanks around the line breaks."""
    first, *others = text.split("\n")
    if not others:
        return text
    parts = [first.rstrip(" \t"), *(each.strip(" \t") for each in others[:-1])]
    return blank.join([*parts, others[-1].lstrip(" \t")])


def _names_players(part: Part, following: Iterable[str]) -> bool:
    """Return whether the command pn after the deal of a board names the players of that board.

    It belongs to the next board if the board has calls, cards or players already, or if another
    deal comes before the next call, room or match. following: names of the commands after it.
    """
    if any(part.value(name) is not None for name in ("pn", *RECORD)):
        return False
    return next((name for name in following if name in ("md", "qx", "vg", *RECORD)), "") != "md"


def _both_rooms(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield boards; add the deal of the other room to a board of a match without a deal.

    Also yield the boards of a room that has only results.
    """
    deals = {(id(part.match), part.place): part for part in parts if part.value("md") is not None}
    present = {(id(part.match), part.place) for part in parts}
    for part in parts:
        if part.place is None:
            yield part
            continue
        room, number = part.place
        other = CLOSED if room == OPEN else OPEN
        partner = (id(part.match), (other, number))
        if part.value("md") is None and partner in deals:
            part.commands += _deal_of(deals[partner])
        yield part
        said = part.match.of_board("rs", *partner[1])
        played = _RESULT.fullmatch(said) or said.upper() in _PASS
        if played and partner not in present and _has_valid_deal(part):
            present.add(partner)
            commands = [("qx", f"{other[0].lower()}{number}"), *_deal_of(part)]
            yield Part(part.line, part.number, commands, part.match)


def _has_valid_deal(part: Part) -> bool:
    """Return whether the deal and the vulnerability of a board are valid."""
    record = _Record(part.place)
    try:
        _deal(part.value("md") or "")
        for name, value in _deal_of(part):
            record.add(name, value)
    except UserError:  # the board itself is parsed too, and reports the error
        return False
    return True


def _deal_of(part: Part) -> Commands:
    """Return the commands that name the deal, the vulnerability and the number of a board."""
    return [each for each in part.commands if each[0] in ("md", "sv", "ah")]


def parse(part: Part) -> Board:
    """Parse and validate one board. Raises UserError if it is invalid."""
    if (deal := part.value("md")) is None:
        raise UserError("the deal (md) is missing")
    dealer, holder = _deal(deal)
    record, place = _Record(part.place), part.place
    tags, teams = dict[str, str](), ("", "")
    if place:
        event = part.match.event()
        teams, tags = (event[5], event[7]), _match_tags(part.match, *place)
        record.name_players(part.match.value("pn"))
        for name, value in part.match.commands:
            if name == "nt" and part.first:
                record.comment(value)
    for name, value in part.commands:
        record.add(name, value)
    tags |= {name: "|".join(values) for name, values in record.others.items()}
    contract, declarer, result = _result(part, dealer, record.calls, tags)
    if None not in (record.tricks, result) and record.tricks != result:
        claimed = f"{record.tricks} tricks are claimed (mc)"
        raise UserError(f"{claimed}, but the results (rs) have {result}")
    north, east, south, west = (record.players[SEAT_ORDER.index(seat)] for seat in SEATS)
    return validated(
        Board(
            holder,
            dealer,
            record.vulnerable,
            tuple(CALLS[call] for call in record.calls),
            contract,
            declarer,
            tuple(record.cards),
            record.tricks if result is None else result,
            record.number,
            players=(north, east, south, west),
            teams=teams,
            room=record.room,
            explanations=record.explanations,
            alerted=tuple(record.alerted),
            comments=tuple(record.comments),
            tags=tags,
        )
    )


class _Record:
    """Contents of the commands of one board.

    place: its room and number in a match; None outside matches.
    """

    def __init__(self, place: tuple[str, int] | None) -> None:
        self.in_match = place is not None
        self.room = place[0] if place else ""
        self.number = place[1] if place else None
        self.players = [""] * 4  # in the order of SEAT_ORDER
        self.vulnerable = "None"
        self.calls, self.cards = list[int](), list[int]()
        self.tricks: int | None = None
        self.alerted = list[int]()
        self.explanations = dict[int, str]()
        self.comments = list[Comment]()
        self.others = dict[str, list[str]]()  # values of commands without a field
        self.parsers: dict[str, Callable[[str], None]] = {
            "pn": self.name_players, "sv": self.set_vulnerable, "ah": self.read_heading,
            "mb": self.bid, "an": self.explain, "pc": self.play, "mc": self.claim,
            "nt": self.comment,
        }  # fmt: skip

    def add(self, name: str, value: str) -> None:
        """Add a command. Raises UserError if its name or its value is wrong."""
        if name in self.parsers:
            self.parsers[name](value)
        elif name not in (*LAYOUT, "md") and not (name == "qx" and self.in_match):
            _check_name(name)
            self.others.setdefault(name, []).append(value)

    def name_players(self, value: str) -> None:
        """Take the four players of this room. value: four names, or eight of both rooms."""
        names = [each.strip() for each in value.split(",")]
        first = 4 if self.room == CLOSED and len(names) > 4 else 0
        self.players = (names[first : first + 4] + [""] * 4)[:4]

    def set_vulnerable(self, value: str) -> None:
        """Take the vulnerability."""
        if value.strip().lower() not in VULNERABLE:
            raise UserError(f"the vulnerability (sv) is o, n, e or b, not '{value[:40]}'")
        self.vulnerable = VULNERABLE[value.strip().lower()]

    def read_heading(self, value: str) -> None:
        """Take the number of the board from a heading such as "Board 7"; keep another heading."""
        found = re.fullmatch(r"Board ([0-9]{1,9})", value)
        if found and self.number in (None, int(found[1])):
            self.number = int(found[1])
        else:
            self.others.setdefault("ah", []).append(value)

    def bid(self, value: str) -> None:
        """Add a call; an exclamation mark after it says that it was alerted."""
        if value.endswith("!"):
            self.alerted.append(len(self.calls))
        word = value.removesuffix("!").strip()
        found = auction_rules.parse_calls(CALL_LETTERS.get(word.lower(), word))
        if len(found) != 1:
            raise UserError(f"'{word[:40]}' is not one call")
        self.calls += found

    def explain(self, value: str) -> None:
        """Add an explanation of the last call."""
        if not self.calls:
            raise UserError("an explanation (an) comes before the first call")
        call = len(self.calls) - 1
        if said := "; ".join(filter(None, (self.explanations.get(call), value))):
            self.explanations[call] = said

    def play(self, value: str) -> None:
        """Add a card, or several that are written without blanks."""
        said = re.sub(r"\s", "", value).upper().replace("10", "T")
        names = [said[k : k + 2] for k in range(0, len(said), 2)]
        if wrong := next((name for name in names if name not in CARD_NAMES), None):
            raise UserError(f"'{wrong}' in its play is not a card")
        self.cards += [CARD_NAMES.index(name) for name in names]

    def claim(self, value: str) -> None:
        """Take the tricks of the declaring side that a claim names, if it names any."""
        if value.strip():
            self.tricks = parse_number(value)
            if self.tricks is None:
                raise UserError(f"the claim (mc) '{value[:40]}' is not a number of tricks")

    def comment(self, value: str) -> None:
        """Add a comment after the last call or card."""
        if value.strip():
            self.comments.append(Comment(value.strip(), len(self.calls) + len(self.cards)))


def _check_name(name: str) -> None:
    """Raise UserError unless this can be the name of a command."""
    if not re.fullmatch(r"[a-z][a-z0-9]", name):
        raise UserError(f"'{name[:40]}' is not a command of two letters")


def _match_tags(match: _Match, room: str, number: int) -> dict[str, str]:
    """Return the tags that a board takes from the commands before its match.

    Raises UserError for a command that belongs to a board.
    """
    event = match.event()
    tags = {name: event[k] for name, k in EVENT_TAGS if event[k] and (k < 6 or event[k] != "0")}
    if event[2]:
        tags["Scoring"] = SCORING.get(event[2], event[2])
    for name, value in match.commands:
        if name not in ("vg", "rs", "pn", "bn", "mp", "nt", *LAYOUT):
            _check_name(name)
            if name in PARSED:
                raise UserError(
                    f"the command {name} comes before the first board (qx) of its match"
                )
            tags[name] = f"{tags[name]}|{value}" if name in tags else value
    if points := match.of_board("mp", room, number):
        tags["mp"] = points
    return tags


def _result(
    part: Part, dealer: str, calls: Sequence[int], tags: dict[str, str]
) -> tuple[str | None, str | None, int | None]:
    """Return the contract, declarer and tricks of a board, as its auction and results say.

    A result that is not one, such as an average score, is added to `tags` under the name rs.
    An auction that has not ended has no contract. Raises UserError if the auction is illegal, or if
    there is a result but the auction has not ended.
    """
    said = part.match.of_board("rs", *part.place) if part.place else ""
    found = _RESULT.fullmatch(said)
    contract, declarer, tricks = None, None, None
    if found:
        level, strain, doubled, declarer, above = (each.upper() for each in found.groups())
        contract = level + strain[0] + doubled
        tricks = 6 + int(level) + (0 if above == "=" else int(above))
    elif said.upper() in _PASS:
        contract = PASSED_OUT
    elif said:
        tags["rs"] = said
    if calls and contract is not None:
        auction_rules.check_auction(calls)
    elif calls:
        contract, declarer = contract_results.contract_of_finished_auction(calls, dealer)
    return contract, declarer, tricks


def _deal(value: str) -> tuple[str, Array]:
    """Return the dealer and the holder of each card. value: a digit, and three hands or four.

    Cards that no hand has belong to the fourth. Raises UserError for an invalid deal.
    """
    found = re.fullmatch(r"\s*([1-4])([^,]*),([^,]*),([^,]*)(?:,([^,]*))?,?\s*", value)
    if not found:
        raise UserError(f"the deal (md) '{value[:80]}' is not a dealer, 1 to 4, and four hands")
    hands = [_hand(each or "") for each in found.groups()[1:]]
    if not hands[3]:
        held = {card for hand in hands for card in hand}
        hands[3] = [card for card in CARD_NAMES if card not in held]
    texts = [
        ".".join("".join(c[1] for c in hand if c[0] == suit) for suit in reversed(SUITS))
        for hand in hands
    ]
    return SEAT_ORDER[int(found[1]) - 1], cards.parse_deal("S:" + " ".join(texts))


def _hand(text: str) -> list[str]:
    """Return the cards of a hand such as SA752HT8DKQJ4CAQ3."""
    suit, found = "", list[str]()
    for letter in re.sub(r"[\s.]", "", text).upper().replace("10", "T"):
        if letter in SUITS:
            suit = letter
        elif suit and letter in RANKS:
            found.append(suit + letter)
        else:
            raise UserError(f"the hand '{text[:40]}' is not one such as SA752HT8DKQJ4CAQ3")
    return found


def _split_list(value: str) -> list[str]:
    """Return the entries of a list, which are separated by commas."""
    return [each.strip() for each in value.split(",")]
