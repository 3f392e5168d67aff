"""Write boards in Portable Bridge Notation (PBN), version 2.1; see pbn_reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from overtrick.core import Array
from overtrick.games.bridge import auction_rules, cards
from overtrick.games.bridge.auction_rules import PASSED_OUT
from overtrick.games.bridge.boards import Board, Section
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, SEATS
from overtrick.games.bridge.formats.pbn_reader import (
    IDENTIFYING,
    NAMES,
    SOLVED,
    STRAIN_NAMES,
    SYSTEMS,
    TEAMS,
)
from overtrick.games.bridge.trick_rules import beats

VERSION = "% PBN 2.1\n"
SOLVED_HEADER = r"Declarer;Denomination\2R;Result\2R"

_Placed = tuple[str, int]
"""Comment, and the number of words before it."""


def write(board: Board) -> str:
    """Return the text of one board, with an empty line after it."""
    lines = list[str]()
    by_tag = dict[str, list[str]]()
    for text, place in board.comments:
        if isinstance(place, str):
            by_tag.setdefault(place, []).append(_format_comment(text))
    values = _values(board)
    for name in [name for name in by_tag if name not in values]:
        lines += by_tag.pop(name)  # the tag is not written
    for name, value in values.items():
        lines += [f'[{name} "{_escape(value)}"]', *by_tag.get(name, [])]
    shift = len(board.auction)
    last = shift + len(board.play)
    placed = [(text, min(at, last)) for text, at in board.comments if isinstance(at, int)]
    in_auction = [each for each in placed if each[1] <= shift]
    if board.auction or in_auction:
        lines += _auction_lines(board, in_auction)
    if board.play:
        lines += _play_lines(board, [each for each in placed if each[1] > shift])
    sections = list(board.sections)
    if board.table is not None:
        sections = [each for each in sections if each.name != SOLVED]
        sections.append(Section(SOLVED, SOLVED_HEADER, tuple(_solved_lines(board.table))))
    for section in sections:
        lines += [f'[{section.name} "{section.header}"]', *section.lines]
    return "\n".join(lines) + "\n\n"


def _values(board: Board) -> dict[str, str]:
    """Return the values of all tags in the order of the standard, without Auction and Play."""
    given = dict(board.tags)
    known = {
        "Board": "" if board.number is None else str(board.number),
        **dict(zip(NAMES, (name or "?" for name in board.players), strict=True)),
        "Dealer": board.dealer,
        "Vulnerable": board.vulnerable,
        "Deal": cards.format_deal(board.holder),
        "Declarer": board.declarer or ("" if board.contract == PASSED_OUT else "?"),
        "Contract": re.sub("N(?=X|$)", "NT", board.contract or "?"),
        "Result": _result(board),
    }
    first = ("Event", "Site", "Date", "Board", "West", "North", "East", "South", "Dealer",
             "Vulnerable", "Deal", "Scoring", "Declarer", "Contract", "Result")  # fmt: skip
    found = {name: given.pop(name, "?") if name in IDENTIFYING else known[name] for name in first}
    if board.number is None:
        found.pop("Board")
    others = {**dict(zip(SYSTEMS, board.systems, strict=True)), "Room": board.room}
    others |= dict(zip(TEAMS, board.teams, strict=True))
    return {**found, **{name: value for name, value in others.items() if value}, **given}


def _result(board: Board) -> str:
    """Return the value of the tag Result: tricks of the declaring side, ? if they are unknown."""
    if board.contract == PASSED_OUT:
        return ""
    return "?" if board.tricks is None else str(board.tricks)


def _auction_lines(board: Board, comments: Sequence[_Placed]) -> list[str]:
    """Return the auction with its notes, a line for each round of calls."""
    notes = dict.fromkeys(board.alerted, "") | dict(board.explanations)
    numbers = {call: number for number, call in enumerate(sorted(notes), 1)}
    words = [
        _annotated(_call(call), numbers.get(k), board.marks.get(k))
        for k, call in enumerate(board.auction)
    ]
    calls = [auction_rules.CALLS.index(call) for call in board.auction]
    if not auction_rules.is_complete(calls):
        words.append("+")
    lines = [f'[Auction "{board.dealer}"]', *_rows(words, comments)]
    return lines + [f'[Note "{_escape(f"{n}:{notes[call]}")}"]' for call, n in numbers.items()]


def _play_lines(board: Board, comments: Sequence[_Placed]) -> list[str]:
    """Return the card play with its notes, a line for each trick, a column for each seat.

    comments: each after at least one card.
    """
    assert board.declarer is not None
    shift = len(board.auction)
    first = (SEATS.index(board.declarer) + 1) % 4
    numbers = {card: number for number, card in enumerate(sorted(board.card_notes), 1)}
    words, placed, leader = list[str](), list[_Placed](), 0
    for start in range(0, len(board.play), 4):
        trick, row, best = board.play[start : start + 4], ["-"] * 4, 0
        for k, card in enumerate(trick):
            column, place = (leader + k) % 4, start + k
            row[column] = _annotated(
                CARD_NAMES[card], numbers.get(place), board.marks.get(shift + place)
            )
            placed += [
                (text, start + column + 1) for text, at in comments if at == shift + place + 1
            ]
            if k and beats(card, trick[best], board.strain):
                best = k
        leader = (leader + best) % 4
        words += row
    lines = [f'[Play "{SEATS[first]}"]', *_rows(words, placed)]
    if len(board.play) < CARDS:
        lines.append("+" if board.tricks is None else "*")
    return lines + [
        f'[Note "{_escape(f"{n}:{board.card_notes[card]}")}"]' for card, n in numbers.items()
    ]


def _annotated(word: str, note: int | None, marks: str | None) -> str:
    """Return a call or card with its marks and the number of its note."""
    return " ".join(filter(None, (word, marks, f"={note}=" if note else None)))


def _call(call: str) -> str:
    """Return a call as PBN writes it: Pass, X, XX, or a bid such as 1C and 3NT."""
    return "Pass" if call == "P" else call + "T" * call.endswith("N")


def _rows(words: Sequence[str], comments: Sequence[_Placed]) -> list[str]:
    """Return words, four in a line, with each comment after the word to which it belongs."""
    lines, row = list[str](), list[str]()
    for k in range(len(words) + 1):
        here = [_format_comment(text) for text, place in comments if place == k]
        if here:
            lines += ([" ".join(row)] if row else []) + here
            row = []
        if k < len(words):
            if k % 4 == 0 and row:
                lines.append(" ".join(row))
                row = []
            row.append(words[k])
    return lines + ([" ".join(row)] if row else [])


def _solved_lines(table: Array) -> Iterable[str]:
    """Yield the rows of an OptimumResultTable. table: (4, 5) double-dummy tricks."""
    for seat, row in zip(SEATS, table, strict=True):
        for strain, tricks in zip(reversed(STRAIN_NAMES), reversed(row.tolist()), strict=True):
            yield f"{seat} {strain:>2} {tricks:>2}"


def _format_comment(text: str) -> str:
    """Return a comment in braces; one with a closing brace as a line after a semicolon.

    Braces cannot hold a closing brace. In a comment of several lines a parenthesis replaces it.
    """
    if "}" in text and "\n" not in text:
        return f"; {text}"
    return "{" + re.sub(r"\n(?=[%[])", "\n ", text.replace("}", ")")) + "}"


def _escape(value: str) -> str:
    """Return the value of a tag with escaped quotes and backslashes, and blanks for line breaks."""
    value = re.sub(r"[\r\n]+", " ", value).replace("\\", "\\\\").replace('"', '\\"')
    return f" {value}" if value == "#" or value.startswith("##") else value
