"""Parse boards in Portable Bridge Notation (PBN), version 2.1.

A board is a list of tags `[Name "value"]`. The tags Auction and Play are followed by the calls and
the cards. Tables of results have rows after their tag. A comment stands in braces or after a
semicolon. Boards are separated by empty lines. A line that begins with % belongs to no board.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from overtrick.core import Array, UserError
from overtrick.games.bridge import auction_rules, cards, contract_results
from overtrick.games.bridge.auction_rules import CALLS, PASSED_OUT, STRAIN_LETTERS
from overtrick.games.bridge.boards import (
    ROOMS,
    Board,
    Comment,
    Section,
    parse_number,
    validated,
)
from overtrick.games.bridge.cards import CARD_NAMES, SEATS, TRICKS
from overtrick.games.bridge.trick_rules import beats

NAMES = ("North", "East", "South", "West")
UNKNOWN = ("", "?", "-")
IDENTIFYING = ("Event", "Site", "Date", "Scoring")  # written as "?" if unknown
SYSTEMS, TEAMS = ("BidSystemNS", "BidSystemEW"), ("HomeTeam", "VisitTeam")
TYPED = (
    "Board", *NAMES, "Dealer", "Vulnerable", "Deal", "Declarer", "Contract", "Result", "Room",
    "Auction", "Play", "Note", *SYSTEMS, *TEAMS,
)  # fmt: skip
"""Tags with a field of their own in Board."""
SPELLING = {name.lower(): name for name in (*TYPED, *IDENTIFYING)}
VULNERABLE = {
    "none": "None", "love": "None", "": "None", "-": "None", "?": "None", "ns": "NS", "ew": "EW",
    "all": "All", "both": "All",
}  # fmt: skip
SOLVED = "OptimumResultTable"
SOLVED_COLUMNS = ("Declarer", "Denomination", "Result")
STRAIN_NAMES = ("C", "D", "H", "S", "NT")
_NEXT_BOARD = r'\n[ \t]*\n\[\w+[ \t]+"'  # start of the next board; no comment extends past it
_BRACES = rf"\{{(?P<comment>(?:(?!{_NEXT_BOARD})[^}}])*)\}}|"
_REST = (
    r"(?P<escape>^%[^\n]*\n?)|(?P<end>^[ \t]*\n)|(?P<space>\s)|;(?P<line>[^\n]*)"
    r'|\[\s*(?P<name>\w+)\s*"(?:(?P<value>(?:\\.|[^"\\\n])*)|(?P<loose>[^\n]{0,2000}?))"\s*\]'
    r'|(?P<word>"(?:\\.|[^"\\\n]){0,2000}"|[^\s{;"\[]+)|(?P<other>.)'
)
_TOKEN, _NO_COMMENT = re.compile(_BRACES + _REST, re.M), re.compile(_REST, re.M)
_NEXT = re.compile(_NEXT_BOARD)
_MARKED = re.compile(r"([^!?]+)([!?]{1,2})")


class Tag(NamedTuple):
    """Tag of a board, and what follows it up to the next tag."""

    name: str  # "" before the first tag
    value: str  # as in the file
    tokens: list[tuple[str, str]]  # (kind, text): comment, word or other
    body: list[str]  # the text that follows, in pieces


def split(text: str) -> Iterator[tuple[int, list[Tag]]]:
    """Split the text of a PBN file into boards; yield the first line and the tags of each.

    Lines are counted from 1. The value # of a tag is replaced by the value of the board before.
    Values that begin with ## also hold for later boards without the tag.
    """
    last, lasting = dict[str, str](), dict[str, str]()
    tags, start, line = [Tag("", "", [], [])], 1, 1
    for found in _tokens(text + "\n\n"):
        kind, said = str(found.lastgroup), found[0]
        if kind == "end":
            if len(tags) > 1 or any(each != "comment" for each, _ in tags[0].tokens):
                yield start, _inherit(tags, last, lasting)
                tags = [Tag("", "", [], [])]
        elif kind in ("value", "loose"):
            start = line if len(tags) == 1 and not tags[0].tokens else start
            name = SPELLING.get(found["name"].lower(), found["name"])
            tags.append(Tag(name, found[kind], [], []))
        elif kind != "escape":
            if kind != "space":
                start = line if len(tags) == 1 and not tags[0].tokens else start
                said_kind = "comment" if kind == "line" else kind
                tags[-1].tokens.append((said_kind, found[kind]))
            tags[-1].body.append(said)
        line += said.count("\n")
    if tags[0].tokens:
        yield start, tags


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Split the text of a PBN file into tokens.

    If a brace is never closed, later braces before the next board are not searched for their ends,
    so that many unclosed braces take linear time.
    """
    place = unclosed = 0
    while found := (_TOKEN if place >= unclosed else _NO_COMMENT).match(text, place):
        if found[0] == "{" and place >= unclosed:
            after = _NEXT.search(text, place)
            unclosed = after.start() if after else len(text)
        yield found
        place = found.end()


def _inherit(tags: list[Tag], last: dict[str, str], lasting: dict[str, str]) -> list[Tag]:
    """Return the tags of a board with the values that they take from earlier boards.

    last: the latest value of each tag. lasting: values for boards without the tag. Both are
    updated in place.
    """
    found = list[Tag]()
    for tag in tags:
        value = tag.value
        if value.startswith("##"):
            value = lasting[tag.name] = value[2:]
        elif value == "#":
            value = last.get(tag.name, value)
        last[tag.name] = value
        found.append(tag._replace(value=value))
    present = {tag.name for tag in tags}
    return found + [Tag(k, v, [], []) for k, v in lasting.items() if k not in present]


def parse(tags: Sequence[Tag]) -> Board:
    """Parse and validate the tags of one board. Raises UserError if it is invalid.

    Of two tags with one name, the second is ignored, as the standard says.
    """
    if len(tags) == 1:
        raise UserError("there is text, but no tag")
    values, unknown, seen = dict[str, str](), dict[str, str](), set[str]()
    sections, comments = list[Section](), list[Comment]()
    parts, notes, part = dict[str, Tag](), {"Auction": dict[str, str](), "Play": {}}, "Auction"
    for tag in tags:
        if tag.name in seen and tag.name != "Note":
            continue
        seen.add(tag.name)
        if tag.name in notes:
            parts[tag.name], values[tag.name], part = tag, tag.value, tag.name
            continue
        if word := next((said for kind, said in tag.tokens if kind != "comment"), None):
            _check_section(tag, word)
            sections.append(Section(tag.name, tag.value, _lines(tag.body)))
            continue
        if tag.name == "Note":
            number, _, said = _unescape(tag.value).partition(":")
            notes[part].setdefault(number.strip(), said)
            if part in parts:
                parts[part].tokens.extend(tag.tokens)
                continue
        elif tag.name:
            known = tag.name in TYPED
            (values if known else unknown)[tag.name] = _unescape(tag.value)
        comments += [Comment(_clean_comment(said), tag.name) for _, said in tag.tokens]
    for name in IDENTIFYING:
        if unknown.get(name) == "?":
            del unknown[name]
    return _board(values, unknown, sections, comments, parts, notes)


def _check_section(tag: Tag, word: str) -> None:
    """Raise UserError unless rows may follow a tag. word: the first word that follows it."""
    if ("other", "{") in tag.tokens:
        raise UserError(f"a comment after [{tag.name}] has no closing brace")
    if tag.name in SPELLING.values() or not tag.name:
        place = f"[{tag.name}]" if tag.name else "the start of the board"
        raise UserError(f"'{word[:40]}' after {place} is not a tag or a comment")


def _board(
    values: dict[str, str],
    unknown: dict[str, str],
    sections: list[Section],
    comments: list[Comment],
    parts: dict[str, Tag],
    notes: dict[str, dict[str, str]],
) -> Board:
    """Make a board from the values of its tags, and validate it.

    values, unknown: the values of tags with and without a field in Board. An unreadable value of
    the tag Board or Room is added to `unknown`. sections: tags that are followed by rows. comments:
    the comments outside auction and play. parts: the tags Auction and Play. notes: the notes below
    each of the two, by their number. Raises UserError if the board is invalid.
    """
    said = values.get("Dealer", "").strip().upper() or values.get("Auction", "").strip().upper()
    if said in UNKNOWN:
        raise UserError("the dealer is missing")
    if said not in tuple(SEATS):
        raise UserError(f"the dealer is N, E, S or W, not '{said}'")
    vulnerable = VULNERABLE.get(values.get("Vulnerable", "").strip().lower())
    if vulnerable is None:
        raise UserError(f"'{values['Vulnerable']}' is not a vulnerability: None, NS, EW or All")
    if "Deal" not in values:
        raise UserError("the deal is missing")
    deal = cards.parse_deal(values["Deal"].upper().replace("10", "T"))
    auction = _Annotations(notes["Auction"])
    if "Auction" in parts:
        _parse_auction(parts["Auction"], auction)
    calls = tuple(CALLS[call] for call in auction.made)
    contract, declarer = _contract(values, auction.made, said)
    play = _Annotations(notes["Play"])
    if "Play" in parts:
        _parse_play(parts["Play"], play, contract, declarer)
    shift, number = len(calls), parse_number(values.get("Board", ""))
    loose = [*auction.unused_notes(), *play.unused_notes()]
    if number is None and values.get("Board", "") != "":
        unknown["Board"] = values["Board"]
    if (room := values.get("Room", "").capitalize()) not in ROOMS:
        room = ""
        if "Room" in values:
            unknown["Room"] = values["Room"]
    north, east, south, west, home, visit = (
        "" if (name := values.get(tag, "")) in UNKNOWN else name for tag in (*NAMES, *TEAMS)
    )
    table, rest = _solved(sections)
    return validated(
        Board(
            deal,
            said,
            vulnerable,
            calls,
            contract,
            declarer,
            tuple(play.made),
            None if contract == PASSED_OUT else _tricks(values.get("Result", ""), declarer),
            number,
            (values.get(SYSTEMS[0], ""), values.get(SYSTEMS[1], "")),
            table=table,
            players=(north, east, south, west),
            teams=(home, visit),
            room=room,
            explanations={k: text for k, text in auction.explained().items() if text},
            alerted=tuple(auction.explained()),
            card_notes=play.explained(),
            marks=auction.marks | {shift + card: mark for card, mark in play.marks.items()},
            comments=(
                *comments,
                *auction.comments,
                *(Comment(text, shift + int(place)) for text, place in play.comments),
                *(Comment(text.strip(), shift + len(play.made)) for text in loose if text.strip()),
            ),
            tags=unknown,
            sections=tuple(rest),
        )
    )


class _Annotations:
    """Calls or cards of a section, with what is written about them.

    notes: texts of the notes below the section, by number.
    """

    def __init__(self, notes: Mapping[str, str]) -> None:
        self.notes = notes
        self.made = list[int]()
        self.references = dict[int, list[str]]()  # numbers of notes, by call or card
        self.marks = dict[int, str]()
        self.comments = list[Comment]()

    def annotate(self, place: int, word: str) -> bool:
        """Add the note or the mark `word` to the call or card `place`; return whether it is one.

        Raises UserError if there is nothing that it can belong to.
        """
        note = re.fullmatch(r"=(\w+)=", word)
        if not note and not re.fullmatch(r"\$\d+|[!?]{1,2}", word):
            return False
        if place < 0:
            raise UserError(f"'{word}' stands before the first call or card")
        if note:
            self.references.setdefault(place, []).append(note[1])
        else:
            self.marks[place] = f"{self.marks[place]} {word}" if place in self.marks else word
        return True

    def words(self, tag: Tag, made: Sequence[object]) -> Iterator[tuple[str, str]]:
        """Yield the words of a section that stand for calls or cards, each with its mark or "".

        Comments, notes and marks between them are kept here. made: the calls or cards so far, to
        which the caller adds those that it reads.
        """
        for kind, token in tag.tokens:
            if kind == "comment":
                self.comments.append(Comment(_clean_comment(token), len(made)))
            elif not self.annotate(len(made) - 1, token):
                marked = _MARKED.fullmatch(token)
                yield (marked[1], marked[2]) if marked else (token, "")

    def explained(self) -> dict[int, str]:
        """Return the text of the notes of each call or card that refers to one."""
        return {
            place: "; ".join(
                dict.fromkeys(self.notes[each] for each in numbers if self.notes.get(each))
            )
            for place, numbers in sorted(self.references.items())
        }

    def unused_notes(self) -> list[str]:
        """Return the texts of the notes to which no call or card refers."""
        used = {each for numbers in self.references.values() for each in numbers}
        return [text for number, text in self.notes.items() if number not in used]


def _parse_auction(tag: Tag, found: _Annotations) -> None:
    """Parse the calls below the tag Auction into `found`. Raises UserError for an unknown call."""
    calls, ended = found.made, False
    for word, mark in found.words(tag, calls):
        if word in ("-", "*", "+"):
            ended = ended or word != "-" or bool(calls)
            continue
        if ended:
            raise UserError(f"the call '{word[:40]}' comes after the end of the auction")
        if word.upper() == "AP":
            last = max(
                (k for k, call in enumerate(calls) if call != auction_rules.PASS), default=-1
            )
            calls += [auction_rules.PASS] * ((4 if last < 0 else 3) - (len(calls) - 1 - last))
        else:
            calls += auction_rules.parse_calls(word)
        if mark:
            found.annotate(len(calls) - 1, mark)


def _parse_play(tag: Tag, found: _Annotations, contract: str | None, declarer: str | None) -> None:
    """Parse the cards below the tag Play into `found`, and put them in the order played.

    Each row of the section is a trick, with a column for each seat, beginning with the seat that
    the tag names. If no card is known, the notes belong to none. Raises UserError for an unknown
    card, or for a card after an unknown one.
    """
    cells, ended = list[int | None](), False
    noted = _Annotations({})
    for word, mark in noted.words(tag, cells):
        if word in ("*", "+"):
            ended = True
            continue
        name = word.upper().replace("10", "T")
        if word != "-" and name not in CARD_NAMES:
            raise UserError(f"'{word[:40]}' in its play is not a card")
        if ended and word != "-":
            raise UserError(f"the card {name} comes after the end of the play")
        cells.append(None if word == "-" else CARD_NAMES.index(name))
        if mark:
            noted.annotate(len(cells) - 1, mark)
    order = _order(cells, tag.value.strip().upper(), contract, declarer)
    found.made += [card for card in (cells[k] for k in order) if card is not None]
    if lost := {k for k, card in enumerate(cells) if card is not None} - set(order):
        card = CARD_NAMES[int(cells[min(lost)] or 0)]
        raise UserError(f"the card {card} of its play comes after an unknown card")
    places = {cell: place for place, cell in enumerate(order)}
    last = len(order) - 1
    for cell, numbers in noted.references.items() if order else ():
        found.references.setdefault(places.get(cell, last), []).extend(numbers)
    for cell, mark in noted.marks.items():
        found.annotate(places.get(cell, last), mark)
    after = [
        Comment(text, 0 if place == 0 else places.get(int(place) - 1, last) + 1)
        for text, place in noted.comments
    ]
    found.comments += sorted(after, key=lambda each: int(each.place))


def _order(
    cells: Sequence[int | None], first: str, contract: str | None, declarer: str | None
) -> list[int]:
    """Return the indices of the known cards of a play section in the order played.

    cells: the cards by trick and column; None: unknown. first: the seat of the first column.
    """
    if not any(card is not None for card in cells):
        return []
    if contract in (None, PASSED_OUT) or declarer is None:
        return [k for k, card in enumerate(cells) if card is not None]
    if first not in tuple(SEATS):
        raise UserError(f"the first column of the play is N, E, S or W, not '{first}'")
    strain = STRAIN_LETTERS.index(str(contract)[1])
    leader = (SEATS.index(declarer) + 1 - SEATS.index(first)) % 4
    order = list[int]()
    for start in range(0, len(cells), 4):
        best = -1
        for column in ((leader + k) % 4 for k in range(4)):
            place = start + column
            card = cells[place] if place < len(cells) else None
            if card is None:
                return order
            order.append(place)
            if best < 0 or beats(card, cells[best], strain):
                best = place
        leader = best % 4
    return order


def _contract(
    values: Mapping[str, str], calls: Sequence[int], dealer: str
) -> tuple[str | None, str | None]:
    """Return contract and declarer from the tags; take what is missing from a finished auction.

    Raises UserError for an illegal auction, and for a value that is no contract or no declarer.
    """
    contract, bidder = contract_results.contract_of_finished_auction(calls, dealer)
    said = values.get("Contract", "").strip().upper()
    if said in ("PASS", "P"):
        contract = PASSED_OUT
    elif said not in UNKNOWN:
        found = re.fullmatch(r"([1-7])([CDHSN])T?(X{0,2})", said)
        if not found:
            raise UserError(f"'{values['Contract']}' is not a contract")
        contract = "".join(found.groups())
    if contract in (None, PASSED_OUT):
        return contract, None
    declarer = values.get("Declarer", "").strip().upper()
    if declarer not in (*UNKNOWN, *SEATS):
        raise UserError(f"'{declarer[:40]}' is not a declarer: write N, E, S or W")
    return contract, bidder if declarer in UNKNOWN else declarer


def _tricks(said: str, declarer: str | None) -> int | None:
    """Return the number of tricks of the declaring side in the tag Result; None: unknown.

    The value is that number, or it names the tricks of one or both sides: "NS 9 EW 4". Raises
    UserError for another value, or if the declarer is unknown and sides are named.
    """
    if said.strip() in UNKNOWN:
        return None
    if (tricks := parse_number(said)) is not None:
        return tricks
    number = r"\s+([0-9]{1,2})"
    sides = re.fullmatch(rf"\s*(NS|EW){number}(?:\s+(NS|EW){number})?\s*", said.upper())
    if not sides or sides[1] == sides[3]:
        raise UserError(f"the result '{said[:40]}' is not a number of tricks")
    first = int(sides[2])
    if first > TRICKS or (sides[4] and first + int(sides[4]) != TRICKS):
        raise UserError(f"the tricks of both sides must sum to {TRICKS}: '{said[:40]}'")
    if declarer is None:
        raise UserError(f"the result is '{said[:40]}', but the declarer is unknown")
    return first if declarer in sides[1] else TRICKS - first


def _solved(sections: Sequence[Section]) -> tuple[Array | None, list[Section]]:
    """Return the double-dummy tricks (4, 5) of a complete OptimumResultTable, and other sections.

    The tricks are None if there is no such table, or if it has other columns.
    """
    for section in sections:
        columns = tuple(re.sub(r"\\.*|[+-]", "", each) for each in section.header.split(";"))
        if section.name != SOLVED or columns != SOLVED_COLUMNS:
            continue
        table = np.full((4, 5), -1, np.int8)
        for line in section.lines:
            row = re.fullmatch(r"\s*([NESW])\s+(NT|[SHDC])\s+([0-9]{1,2})", line)
            if row and int(row[3]) <= TRICKS:
                table[SEATS.index(row[1]), STRAIN_NAMES.index(row[2])] = int(row[3])
        if len(section.lines) == table.size and (table >= 0).all():
            return table, [each for each in sections if each is not section]
    return None, list(sections)


def _lines(body: Sequence[str]) -> tuple[str, ...]:
    """Return the lines of a section without empty lines at its ends."""
    rows = re.sub(r"\A(?:[ \t]*\n)+", "", "".join(body)).rstrip()
    return tuple(line.rstrip() for line in rows.split("\n"))


def _unescape(value: str) -> str:
    """Return the value of a tag, with escaped quotes and backslashes replaced by themselves."""
    return re.sub(r'\\(["\\])', r"\1", value)


def _clean_comment(said: str) -> str:
    """Return a comment without blanks at the ends of its lines, and without escaped lines."""
    lines = re.sub(r"\n%[^\n]*", "", said).split("\n")
    return "\n".join(line.strip() for line in lines).strip()
