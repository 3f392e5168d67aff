"""What five, six or seven cards are worth: a few sums, then a look into tables made from the rules.

A card is a number 0..51: rank c // 4, from 0 for a deuce to 12 for an ace, and suit c % 4. The sum
of its cards' keys says how many cards a hand has of each rank (a digit to base 5 each) and of each
suit (a counter each). No flush shares a hand of at most seven cards with four of a kind or a full
house, so a flush is judged by its ranks alone, and any other hand by its digits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array

RANKS, SUITS, MAX_CARDS = 13, 4, 7  # the most cards that are judged together
CLASSES = 7462  # five-card hands that differ in worth
CATEGORIES = (
    "high card", "pair", "two pair", "three of a kind", "straight", "flush", "full house",
    "four of a kind", "straight flush",
)  # fmt: skip
STRAIGHT, FLUSH = 4, 5
OF_COUNTS = {(1, 1): 0, (2, 1): 1, (2, 2): 2, (3, 1): 3, (3, 2): 6, (4, 1): 7}
"""The category of five cards by their two largest counts of a rank; 0 may become 4, 5 or 8."""

LOWER = 6  # ranks whose digits are in the lower half of a key; the other seven are in the upper
UPPER_AT, SUITS_AT, LANE = 16, 36, 16  # bits of a key before its parts; bits of a suit in `bits`
NOTHING = 0x3333 << SUITS_AT  # no card: a suit's counter starts at 3, so that 5 cards set its top
FLUSHED = 0x8888 << SUITS_AT  # the top bits of the four counters


def _card_sums() -> tuple[Array, Array]:
    """(52,) int64 each: what a card adds to the key and to the bits of a hand."""
    rank, suit = np.divmod(np.arange(RANKS * SUITS), SUITS)
    digit = np.where(rank < LOWER, 5**rank, 5 ** np.maximum(rank - LOWER, 0) << UPPER_AT)
    return digit + (1 << SUITS_AT + 4 * suit), 1 << LANE * suit + rank


def _counts(digits: int) -> tuple[Array, Array]:
    """(5 ** digits, digits) the digits of every number, lowest first, and their sums."""
    counts = np.arange(5**digits)[:, None] // 5 ** np.arange(digits) % 5
    return counts, counts.sum(axis=1)


def _worth(counts: Array) -> Array:
    """(R, 2) a number that grows with the worth of five cards, (R, 13) of each rank: if their suits
    differ, and if not, which only five ranks can; it starts with the category."""
    order = np.argsort(-(counts * RANKS + np.arange(RANKS)), axis=1)[:, :5]  # many, then high
    shape = np.take_along_axis(counts, order, axis=1)
    category = np.array([OF_COUNTS.get((a, b), 0) for a, b in shape[:, :2]])
    single = shape[:, 4] == 1
    wheel = single & (order[:, 0] == RANKS - 1) & (order[:, 1] == 3)  # the ace below the deuce
    straight = wheel | (single & (order[:, 0] - order[:, 4] == 4))
    kickers = np.where(shape > 0, order, 0) @ RANKS ** np.arange(5)[::-1]
    kickers = np.where(wheel, 3 * RANKS**4, np.where(straight, order[:, 0] * RANKS**4, kickers))
    flush = np.where(straight, STRAIGHT + FLUSH - 1, FLUSH)
    mixed = np.where(straight, STRAIGHT, category)
    return np.stack([mixed, np.where(single, flush, -1)], axis=1) * RANKS**5 + kickers[:, None]


def _tables() -> tuple[Array, Array, Array, Array, Array]:
    """LOWER_PLACE, UPPER_PLACE, BY_COUNTS, BY_RANKS and CATEGORY_OF.

    The digits of a hand are a place among all that at most seven cards can have: those with the
    same upper half are neighbours, fewer cards in the lower half first.
    """
    low, low_cards = _counts(LOWER)
    high, high_cards = _counts(RANKS - LOWER)
    by_cards = np.argsort(low_cards, kind="stable")
    lower_place = np.empty(len(low), np.int32)
    lower_place[by_cards] = np.arange(len(low))
    within = np.cumsum(np.bincount(low_cards))  # lower halves of at most so many cards
    size = np.where(high_cards <= MAX_CARDS, within[np.maximum(MAX_CARDS - high_cards, 0)], 0)
    upper_place = (np.cumsum(size) - size).astype(np.int32)

    upper = np.repeat(np.arange(len(high)), size)
    lower = by_cards[np.arange(len(upper)) - upper_place[upper]]
    counts = np.hstack([low[lower], high[upper]])
    cards = counts.sum(axis=1)
    worth = _worth(counts[cards == 5])
    flushes = worth[:, 1] >= 0
    levels, level = np.unique(np.concatenate([worth[:, 0], worth[flushes, 1]]), return_inverse=True)
    by_counts = np.full(len(counts), -1, np.int16)
    by_counts[cards == 5] = level[: len(worth)]
    by_ranks = np.full(1 << RANKS, -1, np.int16)
    by_ranks[(counts[cards == 5][flushes] << np.arange(RANKS)).sum(axis=1)] = level[len(worth) :]

    # more than five cards are worth the best that is left without one of them
    masks = np.arange(1 << RANKS)
    held = masks[:, None] >> np.arange(RANKS) & 1
    for n in range(6, MAX_CARDS + 1):
        for rank in range(RANKS):
            hands = np.flatnonzero((cards == n) & (counts[:, rank] > 0))
            less_low = lower[hands] - (5**rank if rank < LOWER else 0)
            less_high = upper[hands] - (5 ** (rank - LOWER) if rank >= LOWER else 0)
            less = by_counts[upper_place[less_high] + lower_place[less_low]]
            by_counts[hands] = np.maximum(by_counts[hands], less)
            hands = np.flatnonzero((held.sum(axis=1) == n) & (held[:, rank] > 0))
            by_ranks[hands] = np.maximum(by_ranks[hands], by_ranks[hands ^ 1 << rank])
    return lower_place, upper_place, by_counts, by_ranks, (levels // RANKS**5).astype(np.int8)


KEYS, BITS = _card_sums()
LOWER_PLACE, UPPER_PLACE, BY_COUNTS, BY_RANKS, CATEGORY_OF = _tables()


def strength(cards: Array) -> Array:
    """(R,) int32 worth of hands (R, 5..7): 0 for 7-5-4-3-2 up to 7461 for a royal flush.

    The best five of the cards count; equal numbers are ties. No card may stand twice in a hand.
    Raises ValueError for hands of another size.
    """
    if not 5 <= cards.shape[1] <= MAX_CARDS:
        raise ValueError(f"hands must have 5 to {MAX_CARDS} cards, not {cards.shape[1]}")
    return _strengths(cards)


def category(strength: Array) -> Array:
    """(R,) int8 place in CATEGORIES of hands of some strength."""
    return CATEGORY_OF[strength]


@njit(cache=True)
def strength_of_sums(key, bits):  # type: ignore[no-untyped-def]
    """The strength of one hand, from the sums of its cards' KEYS (and NOTHING) and BITS."""
    if key & FLUSHED:
        suit = 0
        while not key & (8 << (SUITS_AT + 4 * suit)):
            suit += 1
        return BY_RANKS[bits >> (LANE * suit) & 0x1FFF]
    return BY_COUNTS[UPPER_PLACE[key >> UPPER_AT & 0x1FFFF] + LOWER_PLACE[key & 0x3FFF]]


@njit(cache=True)
def _strengths(cards):  # type: ignore[no-untyped-def]
    found = np.empty(len(cards), np.int32)
    for row in range(len(cards)):
        key, bits = NOTHING, 0
        for column in range(cards.shape[1]):
            key += KEYS[cards[row, column]]
            bits += BITS[cards[row, column]]
        found[row] = strength_of_sums(key, bits)
    return found
