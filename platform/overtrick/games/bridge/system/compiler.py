"""A bidding system as arrays: every rule with every choice of suits for its letters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overtrick.core import Array, UserError, nearest
from overtrick.games.bridge.auction_rules import PASS
from overtrick.games.bridge.auction_rules import STRAIN_LETTERS as STRAINS
from overtrick.games.bridge.cards import NOTRUMP
from overtrick.games.bridge.system import auction_conditions, hand_terms
from overtrick.games.bridge.system.hand_terms import Pattern, Test
from overtrick.games.bridge.system.parser import Place, Rule
from overtrick.games.bridge.system.public_knowledge import SAID, SLAMS, STATUSES, TYPE, TYPES

RELATIVE = {"lowest": 1, "jump": 2, "double jump": 3}
SUITED = {"agrees": "agreed", "keycards": "trumps", "means": "suit"}
FLAGGED = {
    "extra": ("power", 1),
    "minimum": ("power", 0),
    "heard": ("heard", 1),
    "rare": ("rare", 1),
}
FORCING = ("forcing", "game-forcing", "asking")
FIRST_CALLS, LENGTHS = 36, 24  # how places are found: by the opening bid, and how many calls since

LEVEL, ONLY, LENGTH, PATTERNS, PATTERNS_END, HOLDS, HOLDS_END, RULES, RULES_END = range(9)
"""Columns of Tables.block: level and `only` of its place; how many calls since the opening bid, -1
for any; and the rows of its pattern, of its conditions and of its rules, first and one past the
last."""

RELATIVE_TO, CALL, TESTS, TESTS_END, IF, IF_END, SAYS = range(7)
FORCES, TO_GAME, RULE, HEARD, RARE = range(SAYS + SAID, SAYS + SAID + 5)
TYPE_OF = SAYS + TYPE
"""Columns of Tables.rule: 0 for a call as it stands, or how it is relative (RELATIVE); the call, or
the strain of a relative one; the rows of what it shows and of its conditions; from SAYS on what
`known` counts as said; whether it forces, and to game; the number of the rule in the file; whether
it only reads; whether it is no part of what its call shows."""

AGO, CALLS_THEN = range(2)
"""Columns of Tables.pattern."""

ASKED, LEAST, GREATEST, ADDED = range(4)
"""Columns of Tables.test, and but for the last one of Tables.condition."""


@dataclass(frozen=True)
class Meant:
    """A rule with suits for its letters: numbers only."""

    call: int  # or the strain of a relative call
    relative: int
    tests: tuple[Test, ...]
    when: tuple[Test, ...]
    status: int
    type: int
    slam: int
    suit: int
    agreed: int
    trumps: int
    power: int
    forcing: bool
    to_game: bool
    rule: int
    heard: bool  # it reads calls, but makes none
    rare: bool  # it makes calls, but another rule reads them


@dataclass(frozen=True)
class Block:
    """A place with suits for its letters."""

    place: int
    shape: Pattern
    when: tuple[Test, ...]
    meant: list[Meant]


class Tables(NamedTuple):
    """A system as arrays, for compiled code; rows point at ranges of rows of other tables."""

    starts: Array  # (36 x 24 + 1,) where the blocks of an opening and a length begin in listed
    listed: Array  # blocks by opening and length, in the order of the file
    block: Array  # (blocks, RULES_END + 1)
    pattern: Array  # (., 2) int64 how many calls ago, set of calls
    condition: Array  # (., 3) index of the view, least, most
    rule: Array  # (., RARE + 1)
    test: Array  # (., 4) field of the hand, least, most, index of the view added or -1


def blocks_of(places: Sequence[Place], rules: Sequence[Rule]) -> list[Block]:
    """All places with suits for their letters, in their order. Raises UserError."""
    at = {id(rule): index for index, rule in enumerate(rules)}
    return [block for k, place in enumerate(places) for block in _blocks(place, k, at)]


def compiled(places: Sequence[Place], blocks: Sequence[Block]) -> Tables:
    """The blocks of places as arrays."""
    block: list[tuple[int, ...]] = []
    first: list[int | None] = []  # set of opening bids, None for any
    pattern: list[tuple[int, int]] = []
    condition: list[tuple[int, int, int]] = []
    rows: list[tuple[int, ...]] = []
    test: list[tuple[int, int, int, int]] = []
    for each_block in blocks:
        place, shape = places[each_block.place], each_block.shape
        starts = len(pattern), len(condition), len(rows)
        pattern += list(enumerate(shape.masks, 1))
        condition += [(each.index, each.lo, each.hi) for each in each_block.when]
        ends = len(pattern), len(condition)
        for each in each_block.meant:
            own = len(test), len(condition)
            test += [(one.index, one.lo, one.hi, one.ref) for one in each.tests]
            condition += [(one.index, one.lo, one.hi) for one in each.when]
            rows.append(
                    (
                        each.relative, each.call, own[0], len(test), own[1], len(condition),
                        each.status, each.type, each.slam, each.suit, each.agreed, each.trumps,
                        each.power, each.forcing, each.to_game, each.rule, each.heard,
                        each.rare,
                    )
                )  # fmt: skip
        length = len(shape.masks) if shape.whole else -1
        block.append(
                (place.level, place.only, length, starts[0], ends[0], starts[1], ends[1],
                 starts[2], len(rows))
            )  # fmt: skip
        first.append(shape.masks[-1] if shape.whole and shape.masks else None)
    index, listed = [0], []
    for opening in range(FIRST_CALLS):  # the last one stands for no bid so far
        for length in range(LENGTHS):
            for number, row in enumerate(block):
                mask = first[number]
                if row[LENGTH] >= 0 and min(row[LENGTH], LENGTHS - 1) != length:
                    continue
                if mask is not None and (opening == FIRST_CALLS - 1 or not mask >> opening & 1):
                    continue
                if row[LENGTH] == 0 and opening != FIRST_CALLS - 1:
                    continue
                listed.append(number)
            index.append(len(listed))

    def array(rows: Sequence[Sequence[int]], width: int, kind: type = np.int32) -> Array:
        return np.array(rows, kind).reshape(-1, width)

    return Tables(
        np.array(index, np.int32), np.array(listed, np.int32), array(block, RULES_END + 1),
        array(pattern, 2, np.int64), array(condition, 3), array(rows, RARE + 1), array(test, 4),
    )  # fmt: skip


def _blocks(place: Place, number: int, at: dict[int, int]) -> Iterator[Block]:
    """The ways in which suits can be given to the letters of a place."""
    try:
        for text in place.patterns:
            letters = hand_terms.letters_of(" ".join((text, *place.when)))
            for suits in hand_terms.bindings(letters):
                holding = _conditions(place.when, suits)
                if holding is None:
                    continue
                shape = hand_terms.pattern_of(hand_terms.with_suits(text, suits))
                meant = list(
                    dict.fromkeys(
                        each for rule in place.rules for each in _meant(rule, suits, at[id(rule)])
                    )
                )
                yield Block(number, shape, holding, meant)
    except UserError as error:
        said = str(error)
        where = f"{place.source}, line {place.line}: "
        raise UserError(said if said.startswith(place.source) else where + said) from None


def _conditions(when: Sequence[str], suits: hand_terms.Suits) -> tuple[Test, ...] | None:
    """The tests of conditions; None where an order of suits is not as they say."""
    tests: list[Test] = []
    for term in when:
        said = hand_terms.with_suits(term, suits)
        true = auction_conditions.order(said)
        if true is None:
            tests += auction_conditions.where(said)
        elif not true:
            return None
    return tuple(tests)


def _meant(rule: Rule, given: hand_terms.Suits, number: int) -> Iterator[Meant]:
    """A rule with every choice of suits for those letters that its place has not given."""
    text = " , ".join((rule.call, *rule.shows, *rule.when, *rule.kinds))
    free = hand_terms.letters_of(text) - set(given)
    try:
        for more in hand_terms.bindings(free):
            if _chosen(more) & _chosen(given):
                continue
            suits = {**given, **more}
            holding = _conditions(rule.when, suits)
            if holding is None:
                continue
            tests = [hand_terms.shown_by(hand_terms.with_suits(term, suits)) for term in rule.shows]
            shown = tuple(sorted({each for each in tests if each is not None}))
            yield _kind(
                rule, hand_terms.with_suits(rule.call, suits), shown, holding, suits, number
            )
    except UserError as error:
        where = f"{rule.source}, line {rule.line}: "
        raise UserError(where + f"rule '{rule.name}': {error}") from None


def _chosen(suits: hand_terms.Suits) -> set[str]:
    return {suit for letter, suit in suits.items() if letter in hand_terms.LETTERS}


def _kind(
    rule: Rule, call: str, shown: tuple[Test, ...], when: tuple[Test, ...], suits: hand_terms.Suits,
    number: int,
) -> Meant:  # fmt: skip
    """A rule as numbers: what sort of call it is as the file says, or what a plain player would
    take it for."""
    made, relative = _call(call)
    strain = made % 5 if relative or made < PASS else -1
    kind = {"P": "pass", "XX": "redouble", "X": "takeout double"}.get(call)
    said = {
        "status": STATUSES.index("passed" if call == "P" else "non-forcing"),
        "type": TYPES.index(kind or ("notrump" if strain == NOTRUMP else "natural")),
        "slam": 0, "suit": strain, "agreed": -1, "trumps": -1, "power": -1, "heard": 0,
        "rare": 0,
    }  # fmt: skip
    for word in rule.kinds:
        said.update([_said(hand_terms.with_suits(word, suits))])
    if TYPES[said["type"]] == "raise" and said["agreed"] == -1:
        said["agreed"] = strain
    status = STATUSES[said["status"]]
    return Meant(
        made, relative, shown, when, said["status"], said["type"], said["slam"], said["suit"],
        said["agreed"], said["trumps"], said["power"], status in FORCING, status == "game-forcing",
        number, bool(said["heard"]), bool(said["rare"]),
    )  # fmt: skip


def _call(text: str) -> tuple[int, int]:
    """The number of a call, or of the strain of a relative one, and how it is relative."""
    exact = hand_terms.call_of(text)
    if exact is not None:
        return exact, 0
    how, _, strain = text.rpartition(" ")
    if how not in RELATIVE or strain not in tuple(STRAINS):
        raise UserError(f"'{text}' is no call: write 1C to 7N, P, X, XX, or lowest S, jump S")
    return STRAINS.index(strain), RELATIVE[how]


def _said(word: str) -> tuple[str, int]:
    """What one word of a rule's last column says. Raises UserError."""
    for key, known in (("status", STATUSES), ("type", TYPES), ("slam", SLAMS)):
        if word in known:
            return key, known.index(word)
    first, _, last = word.partition(" ")
    if first in SUITED and last in tuple(STRAINS):
        return SUITED[first], STRAINS.index(last)
    if word in FLAGGED:
        return FLAGGED[word]
    near = nearest(word, [*STATUSES, *TYPES, *SLAMS, *(f"{key} S" for key in SUITED), *FLAGGED])
    raise UserError(f"'{word}' is no kind of call: did you mean '{near}'?")
