"""Compile bidding systems to integer arrays.

A system file consists of sections (class `parser.Place`). A section has one or more patterns of the
auction so far; its rules apply after calls that match a pattern. A section may have suit variables,
such as M for a major suit. The compiler writes one block of rules for each pattern and each
assignment of suits to the variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from overtrick.core import Array, UserError, suggestion
from overtrick.games.bridge.auction_rules import CALLS, PASS, STRAIN_LETTERS
from overtrick.games.bridge.cards import NOTRUMP
from overtrick.games.bridge.system import auction_conditions, hand_terms
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.hand_terms import Pattern, RangeTest, substitute_suits
from overtrick.games.bridge.system.parser import Place, Rule
from overtrick.games.bridge.system.public_knowledge import MEANING_WIDTH, SLAMS, STATUSES, TYPES

RELATIVE = {"lowest": 1, "jump": 2, "double jump": 3}
SUITED = {"agrees": "agreed", "keycards": "trumps", "means": "suit"}
FLAGGED = {
    "extra": ("power", 1),
    "minimum": ("power", 0),
    "heard": ("heard", 1),
    "rare": ("rare", 1),
}
FORCING = ("forcing", "game-forcing", "asking")
IF_UNPASSED = " if unpassed"
"""End of a kind that a call has only if its player did not pass before the opening bid."""
OPENINGS, LENGTH_CLASSES = 36, 24
"""Sizes of the index of blocks: by opening bid (35: no bid yet), and by the number of calls since
the opening bid (23 or more are one class)."""

PRIORITY, ONLY, LENGTH, PATTERNS, PATTERNS_END, HOLDS, HOLDS_END, RULES, RULES_END = range(9)
"""Columns of SystemTables.block:

    PRIORITY, ONLY          the fields `priority` and `only` of the place
    LENGTH                  number of calls since the opening bid, or -1 for any number
    PATTERNS, PATTERNS_END  first row and end of its rows in SystemTables.pattern
    HOLDS, HOLDS_END        first row and end of its rows in SystemTables.condition
    RULES, RULES_END        first row and end of its rows in SystemTables.rule
"""

RELATIVE_TO, CALL, TESTS, TESTS_END, IF, IF_END, MEANING = range(7)
FORCES, TO_GAME, RULE, HEARD, RARE = range(MEANING + MEANING_WIDTH, MEANING + MEANING_WIDTH + 5)
TYPE_OF = MEANING + public.TYPE
"""Columns of SystemTables.rule:

    RELATIVE_TO       0 for a fixed call, or a value of RELATIVE for a relative call
    CALL              the call, or the strain of a relative call
    TESTS, TESTS_END  first row and end of its rows in SystemTables.test (tests of the hand)
    IF, IF_END        first row and end of its rows in SystemTables.condition
    MEANING           first of the MEANING_WIDTH columns listed in public_knowledge
    TYPE_OF           the column of the type, among the columns from MEANING
    FORCES, TO_GAME   whether the call forces partner to bid; whether it forces to game
    RULE              index of the rule in System.rules
    HEARD, RARE       whether the rule has the kind `heard`, the kind `rare` (see `parser`)
"""

AGO, CALL_MASK = range(2)
"""Columns of SystemTables.pattern: number of calls back from the next call (1 is the last call),
and bit mask of the calls allowed there."""

FIELD, LOWEST, HIGHEST, ADDED = range(4)
"""Columns of SystemTables.test and, without ADDED, of SystemTables.condition (see RangeTest)."""


@dataclass(frozen=True)
class ExpandedRule:
    """Bidding rule in numeric form, with suits in place of suit variables such as M (a major)."""

    call: int  # the call, or the strain of a relative call
    relative: int  # 0 for a fixed call, or a value of RELATIVE
    tests: tuple[RangeTest, ...]  # tests of the hand
    when: tuple[RangeTest, ...]  # tests of the auction
    meaning: tuple[int, ...]  # (MEANING_WIDTH,) columns of public_knowledge: status, type, ...
    forcing: bool  # the call forces partner to bid
    to_game: bool  # the call forces to game
    rule: int  # index in System.rules
    heard: bool  # the rule interprets a call but does not make it
    rare: bool  # the rule makes a call but does not interpret it


@dataclass(frozen=True)
class RuleBlock:
    """One pattern of calls and the rules that apply after it.

    Each suit variable, such as M for a major, is replaced by one of its suits.
    """

    place: Place
    shape: Pattern  # the calls after which the rules apply
    when: tuple[RangeTest, ...]  # tests of the auction
    rules: list[ExpandedRule]


class SystemTables(NamedTuple):
    """A bidding system as int32 arrays for compiled code."""

    starts: Array  # (36 x 24 + 1,) first entry in `listed` for each opening bid and length class
    listed: Array  # (n,) rows of `block`, by opening bid and length class, in order of priority
    block: Array  # (blocks, RULES_END + 1) one row per RuleBlock
    pattern: Array  # (n, 2) int64 allowed calls
    condition: Array  # (n, 3) tests of the auction
    rule: Array  # (n, RARE + 1) one row per ExpandedRule
    test: Array  # (n, 4) tests of the hand


def expand_places(places: Sequence[Place], rules: Sequence[Rule]) -> list[RuleBlock]:
    """Expand a bidding system to blocks of rules, with a suit in place of each suit variable.

    A suit variable such as M stands for any major. A Place is a section of the system's file: it
    has rules and the patterns of calls after which they apply, such as "1N (P)". It becomes one
    block for each pattern and each assignment of suits to its variables.

    places: the sections. rules: the rules of all sections, in the order of the sections.

    Raises UserError with the file and line of a term that cannot be parsed.
    """
    at = {id(rule): index for index, rule in enumerate(rules)}
    return [block for place in places for block in _expand_place(place, at)]


def compile_tables(blocks: Sequence[RuleBlock]) -> SystemTables:
    """Compile the blocks of rules of a bidding system to integer arrays."""
    block: list[tuple[int, ...]] = []
    opening_mask: list[int | None] = []  # bit mask of opening bids; None for any
    pattern: list[tuple[int, int]] = []
    condition: list[tuple[int, int, int]] = []
    rows: list[tuple[int, ...]] = []
    test: list[tuple[int, int, int, int]] = []
    for each in blocks:
        place, shape = each.place, each.shape
        starts = len(pattern), len(condition), len(rows)
        pattern += enumerate(shape.masks, 1)
        condition += [(one.index, one.lo, one.hi) for one in each.when]
        ends = len(pattern), len(condition)
        for rule in each.rules:
            row = [rule.relative, rule.call, len(test), 0, len(condition), 0, *rule.meaning]
            test += [(one.index, one.lo, one.hi, one.ref) for one in rule.tests]
            condition += [(one.index, one.lo, one.hi) for one in rule.when]
            row[TESTS_END], row[IF_END] = len(test), len(condition)
            rows.append((*row, rule.forcing, rule.to_game, rule.rule, rule.heard, rule.rare))
        length = len(shape.masks) if shape.whole else -1
        ranges = starts[0], ends[0], starts[1], ends[1], starts[2], len(rows)
        block.append((place.priority, place.only, length, *ranges))
        opening_mask.append(shape.masks[-1] if shape.whole and shape.masks else None)
    masks = np.array([-1 if mask is None else mask for mask in opening_mask], np.int64)
    lengths = np.array([columns[LENGTH] for columns in block])
    any_length, no_bid = lengths < 0, OPENINGS - 1
    opens = (masks[:, None] >> np.arange(OPENINGS) & 1).astype(bool)
    opens[:, no_bid] = masks < 0
    opens[lengths == 0, :no_bid] = False
    in_class = np.minimum(lengths, LENGTH_CLASSES - 1)[:, None] == np.arange(LENGTH_CLASSES)
    fits = opens.T[:, None] & (in_class | any_length[:, None]).T
    listed = np.nonzero(fits)[2]
    index = np.concatenate([[0], np.cumsum(fits.sum(axis=2).reshape(-1))])

    def array(rows: Sequence[Sequence[int]], width: int, kind: type = np.int32) -> Array:
        return np.array(rows, kind).reshape(-1, width)

    return SystemTables(
        index.astype(np.int32), listed.astype(np.int32), array(block, RULES_END + 1),
        array(pattern, 2, np.int64), array(condition, 3), array(rows, RARE + 1), array(test, 4),
    )  # fmt: skip


def _expand_place(place: Place, at: dict[int, int]) -> Iterator[RuleBlock]:
    """Instantiate one section of a bidding-system file as blocks of rules without suit variables.

    There is one block for each pattern of calls in the section and each assignment of suits to the
    pattern's variables, such as M for a major. A block holds the pattern and the rules that apply
    after it.

    place: the section. at: index of each rule in System.rules, with id(rule) as the key.
    """
    try:
        for text in place.patterns:
            letters = hand_terms.suit_letters(" ".join((text, *place.when)))
            for suits in hand_terms.suit_assignments(letters):
                conditions = _parse_conditions(place.when, suits)
                if conditions is None:
                    continue
                shape = hand_terms.parse_pattern(substitute_suits(text, suits))
                rules = (_expand_rule(rule, suits, at[id(rule)]) for rule in place.rules)
                distinct = list(dict.fromkeys(chain.from_iterable(rules)))
                yield RuleBlock(place, shape, conditions, distinct)
    except UserError as error:
        said = str(error)
        where = f"{place.source}, line {place.line}: "
        raise UserError(said if said.startswith(place.source) else where + said) from None


def _parse_conditions(when: Sequence[str], suits: hand_terms.Suits) -> tuple[RangeTest, ...] | None:
    """Parse conditions on the auction, such as "seat 3", as interval checks.

    Each check is of an integer feature of the auction (public_knowledge.VIEW). Return None if the
    conditions contain a false comparison of suits, such as "H above S". when: the conditions as
    text. suits: the suit to substitute for each suit variable.
    """
    tests: list[RangeTest] = []
    for term in when:
        said = substitute_suits(term, suits)
        true = auction_conditions.evaluate_suit_order(said)
        if true is None:
            tests += auction_conditions.parse_condition(said)
        elif not true:
            return None
    return tuple(tests)


def _expand_rule(rule: Rule, given: hand_terms.Suits, number: int) -> Iterator[ExpandedRule]:
    """Convert a rule to numeric form; yield one ExpandedRule for each choice of suits.

    A choice replaces the rule's suit variables, such as M for a major, by different suits. given:
    the suit of each variable of the rule's section, which is fixed. number: index of the rule in
    System.rules.
    """
    text = " , ".join((rule.call, *rule.shows, *rule.when, *rule.kinds))
    free = hand_terms.suit_letters(text) - set(given)
    try:
        for more in hand_terms.suit_assignments(free):
            if _assigned_suits(more) & _assigned_suits(given):
                continue
            for variant in _by_earlier_pass(rule):
                expanded = _as_integers(variant, {**given, **more}, number)
                if expanded is not None:
                    yield expanded
    except UserError as error:
        where = f"{rule.source}, line {rule.line}: "
        raise UserError(where + f"rule '{rule.name}': {error}") from None


def _by_earlier_pass(rule: Rule) -> tuple[Rule, ...]:
    """Split a rule by whether its player passed before the opening bid, if a kind depends on it.

    With the kind "forcing if unpassed", the call is forcing only in the first of the two rules.
    """
    if not any(kind.endswith(IF_UNPASSED) for kind in rule.kinds):
        return (rule,)
    unpassed = tuple(kind.removesuffix(IF_UNPASSED) for kind in rule.kinds)
    passed = tuple(kind for kind in rule.kinds if not kind.endswith(IF_UNPASSED))
    return (
        replace(rule, kinds=unpassed, when=(*rule.when, "unpassed")),
        replace(rule, kinds=passed, when=(*rule.when, "passed")),
    )


def _assigned_suits(suits: hand_terms.Suits) -> set[str]:
    return {suit for letter, suit in suits.items() if letter in hand_terms.LETTERS}


def _as_integers(rule: Rule, suits: hand_terms.Suits, number: int) -> ExpandedRule | None:
    """Convert a rule to numeric form, with suits in place of its suit variables.

    Return None if the rule's conditions contain a false comparison of suits, such as "H above S".
    If the rule does not state the meaning of its call, the call is natural: a suit bid, for
    example, gets the type "natural" and the status "non-forcing".

    suits: the suit to substitute for each suit variable. number: index of the rule in System.rules.
    """
    when = _parse_conditions(rule.when, suits)
    if when is None:
        return None
    shown = {hand_terms.parse_hand_term(substitute_suits(term, suits)) for term in rule.shows}
    tests = tuple(sorted(test for test in shown if test is not None))
    text = substitute_suits(rule.call, suits)
    call, relative = _parse_call(text)
    strain = call % 5 if relative or call < PASS else -1
    kind = {"P": "pass", "XX": "redouble", "X": "takeout double"}.get(text)
    said = {
        "status": STATUSES.index("passed" if text == "P" else "non-forcing"),
        "type": TYPES.index(kind or ("notrump" if strain == NOTRUMP else "natural")),
        "slam": 0, "suit": strain, "agreed": -1, "trumps": -1, "power": -1, "heard": 0,
        "rare": 0,
    }  # fmt: skip
    said.update(_parse_kind(substitute_suits(word, suits)) for word in rule.kinds)
    if TYPES[said["type"]] == "raise" and said["agreed"] == -1:
        said["agreed"] = strain
    heard, rare, status = bool(said.pop("heard")), bool(said.pop("rare")), STATUSES[said["status"]]
    forcing, to_game = status in FORCING, status == "game-forcing"
    meaning = tuple(said.values())
    return ExpandedRule(call, relative, tests, when, meaning, forcing, to_game, number, heard, rare)


def _parse_call(text: str) -> tuple[int, int]:
    """Parse a call such as "1S" as (call, 0), and a relative call as (strain, value of RELATIVE).

    A relative call is "lowest S", "jump S" or "double jump S": its level depends on the last bid.
    Raises UserError for any other text.
    """
    if text in CALLS:
        return CALLS.index(text), 0
    how, _, strain = text.rpartition(" ")
    if how not in RELATIVE or strain not in tuple(STRAIN_LETTERS):
        raise UserError(f"'{text}' is not a call: write 1C to 7N, P, X, XX, or lowest S, jump S")
    return STRAIN_LETTERS.index(strain), RELATIVE[how]


def _parse_kind(word: str) -> tuple[str, int]:
    """Parse a word from a rule's last column as (key, value): one part of its call's meaning.

    For example, "forcing" becomes ("status", 5), where 5 is the index of "forcing" in STATUSES, and
    "agrees S" becomes ("agreed", 3), where 3 is spades. Raises UserError for an unknown word.
    """
    for key, known in (("status", STATUSES), ("type", TYPES), ("slam", SLAMS)):
        if word in known:
            return key, known.index(word)
    first, _, last = word.partition(" ")
    if first in SUITED and last in tuple(STRAIN_LETTERS):
        return SUITED[first], STRAIN_LETTERS.index(last)
    if word in FLAGGED:
        return FLAGGED[word]
    kinds = [*STATUSES, *TYPES, *SLAMS, *(f"{key} S" for key in SUITED), *FLAGGED]
    raise UserError(f"'{word}' is not a kind of call: {suggestion(word, kinds)}")
