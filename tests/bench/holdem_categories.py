"""Measure the ranking of all seven-card hands per second beside phevaluator, with counts by
category."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import phevaluator
from tests.bench.measure import Result, seconds_of

from overtrick.games.poker.hand_ranking import CATEGORIES, category, strength

DECK, HANDS, PEER_HANDS = 52, 133_784_560, 200_000
PUBLISHED = {
    "high card": 23_294_460,
    "pair": 58_627_800,
    "two pair": 31_433_400,
    "three of a kind": 6_461_620,
    "straight": 6_180_020,
    "flush": 4_047_644,
    "full house": 3_473_184,
    "four of a kind": 224_848,
    "straight flush": 41_584,
}
"""Number of seven-card hands of each category; en.wikipedia.org/wiki/Poker_probability."""


def run() -> Result:
    """Rank every hand; only strength() and category() are timed.

    Raises AssertionError if a category does not have the published number of hands.
    """
    counts = np.zeros(len(CATEGORIES), np.int64)
    found = np.zeros(0, np.int8)
    seconds = 0.0

    def rank(hands: np.ndarray) -> None:
        nonlocal found
        found = category(strength(hands))

    rank(np.arange(7, dtype=np.int8)[None])  # compiles
    for hands in _every_hand():
        seconds += seconds_of(lambda hands=hands: rank(hands))
        counts += np.bincount(found, minlength=len(CATEGORIES))
    assert dict(zip(CATEGORIES, counts.tolist(), strict=True)) == PUBLISHED, counts
    assert counts.sum() == HANDS

    some = np.argsort(np.random.default_rng(0).random((PEER_HANDS, DECK)), axis=1)[:, :7].tolist()
    peer_seconds = seconds_of(lambda: [phevaluator.evaluate_cards(*hand) for hand in some])
    ours, peer = HANDS / seconds, PEER_HANDS / peer_seconds
    return Result(
        name="holdem_categories",
        work=f"all {HANDS:,} seven-card hands, their strength and category, one core; every "
        "category has the published number of hands",
        ours=ours,
        peer=peer,
        peer_name=f"phevaluator.evaluate_cards(), {PEER_HANDS:,} hands; without arrays: "
        "its C code with one Python call per hand",
        unit="hands/s",
        ratio=ours / peer,
        goal=50,
    )


def _every_hand() -> Iterator[np.ndarray]:
    """Yield all hands (R, 7) in batches with the same two lowest cards; all batches share one
    array."""
    fives = itertools.chain.from_iterable(itertools.combinations(range(DECK), 5))
    hands = np.zeros((2_598_960, 7), np.int8)
    hands[:, 2:] = np.fromiter(fives, np.int8).reshape(-1, 5)
    for low, high in itertools.combinations(range(DECK - 5), 2):
        above = hands[np.searchsorted(hands[:, 2], high, side="right") :]
        above[:, :2] = low, high
        yield above
