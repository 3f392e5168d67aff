"""Meaning of a call in a bidding system, in words.

A call may show several kinds of hands. A takeout double, for example, shows an opening hand that is
short in the opponents' suit, or any strong hand. The explanation lists them as alternatives, at
most MAX_ALTERNATIVES. If a call has more rules, the most similar ones are joined.

Each line of an explanation consists of conditions: words such as "15-17 points" with the values of
hand features that they allow. `ExplanationLine.fits` tests hands by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import BIDS, CALLS, PASS
from overtrick.games.bridge.cards import hand_bits, random_deals
from overtrick.games.bridge.system import hand_evaluation as hand
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.parser import Rule

SUIT_NAMES = ("clubs", "diamonds", "hearts", "spades")
OMITTED = ("none", "passed", "natural", "pass", "notrump", "preempt")
"""Statuses and types that an explanation leaves out."""
ALERTED = ("transfer", "relay", "conventional", "cue bid")
"""Types of calls that players alert."""
UNLIMITED = 28  # high-card points from which an upper end is left out: hardly any hand has them
GOOD, SOLID = 2, 7  # strength of good suits, with the king or the ace, and of solid ones, with AKQ
SAMPLED_DEALS = 1000
MAX_ALTERNATIVES = 3  # without the line for players who stretch the rules
KEY_CARDS = ("none or three", "one or four", "two or five")  # by their number modulo 3
FIELDS = (
    hand.HCP, hand.SHAPE, *range(hand.LENGTH, hand.LENGTH + 4),
    *range(hand.STOPPER, hand.STOPPER + 4), *range(hand.CONTROL, hand.CONTROL + 4),
    *range(hand.STRENGTH, hand.STRENGTH + 4), hand.ACES, *range(hand.KEYCODE, hand.KEYCODE + 4),
    *range(hand.QUEEN, hand.QUEEN + 4),
)  # fmt: skip
"""Hand features that an explanation prints."""


@dataclass(frozen=True)
class HandType:
    """One kind of hand that makes a call: a range for each hand feature."""

    rule: Rule  # its rule; of joined kinds, that of more hands
    lo: Array  # (H,) lowest value of each hand feature
    hi: Array  # (H,) highest value of each hand feature
    named: Array  # (H,) bool: its rules limit this feature themselves
    capped: Array  # (H,) bool: its rules set the highest value themselves
    said: Array  # (MEANING_WIDTH,) columns listed in public_knowledge: status, type, ...


@dataclass(frozen=True)
class Meaning:
    """Meaning of one call in the caller's bidding system: its rule and the hands it promises."""

    call: int
    rule: Rule | None  # by which the other players interpret the call; None if there is none
    lo: Array  # (H,) lowest value of each hand feature that the call promises
    hi: Array  # (H,) highest value of each hand feature
    said: Array  # (MEANING_WIDTH,) columns listed in public_knowledge: status, type, ...
    hands: tuple[HandType, ...] = ()  # kinds of hands that make the call; rare ones are left out
    stretched: tuple[HandType, ...] = ()  # the same, and first one for each rule of kind `heard`;
    # limited only by what the caller's earlier calls show if they may have been stretched, too

    @property
    def alerted(self) -> bool:
        """Return whether players alert the call."""
        return public.TYPES[int(self.said[public.TYPE])] in ALERTED


class Condition(NamedTuple):
    """Words about a hand, such as "15-17 points", and the values of one hand feature they allow."""

    words: str
    field: int  # index in hand_evaluation.FIELDS
    lo: int  # lowest value
    hi: int  # highest value


BALANCED = Condition("balanced", hand.SHAPE, 2, 2)


class ExplanationLine(NamedTuple):
    """One line of an explanation: a kind of hand that a call shows."""

    name: str  # of the rule; empty if it is that of the first line
    conditions: tuple[Condition, ...]
    kinds: tuple[str, ...]  # words about the call, such as "forcing"

    @property
    def text(self) -> str:
        """The line in words."""
        terms = ", ".join([*(each.words for each in self.conditions), *self.kinds])
        return f"{self.name}: {terms}" if self.name and terms else self.name or terms

    def fits(self, fields: Array) -> Array:
        """Return (N,) which hands satisfy all conditions of the line. fields: (N, H)."""
        found = np.ones(len(fields), np.bool_)
        for each in self.conditions:
            found &= (each.lo <= fields[:, each.field]) & (fields[:, each.field] <= each.hi)
        return found

    def contains(self, other: ExplanationLine) -> bool:
        """Return whether every hand within another line is within this one."""
        stated = {each.field: each for each in other.conditions}
        return all(
            each.field in stated
            and each.lo <= stated[each.field].lo
            and stated[each.field].hi <= each.hi
            for each in self.conditions
        )

    def points(self) -> tuple[int, int]:
        """Return the lowest and highest number of high-card points in the line."""
        least, most = public.LIMITS[:, hand.HCP].tolist()
        stated = ((each.lo, each.hi) for each in self.conditions if each.field == hand.HCP)
        return next(stated, (least, most))


def describe_meaning(meaning: Meaning) -> str:
    """Describe the meaning of a call in words, such as "Stayman: 7-16 points, 4 spades; or ...".

    Alternatives are separated by "; or ".
    """
    return "; or ".join(explanation_lines(meaning))


def explanation_lines(meaning: Meaning) -> list[str]:
    """Describe the meaning of a call in words, one line for each kind of hand that it shows.

    The first line also tells whether the call is forcing, and whether it is alerted; other lines do
    so only where they differ. A last line may tell which other hands some players hold.
    """
    if meaning.rule is None:
        return [f"{'pass' if meaning.call == PASS else CALLS[meaning.call]}: no rule"]
    return [each.text for each in explain_meaning(meaning)]


def explain_meaning(meaning: Meaning) -> list[ExplanationLine]:
    """Return the lines of `explanation_lines` as data; none if no rule makes the call."""
    shown = join_similar(meaning.hands, MAX_ALTERNATIVES)
    lines: list[ExplanationLine] = []
    for number, each in enumerate(shown):
        kinds = _kinds(meaning.call, each)
        if number > 0 and kinds == _kinds(meaning.call, shown[0]):
            kinds = []
        conditions = _conditions(meaning.call, each)
        same = number > 0 and each.rule.name == shown[0].rule.name
        name = "" if same and (conditions or kinds) else each.rule.name
        lines.append(ExplanationLine(name, tuple(conditions), tuple(kinds)))
    stretched = [each for each in meaning.stretched if not _contains_any(shown, each)]
    if stretched:
        widest = join_similar((*shown, *stretched), 1)[0]
        name = "some players"
        if not shown:
            name = f"not in the system; some players: {meaning.stretched[0].rule.name}"
        line = ExplanationLine(name, tuple(_conditions(meaning.call, widest)), ())
        told = any(each.contains(line) for each in lines)
        if not told and (line.conditions or not shown):
            lines.append(line)
    return list({each.text: each for each in lines}.values())


def join_similar(hands: Iterable[HandType], most: int) -> list[HandType]:
    """Reduce kinds of hands to at most `most`: drop contained ones, then join the most similar.

    The cost of joining two is the share of hands that only the joined ranges contain. Joins that
    cost nothing are always made. The most frequent kinds come first.
    """
    kept: list[HandType] = []
    for each in hands:
        if not _contains_any(kept, each):
            kept = [other for other in kept if not _contains(each, other)]
            kept.append(each)
    joined = True
    while len(kept) > 1 and joined:
        cost, a, b = min(
            (_join_cost(kept[a], kept[b]), a, b) for a, b in combinations(range(len(kept)), 2)
        )
        joined = cost <= 0 or len(kept) > most
        if joined:
            kept[a] = _join(kept[a], kept[b])
            del kept[b]
    return sorted(kept, key=lambda each: -int(_fitting(each).sum()))


def _contains(outer: HandType, inner: HandType) -> bool:
    fields = list(FIELDS)
    return bool(
        (outer.lo[fields] <= inner.lo[fields]).all()
        and (outer.hi[fields] >= inner.hi[fields]).all()
    )


def _contains_any(outer: Iterable[HandType], inner: HandType) -> bool:
    return any(_contains(each, inner) for each in outer)


def _join(a: HandType, b: HandType) -> HandType:
    """Return the smallest ranges that contain those of both; the rule is that of more hands."""
    rule = a.rule if _fitting(a).sum() >= _fitting(b).sum() else b.rule
    lo, hi = np.minimum(a.lo, b.lo), np.maximum(a.hi, b.hi)
    said = a.said if rule is a.rule else b.said
    return HandType(rule, lo, hi, a.named & b.named, a.capped & b.capped, said)


def _join_cost(a: HandType, b: HandType) -> float:
    """Return the share of hands in the joined ranges of `a` and `b` that are in neither of them.

    Unless the ranges join exactly, add a millionth of the added width. Kinds of different meaning,
    such as forcing and weak, cost 1 more.
    """
    fields = list(FIELDS)
    joined = _join(a, b)
    extra = _fitting(joined) & ~_fitting(a) & ~_fitting(b)
    wider = [(joined.hi - joined.lo - each.hi + each.lo)[fields].sum() for each in (a, b)]
    overlap = (np.minimum(a.hi, b.hi) - np.maximum(a.lo, b.lo))[fields]
    adjacent = (overlap < 0).sum() == 0 or ((overlap == -1).sum() == 1 and (overlap < 0).sum() == 1)
    exact = adjacent and ((joined.lo != a.lo) | (joined.hi != a.hi))[fields].sum() <= 1
    exact = exact and ((joined.lo != b.lo) | (joined.hi != b.hi))[fields].sum() <= 1
    cost = float(extra.mean()) + (0.0 if exact else 1e-6 * float(min(wider) + 1))
    return cost if np.array_equal(a.said, b.said) else cost + 1


def _fitting(shown: HandType) -> Array:
    """Return which hands of a random sample fit these ranges, (N,) bool."""
    sample, (least, most) = _sample_hands(), public.LIMITS
    found = np.ones(sample.shape[1], np.bool_)
    for field in FIELDS:
        lo, hi = shown.lo[field], shown.hi[field]
        if lo > least[field]:
            found &= sample[field] >= lo
        if hi < most[field]:
            found &= sample[field] <= hi
    return found


@cache
def _sample_hands() -> Array:
    """Return the features (H, N) of random hands."""
    hands = hand_bits(random_deals(SAMPLED_DEALS, default_rng(0))).reshape(-1)
    return np.ascontiguousarray(hand.hand_fields(hands).T)


def _conditions(call: int, shown: HandType) -> list[Condition]:
    """List the conditions of one kind of hand, such as "15-17 points" and "balanced"."""
    points = _range(shown, hand.HCP, "points")
    return [*points, *_shape(call, shown), *_honours(shown)]


def _range(
    shown: HandType, field: int, noun: str, one: str = "", capped: bool = True
) -> list[Condition]:
    """Return the condition of the range of one hand feature: "15-17", "12+" or "at most 9 points".

    Return no condition if every value is possible. field: index in hand_evaluation.FIELDS. one: the
    noun after a range that ends with 1. capped: False leaves out the upper end.
    """
    lo, hi = int(shown.lo[field]), int(shown.hi[field])
    least, most = int(public.LIMITS[0, field]), int(public.LIMITS[1, field])
    if lo < hi and (not capped or (field == hand.HCP and hi >= UNLIMITED)):
        hi = most
    if lo <= least and hi >= most:
        return []
    if lo == hi:
        text = str(lo)
    elif hi >= most:
        text = f"{lo}+"
    else:
        text = f"{lo}-{hi}" if lo > least else f"at most {hi}"
    return [Condition(f"{text} {one if one and text.endswith('1') else noun}", field, lo, hi)]


def _shape(call: int, shown: HandType) -> list[Condition]:
    shape: list[Condition] = []
    if shown.lo[hand.SHAPE] == 2:
        shape = [BALANCED]
    elif shown.lo[hand.SHAPE] == 1:
        shape = [Condition("nearly balanced", hand.SHAPE, 1, 2)]
    elif shown.hi[hand.SHAPE] < 2 and shown.named[hand.SHAPE]:
        shape = [Condition("unbalanced", hand.SHAPE, 0, 1)]
    agreed = int(shown.said[public.AGREED])
    for suit in reversed(range(4)):
        field = hand.LENGTH + suit
        lo, hi = shown.lo[field], shown.hi[field]
        if shape == [BALANCED] and lo <= 2 and hi >= 5:
            continue
        own = call < BIDS and call % 5 == suit
        own = own and public.TYPES[shown.said[public.TYPE]] in ("natural", "raise", "preempt")
        shortest = 2 if own else 3 if suit == agreed else 4
        named, capped = shown.named[field], bool(shown.capped[field])
        if lo >= shortest or (named and lo >= 3) or (capped and hi <= 4):
            name = SUIT_NAMES[suit]
            shape += _range(shown, field, name, name[:-1], capped)
    return shape


def _honours(shown: HandType) -> list[Condition]:
    found: list[Condition] = []
    trumps = int(shown.said[public.TRUMPS])
    if 0 <= trumps < 4 and shown.lo[hand.KEYCODE + trumps] == shown.hi[hand.KEYCODE + trumps]:
        code = int(shown.lo[hand.KEYCODE + trumps])
        words = f"{KEY_CARDS[code]} key cards (aces and the king of {SUIT_NAMES[trumps]})"
        found.append(Condition(words, hand.KEYCODE + trumps, code, code))
        queen = hand.QUEEN + trumps
        if shown.lo[queen] == shown.hi[queen]:
            held = int(shown.lo[queen])
            found.append(Condition(f"{('without', 'with')[held]} the queen", queen, held, held))
    for suit in reversed(range(4)):
        name = SUIT_NAMES[suit]
        if shown.lo[hand.STOPPER + suit] == 1:
            found.append(Condition(f"{name} stopped", hand.STOPPER + suit, 1, 1))
        if shown.hi[hand.CONTROL + suit] <= 2:
            found.append(Condition(f"{name} controlled", hand.CONTROL + suit, 1, 2))
        if shown.lo[hand.STRENGTH + suit] >= GOOD:
            word, least = (
                ("solid", SOLID) if shown.lo[hand.STRENGTH + suit] == SOLID else ("good", GOOD)
            )
            found.append(Condition(f"{word} {name}", hand.STRENGTH + suit, least, SOLID))
    return [*found, *(_range(shown, hand.ACES, "aces", "ace") if shown.named[hand.ACES] else ())]


def _kinds(call: int, shown: HandType) -> list[str]:
    """List words about a call: its type, whether it is forcing, a slam try, or alerted.

    A bid always has one word about its force. Types that the rule's name already contains are left
    out, and those in OMITTED.
    """
    type_, status, slam = shown.said[[public.TYPE, public.STATUS, public.SLAM]].tolist()
    kind, force = public.TYPES[type_], public.STATUSES[status]
    words = [] if kind in OMITTED or kind in shown.rule.name.lower() else [kind]
    if kind == "relay" or force == "asking":
        force = "forcing"
    if call < BIDS or force != "non-forcing":
        words.append(force.replace("non-forcing", "not forcing"))
    words.append(public.SLAMS[slam])
    words = [word for word in words if word not in OMITTED]
    return [*words, "alert"] if kind in ALERTED else words
