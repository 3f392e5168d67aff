"""Meaning of a call in a bidding system, as ranges of hand features and in words."""

from __future__ import annotations

from dataclasses import dataclass

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import BIDS, CALLS, PASS
from overtrick.games.bridge.system import hand_evaluation as hand
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.parser import Rule

SUIT_NAMES = ("clubs", "diamonds", "hearts", "spades")
OMITTED = ("none", "passed", "non-forcing", "natural", "pass", "notrump")
"""Statuses and types that an explanation leaves out."""


@dataclass(frozen=True)
class Meaning:
    """Meaning of one call in the caller's bidding system: its rule and the hand it promises."""

    call: int
    rule: Rule | None  # the first rule that makes the call; None if no rule of the system does
    lo: Array  # (H,) lowest value of each hand feature that the call promises
    hi: Array  # (H,) highest value of each hand feature
    said: Array  # (MEANING_WIDTH,) columns listed in public_knowledge: status, type, ...


def describe_meaning(meaning: Meaning) -> str:
    """Describe the meaning of a call in words, such as "Stayman: 8+ points, asking"."""
    if meaning.rule is None:
        return f"{'pass' if meaning.call == PASS else CALLS[meaning.call]}: not in the system here"
    points = _range(meaning, hand.HCP)
    terms = [f"{points} points"] if points else []
    terms += [*_shape(meaning), *_honours(meaning), *_kinds(meaning, meaning.rule)]
    return f"{meaning.rule.name}: {', '.join(terms)}" if terms else meaning.rule.name


def _range(meaning: Meaning, field: int) -> str:
    """Format the range of one hand feature in a call's meaning: "15-17", "12+" or "at most 9".

    Return an empty string if every value is possible. field: index in hand_evaluation.FIELDS.
    """
    lo, hi = int(meaning.lo[field]), int(meaning.hi[field])
    least, most = int(public.LIMITS[0, field]), int(public.LIMITS[1, field])
    if lo <= least and hi >= most:
        return ""
    if lo == hi:
        return str(lo)
    if hi >= most:
        return f"{lo}+"
    return f"{lo}-{hi}" if lo > least else f"at most {hi}"


def _shape(meaning: Meaning) -> list[str]:
    if meaning.lo[hand.SHAPE] == 2:
        shape = ["balanced"]
    else:
        shape = ["unbalanced"] if meaning.hi[hand.SHAPE] < 2 else []
    for suit in reversed(range(4)):
        lo, hi = meaning.lo[hand.LENGTH + suit], meaning.hi[hand.LENGTH + suit]
        if shape == ["balanced"] and lo <= 2 and hi >= 5:
            continue
        if lo >= 4 or hi <= 4 or (lo == 3 and meaning.call < BIDS and meaning.call % 5 == suit):
            shape.append(f"{_range(meaning, hand.LENGTH + suit)} {SUIT_NAMES[suit]}")
    return shape


def _honours(meaning: Meaning) -> list[str]:
    terms = []
    for suit in reversed(range(4)):
        name = SUIT_NAMES[suit]
        if meaning.lo[hand.STOPPER + suit] == 1:
            terms.append(f"{name} stopped")
        if meaning.hi[hand.CONTROL + suit] <= 2:
            terms.append(f"{name} controlled")
        if meaning.lo[hand.STRENGTH + suit] >= 2:
            terms.append(f"good {name}")
    aces = _range(meaning, hand.ACES)
    return [*terms, f"{aces} aces"] if aces else terms


def _kinds(meaning: Meaning, rule: Rule) -> list[str]:
    """List words about the meaning of a call, such as "transfer", "forcing" or "slam try".

    Words that the rule's name already contains, and the default words in OMITTED, are left out.
    """
    type_, status, slam = meaning.said[[public.TYPE, public.STATUS, public.SLAM]].tolist()
    words = public.TYPES[type_], public.STATUSES[status], public.SLAMS[slam]
    return [word for word in words if word not in OMITTED and word not in rule.name.lower()]
