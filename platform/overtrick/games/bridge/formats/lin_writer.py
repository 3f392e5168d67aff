"""Write boards in LIN, the format of Bridge Base Online; see lin_reader."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from overtrick.core import UserError
from overtrick.games.bridge import cards
from overtrick.games.bridge.auction_rules import PASSED_OUT
from overtrick.games.bridge.boards import CLOSED, ROOMS, Board
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, SEATS, SUITS
from overtrick.games.bridge.formats.lin_reader import (
    EVENT_TAGS,
    LAYOUT,
    PARSED,
    ROOM,
    SCORING,
    SEAT_ORDER,
    VG_FIELDS,
)

LETTERS = {"None": "o", "NS": "n", "EW": "e", "All": "b"}
DOUBLES = {"X": "D", "XX": "R"}


def write(boards: Sequence[Board]) -> str:
    """Return the text of boards. Consecutive boards of one match share the commands before it.

    Raises UserError, naming the board by its place in the list from 1, for a board that LIN cannot
    hold: one with a contract but without an auction outside a match, or without a number in one.
    """
    for place, board in enumerate(boards, 1):
        in_room = board.room in ROOMS
        if board.contract is not None and not board.auction:
            known = board.tricks is not None or board.contract == PASSED_OUT
            if not (in_room and known):
                raise UserError(f"board {place} has a contract but no auction: write a .pbn file")
        if in_room and board.number is None:
            raise UserError(f"board {place} has a room but no number: write a .pbn file")
    return "".join(
        _write_match(group) if group[0].room in ROOMS else _write_board(group[0], None)
        for group in _groups(boards)
    )


def _groups(boards: Sequence[Board]) -> Iterator[list[Board]]:
    """Group consecutive boards of one match. A board without a room is a group of its own."""
    group, places = list[Board](), set[tuple[str, int | None]]()
    for board in boards:
        place = (board.room, board.number)
        same = group and board.room in ROOMS and group[0].room in ROOMS and place not in places
        if not same or _event(board) != _event(group[0]):
            if group:
                yield group
            group, places = [], set()
        group.append(board)
        places.add(place)
    if group:
        yield group


def _event(board: Board) -> list[str]:
    """Return the fields of the command vg, with 0 in the place of the first and last board."""
    event = [""] * VG_FIELDS
    for name, place in EVENT_TAGS:
        event[place] = board.tags.get(name, "0" if place >= 6 else "")
    said = board.tags.get("Scoring", "")
    event[2] = next((letter for letter, name in SCORING.items() if name == said), said)
    event[3] = event[4] = "0"
    event[5], event[7] = board.teams
    return [_clean(each, ",") for each in event]


def _write_match(boards: Sequence[Board]) -> str:
    """Return the boards of one match, with the commands that all share before them."""
    numbers = sorted({int(board.number or 0) for board in boards})
    event = _event(boards[0])
    event[3], event[4] = str(numbers[0]), str(numbers[-1])
    by_place = {(board.room, board.number): board for board in boards}
    in_order = [by_place.get((room, number)) for number in numbers for room in ROOMS]
    results = [_format_result(board) if board else "" for board in in_order]
    points = [_clean(board.tags.get("mp", ""), ",") if board else "" for board in in_order]
    first = {room: next((b for b in boards if b.room == room), None) for room in ROOMS}
    shared = {
        name: value
        for name, value in _free_commands(boards[0], True).items()
        if name != "ah" and all(board.tags.get(name) == value for board in boards)
    }
    names = ",".join(_format_players(first[room]) for room in ROOMS)
    lines = [f"vg|{','.join(event)}|", f"rs|{','.join(results)}|", f"pn|{names}|"]
    lines += [f"mp|{','.join(points)}|"] * any(points)
    if numbers[-1] - numbers[0] >= len(numbers):
        lines.append(f"bn|{','.join(map(str, numbers))}|")
    lines += [_repeat(name, value) for name, value in shared.items()]
    written = [_write_board(board, first[board.room], shared) for board in boards]
    return "\n".join([*lines, "pg||", *written])


def _write_board(board: Board, named: Board | None, shared: Collection[str] = ()) -> str:
    """Return one board in a line.

    named: in a match, the board whose players stand before the match. shared: names of tags that
    stand there.
    """
    free = _free_commands(board, named is not None)
    first = {name: free.pop(name) for name in ("vg", "qx") if name in free}
    headings = [] if board.number is None else [f"Board {board.number}"]
    headings += [free.pop("ah")] if "ah" in free else []
    text = "" if named is None else f"qx|{board.room[0].lower()}{board.number}|"
    text += "".join(_repeat(name, value) for name, value in first.items())
    if named is None:
        text += f"pn|{_format_players(board)}|"
    elif board.players != named.players:
        names = [",,,", _format_players(board)]
        text += f"pn|{','.join(names if board.room == CLOSED else names[::-1])}|"
    text += "".join(_repeat(name, value) for name, value in free.items() if name not in shared)
    dealer = SEAT_ORDER.index(board.dealer) + 1
    hands = ",".join(_format_hand(board, seat) for seat in SEAT_ORDER)
    text += f"st||md|{dealer}{hands}|rh||"
    text += "".join(_repeat("ah", each) for each in headings)
    return text + f"sv|{LETTERS[board.vulnerable]}|" + _format_record(board) + "\n"


def _format_record(board: Board) -> str:
    """Return the commands of the auction and the card play of a board, with its comments."""
    shift, text = len(board.auction), ""
    comments = [""] * (1 + shift + len(board.play))
    for said, at in board.comments:
        place = 0 if isinstance(at, str) else min(at, len(comments) - 1)
        comments[place] += f"nt|{_clean(said)}|"
    for k, call in enumerate(board.auction):
        text += f"mb|{DOUBLES.get(call, call)}{'!' * (k in board.alerted)}|"
        if k in board.explanations:
            text += f"an|{_clean(board.explanations[k])}|"
        text += comments[k + 1]
    text += "pg||"
    for k, card in enumerate(board.play, 1):
        text += f"pc|{CARD_NAMES[card]}|{comments[shift + k]}" + "pg||" * (k % 4 == 0)
    if board.auction and len(board.play) < CARDS and board.tricks is not None:
        text += f"mc|{board.tricks}|"
    return comments[0] + text


def _free_commands(board: Board, in_match: bool) -> dict[str, str]:
    """Return the tags of a board that are commands of LIN and have no field in Board.

    in_match: leave out commands that a match writes.
    """
    taken = (*PARSED, *LAYOUT, *(("vg", "qx", "rs", "mp", "bn") if in_match else ()))
    found = {
        name: value
        for name, value in board.tags.items()
        if re.fullmatch(r"[a-z][a-z0-9]", name) and name not in taken
    }
    if ROOM.match(found.get("qx", "")) or "|" in found.get("qx", "") + found.get("vg", ""):
        found = {name: value for name, value in found.items() if name not in ("vg", "qx")}
    return found


def _repeat(name: str, value: str) -> str:
    """Return a command once for each of its values, which are separated by |."""
    return "".join(f"{name}|{_clean(each)}|" for each in value.split("|"))


def _format_players(board: Board | None) -> str:
    """Return the four names of a board in the order of LIN."""
    names = dict(zip(SEATS, board.players if board else ("",) * 4, strict=True))
    return ",".join(_clean(names[seat], ",").strip() for seat in SEAT_ORDER)


def _format_hand(board: Board, seat: str) -> str:
    """Return a hand such as SA752HT8DKQJ4CAQ3."""
    hand = cards.hand_bits(board.holder[None])[0, SEATS.index(seat)]
    suits = cards.format_hand(int(hand)).split(".")
    return "".join(suit + ranks for suit, ranks in zip(reversed(SUITS), suits, strict=True))


def _format_result(board: Board) -> str:
    """Return an entry of the command rs, such as 4SN= or 3NxE-1; an empty text if unknown."""
    if "rs" in board.tags:
        return _clean(board.tags["rs"], ",")
    if board.contract == PASSED_OUT:
        return "PASS"
    if board.contract is None or board.tricks is None:
        return ""
    above = board.tricks - 6 - int(board.contract[0])
    result = "=" if above == 0 else f"{above:+d}"
    return f"{board.contract[:2]}{board.contract[2:].lower()}{board.declarer}{result}"


def _clean(text: str, also: str = "") -> str:
    """Return a text without the characters that LIN cannot hold.

    The broken bar replaces a bar, a blank a line break, and a semicolon each character of `also`.
    """
    text = re.sub(r"\s*[\r\n]\s*", " ", text).replace("|", "¦")
    return re.sub(f"[{also}]", ";", text) if also else text
