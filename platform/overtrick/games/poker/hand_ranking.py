"""Strength of poker hands of five, six or seven cards, by table look-up.

A card c is an integer from 0 to 51: its rank is c // 4 (0 deuce, 12 ace), its suit c % 4. Each card
has a key. The sum of the keys of a hand counts its cards of each rank (a base-5 digit for each
rank) and of each suit. A hand of at most seven cards that contains a flush cannot contain four of a
kind or a full house. A flush is therefore looked up by its set of ranks, any other hand by its rank
counts.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.poker.deck import MAX_CARDS, RANKS, SUITS

CLASSES = 7462  # number of different strengths of five-card hands
CATEGORIES = (
    "high card", "pair", "two pair", "three of a kind", "straight", "flush", "full house",
    "four of a kind", "straight flush",
)  # fmt: skip
STRAIGHT, FLUSH = 4, 5
OF_COUNTS = {(1, 1): 0, (2, 1): 1, (2, 2): 2, (3, 1): 3, (3, 2): 6, (4, 1): 7}
"""Category of five cards by their two largest rank counts, before straights and flushes."""

LOWER = 6  # a key has the digits of the lowest 6 ranks at bit 0, those of the other 7 at UPPER_AT
UPPER_AT, SUITS_AT, LANE = 16, 36, 16  # bit positions in a key; bits per suit in BITS
# key of no cards: suit counters start at 3, so that 5 cards set the top bit
NOTHING = 0x3333 << SUITS_AT
FLUSHED = 0x8888 << SUITS_AT  # the top bits of the four suit counters


def _card_sums() -> tuple[Array, Array]:
    """Return the tables KEYS and BITS, (52,) int64 each, with one packed integer per card.

    The sum of KEYS over the cards of a hand counts its cards of each rank and of each suit. The sum
    of BITS over the cards of a hand is the set of its ranks in each suit, as bits.
    """
    # layout of a key:
    #   from bit 0: a base-5 digit for each of the 6 lowest ranks
    #   from bit UPPER_AT: a base-5 digit for each of the 7 higher ranks
    #   from bit SUITS_AT: a counter of 4 bits for each suit
    # layout of the sum of BITS: LANE bits for each suit, one bit for each rank
    rank, suit = np.divmod(np.arange(RANKS * SUITS), SUITS)
    digit = np.where(rank < LOWER, 5**rank, 5 ** np.maximum(rank - LOWER, 0) << UPPER_AT)
    return digit + (1 << SUITS_AT + 4 * suit), 1 << LANE * suit + rank


def _counts(digits: int) -> tuple[Array, Array]:
    """List all ways to hold 0 to 4 cards of each of `digits` ranks.

    Return the number of cards of each rank (5 ** digits, digits), and the number of cards in total
    (5 ** digits,). Row n of the first array has the base-5 digits of n, lowest digit first.
    """
    counts = np.arange(5**digits)[:, None] // 5 ** np.arange(digits) % 5
    return counts, counts.sum(axis=1)


def _strength_keys(counts: Array) -> Array:
    """Return sort keys (R, 2) of five-card hands from their rank counts; stronger is larger.

    `counts`: (R, 13) number of cards of each rank. Columns of the result:

    0: key of the hand if its cards have different suits
    1: key of the hand if all its cards have the same suit; negative if a rank occurs twice
    """
    order = np.argsort(-(counts * RANKS + np.arange(RANKS)), axis=1)[:, :5]  # by count, then rank
    shape = np.take_along_axis(counts, order, axis=1)
    category = np.array([OF_COUNTS.get((a, b), 0) for a, b in shape[:, :2]])
    single = shape[:, 4] == 1
    wheel = single & (order[:, 0] == RANKS - 1) & (order[:, 1] == 3)  # 5-4-3-2-A
    straight = wheel | (single & (order[:, 0] - order[:, 4] == 4))
    kickers = np.where(shape > 0, order, 0) @ RANKS ** np.arange(5)[::-1]
    kickers = np.where(wheel, 3 * RANKS**4, np.where(straight, order[:, 0] * RANKS**4, kickers))
    flush = np.where(straight, STRAIGHT + FLUSH - 1, FLUSH)
    mixed = np.where(straight, STRAIGHT, category)
    return np.stack([mixed, np.where(single, flush, -1)], axis=1) * RANKS**5 + kickers[:, None]


def _tables() -> tuple[Array, Array, Array, Array, Array]:
    """Build the look-up tables of hand strength, in the order of the following list.

    - LOWER_PLACE (5 ** 6,), UPPER_PLACE (5 ** 7,): int32 terms of a perfect hash of a hand's rank
      counts. Their indices are the counts of the lower 6 and of the upper 7 ranks, as base-5
      numbers. The hash is the sum of both terms.
    - BY_COUNTS (n,): int16 strength of a hand without flush, by this hash.
    - BY_RANKS (8192,): int16 strength of a flush, by the bit mask of its ranks.
    - CATEGORY_OF (CLASSES,): int8 category of each strength, an index into CATEGORIES.
    """
    low, low_cards = _counts(LOWER)
    high, high_cards = _counts(RANKS - LOWER)
    by_cards = np.argsort(low_cards, kind="stable")
    lower_place = np.empty(len(low), np.int32)
    lower_place[by_cards] = np.arange(len(low))
    within = np.cumsum(np.bincount(low_cards))  # lower parts with at most 0, 1, 2, ... cards
    size = np.where(high_cards <= MAX_CARDS, within[np.maximum(MAX_CARDS - high_cards, 0)], 0)
    upper_place = (np.cumsum(size) - size).astype(np.int32)

    upper = np.repeat(np.arange(len(high)), size)
    lower = by_cards[np.arange(len(upper)) - upper_place[upper]]
    counts = np.hstack([low[lower], high[upper]])
    cards = counts.sum(axis=1)
    keys = _strength_keys(counts[cards == 5])
    flushes = keys[:, 1] >= 0
    levels, level = np.unique(np.concatenate([keys[:, 0], keys[flushes, 1]]), return_inverse=True)
    by_counts = np.full(len(counts), -1, np.int16)
    by_counts[cards == 5] = level[: len(keys)]
    by_ranks = np.full(1 << RANKS, -1, np.int16)
    by_ranks[(counts[cards == 5][flushes] << np.arange(RANKS)).sum(axis=1)] = level[len(keys) :]

    # the strength of n cards is the best strength after removing one of them
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
    """Return the strengths (R,) int32 of hands: from 0 (7-5-4-3-2) to 7461 (royal flush).

    `cards`: (R, 5 to 7), different cards in each hand. The best five cards of a hand count; hands
    of equal strength tie. Raises ValueError for hands with fewer than 5 or more than 7 cards.
    """
    if not 5 <= cards.shape[1] <= MAX_CARDS:
        raise ValueError(f"hands must have 5 to {MAX_CARDS} cards, not {cards.shape[1]}")
    return seat_strengths(cards, 1, cards.shape[1])[:, 0]


def category(strength: Array) -> Array:
    """Return the category (R,) int8 of each strength (R,), as an index into CATEGORIES."""
    return CATEGORY_OF[strength]


@njit(cache=True)
def strength_of_sums(key, bits):  # type: ignore[no-untyped-def]
    """Return the strength of a hand of 5 to 7 cards, from sums over its cards.

    key: NOTHING plus the sum of KEYS[card] over the hand's cards. It counts the cards of each rank
    and shows whether the hand has a flush. bits: sum of BITS[card] over the hand's cards. It has
    the ranks of a flush.
    """
    if key & FLUSHED:
        suit = 0
        while not key & (8 << (SUITS_AT + 4 * suit)):
            suit += 1
        return BY_RANKS[bits >> (LANE * suit) & 0x1FFF]
    return BY_COUNTS[UPPER_PLACE[key >> UPPER_AT & 0x1FFFF] + LOWER_PLACE[key & 0x3FFF]]


@njit(cache=True)
def seat_strengths(deals, seats, hole):  # type: ignore[no-untyped-def]
    """Return the strength (G, seats) int32 of each seat's best five cards.

    deals: (G, C) `hole` cards for each seat, seat by seat, then the board.
    """
    found = np.empty((len(deals), seats), np.int32)
    for game in range(len(deals)):
        board_key, board_bits = NOTHING, 0
        for column in range(seats * hole, deals.shape[1]):
            board_key += KEYS[deals[game, column]]
            board_bits += BITS[deals[game, column]]
        for seat in range(seats):
            key, bits = board_key, board_bits
            for column in range(seat * hole, seat * hole + hole):
                key += KEYS[deals[game, column]]
                bits += BITS[deals[game, column]]
            found[game, seat] = strength_of_sums(key, bits)
    return found
