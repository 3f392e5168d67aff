"""How often each holding wins against a uniform hand, for every holding on a board at once.

All of it is exact. On a river board every two holdings that share no card are compared. What a
holding wins on an earlier board is the mean over the next card, so sums over boards without suit
names are passed down, from the river to the turn, to the flop, to no board at all.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.poker.hand_ranking import (
    BITS,
    CLASSES,
    KEYS,
    NOTHING,
    RANKS,
    SUITS,
    strength_of_sums,
)

DECK = RANKS * SUITS
HOLDINGS = DECK * (DECK - 1) // 2  # 1,326 of two cards
NONE = HOLDINGS  # what PAIR says of a card with itself
PAIR = np.full((DECK, DECK), NONE, np.int16)
PAIR[np.tril_indices(DECK, -1)] = np.arange(HOLDINGS)
PAIR = np.minimum(PAIR, PAIR.T)
"""(52, 52) the number of a holding, by its cards in any order."""
LEFT = DECK - 5  # cards that are left when the board is whole
MAX_EQUITY = 2 * ((LEFT - 2) * (LEFT - 3) // 2)  # of a river equity: a win over each other holding
SWAPS = np.array(list(itertools.permutations(range(SUITS))))  # (24, 4)


class BoardClasses(NamedTuple):
    """The boards of some cards that differ by more than the names of their suits."""

    key: Array  # (n,) int64 ascending; a suit's ranks as bits, 13 bits a suit, the largest first
    weight: Array  # (n,) int64 how many boards with suit names each stands for


def boards(cards: int) -> BoardClasses:
    """All boards of so many cards: 1,755 of three, 16,432 of four, 134,459 of five."""
    return BoardClasses(*np.unique(_keys(cards), return_counts=True))


def pass_down(whole: BoardClasses, sums: Array, less: BoardClasses) -> Array:
    """(n, HOLDINGS) int64 sums on boards of a card less, from sums on all boards with that card.

    A sum is 24 x what a holding wins, added up over all ways to complete the board in some order.
    """
    found = np.zeros((len(less.key), HOLDINGS), np.int64)
    _pass_down(whole.key, whole.weight, sums, less.key, found)
    _symmetric(less.key, found)
    return found


def river_sums(less: BoardClasses) -> Array:
    """(n, HOLDINGS) int64 the same sums on turn boards: 2 for a river won and 1 for one tied."""
    whole = boards(5)
    found = np.zeros((len(less.key), HOLDINGS), np.int64)
    _rivers_down(whole.key, whole.weight, less.key, found)
    _symmetric(less.key, found)
    return found


@njit(cache=True)
def key_of(masks, place):  # type: ignore[no-untyped-def]
    """The key of a board by the ranks of its suits (4,); place (4,) is set to each suit's place."""
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
    """Set equity (HOLDINGS,) to 2 for each hand beaten and 1 for each tied, -1 if there is none.

    board (5,): the cards. A holding meets the 990 others that share no card with it.
    """
    key, bits, used = NOTHING, 0, 0
    for card in board:
        key += KEYS[card]
        bits += BITS[card]
        used |= 1 << card
    equity[:] = -1
    left, kept = np.empty(LEFT, np.int64), 0
    for card in range(DECK):
        if not used >> card & 1:
            left[kept] = card
            kept += 1
    size = LEFT * (LEFT - 1) // 2
    high, low = np.empty(size, np.int64), np.empty(size, np.int64)
    worth, count = np.empty(size, np.int64), np.zeros(CLASSES + 1, np.int64)
    at = 0
    for i in range(LEFT):
        its_key, its_bits = key + KEYS[left[i]], bits + BITS[left[i]]
        for j in range(i):
            high[at], low[at] = left[i], left[j]
            worth[at] = strength_of_sums(its_key + KEYS[left[j]], its_bits + BITS[left[j]])
            count[worth[at] + 1] += 1
            at += 1
    for level in range(CLASSES):  # from here on: where each level starts
        count[level + 1] += count[level]
    order = np.empty(size, np.int64)
    for at in range(size):
        order[count[worth[at]]] = at
        count[worth[at]] += 1
    # the holdings with a card do not meet those that have it too
    beaten, level_with = np.zeros(DECK, np.int64), np.zeros(DECK, np.int64)
    start = 0
    while start < size:
        end = start
        while end < size and worth[order[end]] == worth[order[start]]:
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
    """Write the ranks of the suits and the cards of a board with a key; how many cards."""
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
    """The number of a board without one of its cards; place (4,) is set as by key_of."""
    masks[card % SUITS] ^= 1 << card // SUITS
    found = np.searchsorted(less, key_of(masks, place))
    masks[card % SUITS] ^= 1 << card // SUITS
    return found


@njit(cache=True)
def _add(values, weight, place, row):  # type: ignore[no-untyped-def]
    """Add weighted values (HOLDINGS,) to a row, suits renamed by place (4,); below 0 is none."""
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
def _rivers_down(key, weight, less, found):  # type: ignore[no-untyped-def]
    masks, place = np.empty(SUITS, np.int64), np.empty(SUITS, np.int64)
    board, equity = np.empty(5, np.int64), np.empty(HOLDINGS, np.int64)
    for at in range(len(key)):
        _take_apart(key[at], masks, board)
        river_equities(board, equity)
        for card in board:
            row = found[_without(masks, card, place, less)]
            _add(equity, weight[at], place, row)


@njit(cache=True)
def _pass_down(key, weight, sums, less, found):  # type: ignore[no-untyped-def]
    masks, place = np.empty(SUITS, np.int64), np.empty(SUITS, np.int64)
    board = np.empty(5, np.int64)
    for at in range(len(key)):
        for card in board[: _take_apart(key[at], masks, board)]:
            row = found[_without(masks, card, place, less)]
            _add(sums[at], weight[at], place, row)


@njit(cache=True)
def _symmetric(key, sums):  # type: ignore[no-untyped-def]
    """Add up each sum over all ways to rename suits that leave the board as it is."""
    masks, board = np.empty(SUITS, np.int64), np.empty(5, np.int64)
    for at in range(len(key)):
        _take_apart(key[at], masks, board)
        before = sums[at].copy()
        for swap in SWAPS[1:]:  # the first one leaves every suit as it is
            same = True
            for suit in range(SUITS):
                same &= masks[swap[suit]] == masks[suit]
            if same:
                _add(before, 1, swap, sums[at])
