"""What a call promises, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import BIDS, CALLS, PASS
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.parser import Rule
from overtrick.games.bridge.system.public_knowledge import (
    LIMITS,
    SLAM,
    SLAMS,
    STATUS,
    STATUSES,
    TYPE,
    TYPES,
)

SUIT_NAMES = ("clubs", "diamonds", "hearts", "spades")
UNTOLD = ("none", "passed", "non-forcing", "natural", "pass", "notrump")
"""Statuses and types that go without saying."""


@dataclass(frozen=True)
class Meaning:
    """What one call promises by the system of its side."""

    call: int
    rule: Rule | None  # the first that makes it; None if the system does not know the call here
    lo: Array  # (H,) the least of each field of the hand
    hi: Array  # (H,) the most
    said: Array  # (SAID,) status, type and so on, as `known` numbers them


def describe_meaning(meaning: Meaning) -> str:
    """Stayman: 8+ points, asking."""
    if meaning.rule is None:
        return f"{'pass' if meaning.call == PASS else CALLS[meaning.call]}: not in the system here"
    parts = [_points(meaning), *_shape(meaning), *_honours(meaning), *_kinds(meaning)]
    told = ", ".join(part for part in parts if part)
    return f"{meaning.rule.name}: {told}" if told else meaning.rule.name


def _range(lo: int, hi: int, least: int, most: int) -> str:
    """15-17, 12+, at most 9; nothing where all is possible."""
    if lo <= least and hi >= most:
        return ""
    if lo == hi:
        return str(lo)
    if hi >= most:
        return f"{lo}+"
    return f"{lo}-{hi}" if lo > least else f"at most {hi}"


def _ends(meaning: Meaning, field: int) -> tuple[int, int, int, int]:
    return (
        int(meaning.lo[field]), int(meaning.hi[field]), int(LIMITS[0, field]),
        int(LIMITS[1, field]),
    )  # fmt: skip


def _points(meaning: Meaning) -> str:
    said = _range(*_ends(meaning, hand_evaluation.HCP))
    return f"{said} points" if said else ""


def _shape(meaning: Meaning) -> list[str]:
    if meaning.lo[hand_evaluation.SHAPE] == 2:
        shape = ["balanced"]
    else:
        shape = ["unbalanced"] if meaning.hi[hand_evaluation.SHAPE] < 2 else []
    for suit in reversed(range(4)):
        lo, hi, least, most = _ends(meaning, hand_evaluation.LENGTH + suit)
        if shape == ["balanced"] and lo <= 2 and hi >= 5:
            continue
        if lo >= 4 or hi <= 4 or (lo == 3 and meaning.call < BIDS and meaning.call % 5 == suit):
            shape.append(f"{_range(lo, hi, least, most)} {SUIT_NAMES[suit]}")
    return shape


def _honours(meaning: Meaning) -> list[str]:
    told = []
    for suit in reversed(range(4)):
        name = SUIT_NAMES[suit]
        if meaning.lo[hand_evaluation.STOPPER + suit] == 1:
            told.append(f"{name} stopped")
        if meaning.hi[hand_evaluation.CONTROL + suit] <= 2:
            told.append(f"{name} controlled")
        if meaning.lo[hand_evaluation.STRENGTH + suit] >= 2:
            told.append(f"good {name}")
    aces = _range(*_ends(meaning, hand_evaluation.ACES))
    return [*told, f"{aces} aces"] if aces else told


def _kinds(meaning: Meaning) -> list[str]:
    words = (
        TYPES[meaning.said[TYPE]], STATUSES[meaning.said[STATUS]], SLAMS[meaning.said[SLAM]]
    )  # fmt: skip
    assert meaning.rule is not None
    name = meaning.rule.name.lower()
    return [word for word in words if word not in UNTOLD and word not in name]
