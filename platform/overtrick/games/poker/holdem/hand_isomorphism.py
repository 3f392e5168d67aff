"""Assign an index to each hold'em hand (hole cards and board), up to suit isomorphism.

Hands that differ only by a permutation of suits are isomorphic and have the same index. The
algorithm is similar to Waugh 2013, "A fast and optimal hand isomorphism algorithm". The four rounds
have 169, 1,286,792, 13,960,050 and 123,156,254 hands, as in that paper. Terms of this module:

- pair: the cards of one suit in a hand, as two sets of ranks: hole cards and board cards.
- class of a pair: the number of its hole cards and of its board cards. The pairs of a class are
  numbered from 0.
- shape of a hand: the sorted classes of its four suits (Waugh: configuration). The hands of a shape
  have adjacent indices.

The index of a hand is computed in three steps:

1. Group the suits by class. The order of suits in a group does not matter.
2. For each group, take the multiset of its pairs' numbers and compute its colexicographic index.
3. Combine the indices of all groups as digits of a mixed-radix number, and add the index of the
   first hand of this shape.
"""

from __future__ import annotations

import itertools
from functools import cache
from math import comb
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.poker.deck import RANKS, SUITS

HOLE = 2  # number of hole cards
BOARD = (0, 3, 4, 5)  # number of board cards in each round
CLASSES = (HOLE + 1) * (BOARD[-1] + 1)  # a class is 6 x hole cards + board cards of one suit
POWERS = 3 ** np.arange(RANKS)  # a suit is a ternary number: 1 hole card, 2 board card
PLACE = 16  # low bits of a code, which hold the index of a pair within its class


class HandIndexer(NamedTuple):
    """Tables for the kernels that assign an index to each hand, up to suit isomorphism."""

    code: Array  # (3 ** 13,) int32 class << PLACE + index in the class, by a suit's ternary number
    first: Array  # (CLASSES,) int64 number of the first pair of each class
    size: Array  # (CLASSES,) int64 number of pairs in each class
    hole: Array  # (pairs,) int64 ranks of the hole cards as bits
    board: Array  # (pairs,) int64 ranks of the board cards as bits
    choose: Array  # (SUITS + 1, places) int64 binomial coefficients [k, n]
    shape: Array  # (CLASSES ** 4,) int16 row of a shape in `kind`, by its classes as digits
    kind: Array  # (shapes, 4) int64 class of each suit in each shape; shapes sorted by round
    twin: Array  # (shapes, 4) int64 position, from 1, of each suit in its run of equal classes
    scale: Array  # (shapes, 4) int64 factor of the multiset rank of the suit's run
    start: Array  # (shapes,) int64 index of the first hand of each shape
    rounds: Array  # (5,) int64 first shape of each round, and the number of shapes
    counts: Array  # (4,) int64 number of hands in each round
    low: int  # the lowest rank in the deck


@cache
def hand_indexer(ranks: int = RANKS) -> HandIndexer:
    """Build and cache the tables that index the hands of a deck of the highest `ranks` ranks."""
    low = RANKS - ranks
    some = [
        [sum(1 << r for r in held) for held in itertools.combinations(range(low, RANKS), n)]
        for n in range(BOARD[-1] + 1)
    ]
    pairs = [
        [(hole, board) for hole in some[h] for board in some[b] if not hole & board]
        for h in range(HOLE + 1)
        for b in range(BOARD[-1] + 1)
    ]
    size = np.array([len(members) for members in pairs])
    first = np.cumsum(size) - size
    hole, board = np.array([pair for members in pairs for pair in members]).T.copy()
    in_hole, on_board = (sets[:, None] >> np.arange(RANKS) & 1 for sets in (hole, board))
    ternary = (in_hole + 2 * on_board) @ POWERS
    code = np.full(3**RANKS, -1, np.int32)
    kind = np.repeat(np.arange(CLASSES), size)
    code[ternary] = (kind << PLACE) + np.arange(len(kind)) - first[kind]

    shape = np.full(CLASSES**SUITS, -1, np.int16)
    kinds: list[tuple[int, ...]] = []
    twins, scales, starts = [], [], []
    rounds, counts = [0], []
    for cards in BOARD:
        total = 0
        for classes in itertools.combinations_with_replacement(range(CLASSES), SUITS):
            holes, boards = np.sum([divmod(c, BOARD[-1] + 1) for c in classes], axis=0)
            if (holes, boards) != (HOLE, cards):
                continue
            shape[np.polyval(classes, CLASSES)] = len(kinds)
            places = 1
            scale, twin = list[int](), list[int]()
            for c, run in itertools.groupby(classes):
                k = len(list(run))
                twin += range(1, k + 1)
                scale += [places] * k
                places *= comb(int(size[c]) + k - 1, k)
            kinds.append(classes)
            twins.append(twin)
            scales.append(scale)
            starts.append(total)
            total += places
        rounds.append(len(kinds))
        counts.append(total)
    # the largest class that two suits can have at once: one hole card and two board cards
    widest = int(size[BOARD[-1] + 1 + 2]) + SUITS
    choose = np.array([[comb(n, k) for n in range(widest)] for k in range(SUITS + 1)])
    return HandIndexer(
        code, first, size, hole, board, choose, shape, np.array(kinds), np.array(twins),
        np.array(scales), np.array(starts), np.array(rounds), np.array(counts), low,
    )  # fmt: skip


@njit(cache=True)
def add_card(sums, card, digit):  # type: ignore[no-untyped-def]
    """Add a card to a hand, in place.

    sums: (4,) the hand, as a number in base 3 for each suit with one digit for each rank. digit: 1
    for a hole card, 2 for a board card.
    """
    sums[card % SUITS] += digit * POWERS[card // SUITS]


@njit(cache=True)
def index_from_sums(known, sums):  # type: ignore[no-untyped-def]
    """Return the index of a hand among the hands of its round, up to suit isomorphism.

    known: the tables from `hand_indexer`. sums: (4,) the hand as a number in base 3 for each suit,
    with digit 1 at the rank of a hole card and 2 at the rank of a board card (see `add_card`).
    """
    code = known.code
    a, b, c, d = code[sums[0]], code[sums[1]], code[sums[2]], code[sums[3]]
    a, b = min(a, b), max(a, b)
    c, d = min(c, d), max(c, d)
    a, c = min(a, c), max(a, c)
    b, d = min(b, d), max(b, d)
    b, c = min(b, c), max(b, c)
    key = 0
    for each in (a, b, c, d):
        key = key * CLASSES + (each >> PLACE)
    shape = known.shape[key]
    found = known.start[shape]
    for suit, each in enumerate((a, b, c, d)):
        place = np.int64(each & (1 << PLACE) - 1)
        found += known.scale[shape, suit] * _multisets(place, known.twin[shape, suit])
    return found


@njit(cache=True)
def _multisets(n, k):  # type: ignore[no-untyped-def]
    """Return the number of multisets with k elements from a set of n elements; k is 1 to 4."""
    two = n * (n + 1) // 2
    three = two * (n + 2) // 3
    four = three * (n + 3) // 4
    return n if k == 1 else two if k == 2 else three if k == 3 else four


@njit(cache=True)
def write_cards(known, shape, index, cards):  # type: ignore[no-untyped-def]
    """Write the canonical hand with a given index; return the size of its suit-isomorphism class.

    `known`: the tables from `hand_indexer`.
    `shape`: the result of `shape_of` for this index.
    `index`: index of the hand among the hands of its betting round.
    `cards`: output: two hole cards, then the board.
    """
    # the pairs of the written hand are in ascending order of suits
    left = index - known.start[shape]
    holes, boards, namings, twins, last = 0, HOLE, 1, 1, np.int64(-1)
    among = np.int64(0)
    for suit in range(SUITS - 1, -1, -1):
        kind, k = known.kind[shape, suit], known.twin[shape, suit]
        if suit == SUITS - 1 or known.kind[shape, suit + 1] != kind:
            among = left // known.scale[shape, suit]
            left -= among * known.scale[shape, suit]
        place = among
        if k > 1:
            row = known.choose[k]
            above = np.searchsorted(row, among, side="right") - 1
            among -= row[above]
            place = above - (k - 1)
        pair = known.first[kind] + place
        twins = twins + 1 if pair == last else 1
        last = pair
        namings = namings * (SUITS - suit) // twins  # finally 4! / (twins! ...)
        hole, board = known.hole[pair], known.board[pair]
        for rank in range(known.low, RANKS):
            if hole >> rank & 1:
                cards[holes] = rank * SUITS + suit
                holes += 1
            elif board >> rank & 1:
                cards[boards] = rank * SUITS + suit
                boards += 1
    return namings


@njit(cache=True)
def shape_of(known, round, index):  # type: ignore[no-untyped-def]
    """Return the index of a hand's shape: its row in `known.kind`.

    The shape tells how many hole cards and board cards each suit has. known: the tables from
    `hand_indexer`. index: index of the hand among the hands of the betting round `round`.
    """
    begin, end = known.rounds[round], known.rounds[round + 1]
    return begin + np.searchsorted(known.start[begin:end], index, side="right") - 1
