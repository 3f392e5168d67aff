"""Exact equity of all hole cards of hold'em against a uniformly random hand, on every board.

On a river board, all pairs of hole cards without a common card are compared. The equity on an
earlier board is the mean over the next card. Equities are therefore computed by backward recursion
over boards, from the river to the empty board. Boards are taken up to suit isomorphism: boards that
differ only by a permutation of suits are one board.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.poker import hand_ranking
from overtrick.games.poker.deck import RANKS, SUITS
from overtrick.games.poker.hand_ranking import BITS, KEYS, NOTHING, strength_of_sums

DECK = RANKS * SUITS
HOLDINGS = DECK * (DECK - 1) // 2  # 1,326 pairs of hole cards
NONE = HOLDINGS  # entry of PAIR for a card with itself
PAIR = np.full((DECK, DECK), NONE, np.int16)
PAIR[np.tril_indices(DECK, -1)] = np.arange(HOLDINGS)
PAIR = np.minimum(PAIR, PAIR.T)
"""Index (52, 52) of a pair of hole cards, by its two cards in any order."""
LEFT = DECK - 5  # number of cards that are not on a river board
MAX_EQUITY = 2 * ((LEFT - 2) * (LEFT - 3) // 2)  # largest river equity: 2 for each opponent hand
SWAPS = np.array(list(itertools.permutations(range(SUITS))))  # (24, 4) permutations of suits


class BoardClasses(NamedTuple):
    """All boards with a given number of cards, as n classes of suit-isomorphic boards."""

    key: Array  # (n,) int64 ascending; 13 bits of ranks for each suit, largest suit first
    weight: Array  # (n,) int64 number of boards in each class


def boards(cards: int) -> BoardClasses:
    """Return all boards with `cards` cards, up to suit isomorphism.

    There are 1,755 classes of 3 cards, 16,432 of 4 and 134,459 of 5.
    """
    return BoardClasses(*np.unique(_keys(cards), return_counts=True))


def pass_down(longer: BoardClasses, sums: Array | None, shorter: BoardClasses) -> Array:
    """Sum the equities of all hole cards over the next board card: one backward recursion step.

    Return equity sums (n, HOLDINGS) int64 for each board and pair of hole cards. An equity sum is
    the equity times a factor that depends only on the number of board cards. It is 0 for hole cards
    that share a card with the board.

    `longer`: the m suit-isomorphism classes of boards with the next card.
    `sums`: (m, HOLDINGS) equity sums for the boards `longer`, or None if they are river boards.
    `shorter`: the n suit-isomorphism classes of boards without the next card.
    """
    found = np.zeros((len(shorter.key), HOLDINGS), np.int64)
    _pass_down(longer.key, longer.weight, sums, shorter.key, found)
    _add_symmetric(shorter.key, found)
    return found


@njit(cache=True)
def key_of(masks, place):  # type: ignore[no-untyped-def]
    """Return the key of a board, an integer that is equal for suit-isomorphic boards.

    `masks`: (4,) bit mask of the board's ranks in each suit.
    `place`: (4,) output: for each suit, the position of its rank mask in the key. This is the
        permutation of suits that makes the board canonical.
    """
    for suit in range(SUITS):
        ahead = 0
        for other in range(SUITS):
            ahead += masks[other] > masks[suit] or (masks[other] == masks[suit] and other < suit)
        place[suit] = ahead
    key = np.int64(0)
    for suit in range(SUITS):
        key |= np.int64(masks[suit]) << (RANKS * (SUITS - 1 - place[suit]))
    return key


@njit(cache=True)
def river_equities(board, equity):  # type: ignore[no-untyped-def]
    """Write the equities of all hole cards on a river board into `equity` (HOLDINGS,).

    board: (5,) the cards of the board. The equity is 2 for each beaten opponent hand plus 1 for
    each tie, among the 990 possible opponent hands. It is -1 for hole cards that share a card with
    the board.
    """
    key, bits, used = NOTHING, 0, 0
    for card in board:
        key += KEYS[card]
        bits += BITS[card]
        used |= 1 << card
    equity[:] = -1
    left, others = np.empty(LEFT, np.int64), 0
    for card in range(DECK):
        if not used >> card & 1:
            left[others] = card
            others += 1
    size = LEFT * (LEFT - 1) // 2
    high, low = np.empty(size, np.int64), np.empty(size, np.int64)
    strength, count = np.empty(size, np.int64), np.zeros(hand_ranking.CLASSES + 1, np.int64)
    at = 0
    for i in range(LEFT):
        its_key, its_bits = key + KEYS[left[i]], bits + BITS[left[i]]
        for j in range(i):
            high[at], low[at] = left[i], left[j]
            strength[at] = strength_of_sums(its_key + KEYS[left[j]], its_bits + BITS[left[j]])
            count[strength[at] + 1] += 1
            at += 1
    for level in range(hand_ranking.CLASSES):  # cumulative: the first index of each strength
        count[level + 1] += count[level]
    order = np.empty(size, np.int64)
    for at in range(size):
        order[count[strength[at]]] = at
        count[strength[at]] += 1
    # hands that share a card are not compared, so wins over them are subtracted for each card
    beaten, level_with = np.zeros(DECK, np.int64), np.zeros(DECK, np.int64)
    start = 0
    while start < size:
        end = start
        while end < size and strength[order[end]] == strength[order[start]]:
            level_with[high[order[end]]] += 1
            level_with[low[order[end]]] += 1
            end += 1
        for at in order[start:end]:
            a, b = high[at], low[at]
            weaker = start - beaten[a] - beaten[b]
            tied = end - start - level_with[a] - level_with[b] + 1
            equity[PAIR[a, b]] = 2 * weaker + tied
        for at in order[start:end]:
            for card in (high[at], low[at]):
                beaten[card] += level_with[card]
                level_with[card] = 0
        start = end


@njit(cache=True)
def _keys(cards):  # type: ignore[no-untyped-def]
    """Return the int64 keys of all boards with `cards` cards, as computed by `key_of`.

    The boards are taken in lexicographic order. Suit-isomorphic boards have equal keys.
    """
    total = 1
    for k in range(cards):
        total = total * (DECK - k) // (k + 1)
    found = np.empty(total, np.int64)
    board, place = np.arange(cards), np.empty(SUITS, np.int64)
    for at in range(total):
        masks = np.zeros(SUITS, np.int64)
        for card in board:
            masks[card % SUITS] |= 1 << card // SUITS
        found[at] = key_of(masks, place)
        k = cards - 1
        while k > 0 and board[k] == DECK - cards + k:
            k -= 1
        if cards > 0:
            board[k] += 1
        for later in range(k + 1, cards):
            board[later] = board[later - 1] + 1
    return found


@njit(cache=True)
def _take_apart(key, masks, board):  # type: ignore[no-untyped-def]
    """Decode a board's key: write rank masks into `masks` (4,) and cards into `board` (5,).

    Return the number of cards.
    """
    at = 0
    for suit in range(SUITS):
        masks[suit] = key >> (RANKS * (SUITS - 1 - suit)) & (1 << RANKS) - 1
        for rank in range(RANKS):
            if masks[suit] >> rank & 1:
                board[at] = rank * SUITS + suit
                at += 1
    return at


@njit(cache=True)
def _without(masks, card, place, less):  # type: ignore[no-untyped-def]
    """Remove a card from a board and return the index of the smaller board's key in `less`.

    `masks`: (4,) bit mask of the board's ranks in each suit, unchanged on return.
    `card`: the card to remove.
    `place`: (4,) output: the permutation of suits that makes the smaller board canonical.
    `less`: ascending keys, as from `key_of`, of all boards with one card fewer.
    """
    masks[card % SUITS] ^= 1 << card // SUITS
    found = np.searchsorted(less, key_of(masks, place))
    masks[card % SUITS] ^= 1 << card // SUITS
    return found


@njit(cache=True)
def _add(values, weight, place, row):  # type: ignore[no-untyped-def]
    """Add `weight` times `values` to `row`, in place, after permuting the suits of the hole cards.

    `values`: (HOLDINGS,) an equity or equity sum for each pair of hole cards. Negative entries are
        left out: they mark hole cards that share a card with the board.
    `place`: (4,) for each suit in `values`, the suit in `row`.
    `row`: (HOLDINGS,) sum for each pair of hole cards.
    """
    renamed = np.empty(DECK, np.int64)
    for card in range(DECK):
        renamed[card] = card // SUITS * SUITS + place[card % SUITS]
    at = 0
    for a in range(DECK):
        for b in range(a):
            if values[at] > 0:
                row[PAIR[renamed[a], renamed[b]]] += weight * values[at]
            at += 1


@njit(cache=True)
def _pass_down(key, weight, sums, less, found):  # type: ignore[no-untyped-def]
    masks, place = np.empty(SUITS, np.int64), np.empty(SUITS, np.int64)
    board, equity = np.empty(5, np.int64), np.empty(HOLDINGS, np.int64)
    for at in range(len(key)):
        cards = board[: _take_apart(key[at], masks, board)]
        if sums is None:
            river_equities(board, equity)
        else:
            equity = sums[at]
        for card in cards:
            row = found[_without(masks, card, place, less)]
            _add(equity, weight[at], place, row)


@njit(cache=True)
def _add_symmetric(key, sums):  # type: ignore[no-untyped-def]
    """Sum values of hole cards over all permutations of suits that leave the board unchanged.

    Hole cards that such a permutation maps to each other then have the same value.

    `key`: (n,) keys of the boards.
    `sums`: (n, HOLDINGS) value of each pair of hole cards on each board, changed in place.
    """
    masks, board = np.empty(SUITS, np.int64), np.empty(5, np.int64)
    for at in range(len(key)):
        _take_apart(key[at], masks, board)
        before = sums[at].copy()
        for swap in SWAPS[1:]:  # the first is the identity
            same = True
            for suit in range(SUITS):
                same &= masks[swap[suit]] == masks[suit]
            if same:
                _add(before, 1, swap, sums[at])
