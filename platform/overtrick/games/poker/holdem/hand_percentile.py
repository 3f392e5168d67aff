"""Exact percentile of hole cards in hold'em among all hole cards on the same board.

The percentile is the fraction of all hole cards that have a lower equity against a uniformly random
hand, plus half the fraction that have equal equity, the hole cards themselves included. Values
near 1 are the best. On river boards it is computed on demand. For earlier boards a table is built
once (some seconds) and cached in a file of 48 MB, which all processes share by memory mapping.
"""

from __future__ import annotations

import contextlib
import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.core.files import cache_folder, read_array, write_array
from overtrick.games.poker.deck import SUITS
from overtrick.games.poker.holdem import equity
from overtrick.games.poker.holdem.equity import DECK, HOLDINGS, LEFT, MAX_EQUITY, PAIR

FILE = "holdem_percentiles_1.npy"  # the number is the version of the table
MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd multipliers of a hash
SHOWN = (0, 3, 4)  # number of board cards in the rounds of the table: preflop, flop, turn


class PercentileTable(NamedTuple):
    """Equity ranks of all hole cards on all boards before the river, up to suit isomorphism."""

    key: Array  # (n,) int64 keys of boards with 0, 3 and 4 cards, ascending for each size
    start: Array  # (6,) int64 index of the first board with 0, 1, ..., 5 cards
    rank: Array  # (n, HOLDINGS) uint16: 2 x the number of worse hole cards, plus the number of ties


def percentiles(hole: Array, board: Array) -> Array:
    """Rank hole cards (R, 2) among all hole cards on the same board (R, 5), by equity.

    Return percentiles (R,) float64 between 0 (worst) and 1 (best). The equity is against a
    uniformly random hand. Board cards that are not dealt yet are -1. Cards are numbered as in
    hand_ranking.py. The first call in a process may take some seconds. Raises ValueError if a river
    board contains a card twice.
    """
    hole, board = (np.ascontiguousarray(cards, np.int64) for cards in (hole, board))
    up = (board >= 0).sum(axis=1)
    found = np.empty(len(hole))
    early = np.flatnonzero(up < 5)
    if len(early):
        found[early] = _look_up(*percentile_table(), hole[early], board[early], up[early])
    late = np.flatnonzero(up == 5)
    if len(late):
        found[late] = _river_cache.percentiles(hole[late], board[late])
    return found


class _RiverCache:
    """Percentiles on river boards, with a hash cache of recent results.

    `bits`: the cache has 2 ** bits slots.

    The cache helps because each seat acts several times with the same cards in a betting round.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.lock = threading.Lock()  # a model server computes in several threads
        self.cards = np.zeros((1 << bits, 2), np.int64)  # bit masks of board and hole cards
        self.value = np.zeros(1 << bits)

    def percentiles(self, hole: Array, board: Array) -> Array:
        """Return the percentiles (R,) float64 of hole cards (R, 2) on river boards (R, 5).

        Raises ValueError if a board contains a card twice.
        """
        cards = np.stack([np.bitwise_or.reduce(1 << c, axis=1) for c in (board, hole)], axis=1)
        if not (np.bitwise_count(cards[:, 0]) == board.shape[1]).all():
            raise ValueError("a board needs five different cards")  # kernels do not check bounds
        mixed = (cards.view(np.uint64) * MIX).sum(axis=1)
        slot = mixed >> np.uint64(64 - self.bits)
        with self.lock:
            found = self.value[slot]
            new = np.flatnonzero((self.cards[slot] != cards).any(axis=1))
        new = new[np.argsort(cards[new, 0], kind="stable")]  # each board is computed once
        found[new] = _on_rivers(hole[new], board[new], cards[new, 0])
        with self.lock:
            self.cards[slot[new]], self.value[slot[new]] = cards[new], found[new]
        return found


_river_cache = _RiverCache(bits=17)  # 3 MB


@cache
def percentile_table() -> PercentileTable:
    """Return the table that ranks all hole cards on each board before the river.

    Hole cards are ranked by their equity against a uniformly random hand. The table is read from
    its cache file, or computed and written to that file.
    """
    lots = [equity.boards(cards) for cards in SHOWN]
    key = np.concatenate([lot.key for lot in lots])
    sizes = [len(lot.key) for lot in lots]
    start = np.array([0, 1, 1, 1, 1 + sizes[1], len(key)])
    path = cache_folder() / FILE
    rank = _read(path, len(key))
    if rank is None:
        rank = _built()
        # where the cache folder is not writable, the next process builds the table again
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_array(path, rank)
    rank.flags.writeable = False
    return PercentileTable(key, start, rank)


def _read(path: Path, boards: int) -> Array | None:
    """Return the array `PercentileTable.rank` from a cache file; None if missing or damaged.

    `boards`: the number of rows that the array must have.
    """
    try:
        found = read_array(path)
    except (OSError, ValueError):
        return None
    fits = found.shape == (boards, HOLDINGS) and found.dtype == np.uint16
    return found if fits else None


def _built() -> Array:
    """Compute the array `PercentileTable.rank` (n, HOLDINGS) for all boards before the river."""
    lots = [equity.boards(cards) for cards in range(6)]
    sums, ranks = None, []
    for cards in (4, 3, 2, 1, 0):
        sums = equity.pass_down(lots[cards + 1], sums, lots[cards])
        if cards in SHOWN:
            ranks.append(_ranks(sums, np.argsort(sums, axis=1)))
    return np.concatenate(ranks[::-1])


@njit(cache=True)
def _ranks(sums, orders):  # type: ignore[no-untyped-def]
    """Rank all hole cards on each of n boards by equity; return (n, HOLDINGS) uint16.

    A rank is 2 for each pair of hole cards with lower equity, plus 1 for each with equal equity,
    itself included.

    sums: (n, HOLDINGS) numbers proportional to the equity; 0 for hole cards that share a card with
    the board, which are not ranked. orders: (n, HOLDINGS) indices that sort each row of `sums`.
    """
    found = np.zeros(sums.shape, np.uint16)
    for at in range(len(sums)):
        order = orders[at]
        first = HOLDINGS - (sums[at] > 0).sum()
        begin = first
        while begin < HOLDINGS:
            end = begin
            while end < HOLDINGS and sums[at, order[end]] == sums[at, order[begin]]:
                end += 1
            found[at, order[begin:end]] = begin + end - 2 * first
            begin = end
    return found


@njit(cache=True)
def _look_up(key, start, rank, hole, board, up):  # type: ignore[no-untyped-def]
    """Look up the percentiles (R,) of hole cards, by equity, on boards before the river.

    `key`, `start`, `rank`: the fields of the PercentileTable.
    `hole`: (R, 2) hole cards.
    `board`: (R, 5) board cards.
    `up`: (R,) number of board cards that are dealt.
    """
    found = np.empty(len(hole))
    masks, place = np.empty(SUITS, np.int64), np.empty(SUITS, np.int64)
    for row in range(len(hole)):
        cards = up[row]
        masks[:] = 0
        for card in board[row, :cards]:
            masks[card % SUITS] |= 1 << card // SUITS
        own = equity.key_of(masks, place)
        lot = key[start[cards] : start[cards + 1]]
        at = start[cards] + np.searchsorted(lot, own)
        a, b = hole[row]
        pair = PAIR[a // SUITS * SUITS + place[a % SUITS], b // SUITS * SUITS + place[b % SUITS]]
        left = DECK - cards
        found[row] = rank[at, pair] / (left * (left - 1))
    return found


@njit(cache=True)
def _on_rivers(hole, board, same):  # type: ignore[no-untyped-def]
    """Return the percentile (R,) of each row's hole cards among all hole cards on the same board.

    `hole`: (R, 2) hole cards.
    `board`: (R, 5) cards of the river board.
    `same`: (R,) identifier of the board. If rows are sorted by it, each board is evaluated once.
    """
    found = np.empty(len(hole))
    equities, lower = np.empty(HOLDINGS, np.int64), np.empty(MAX_EQUITY + 2, np.int64)
    for row in range(len(hole)):
        if row == 0 or same[row] != same[row - 1]:
            equity.river_equities(board[row], equities)
            lower[:] = 0
            for each in equities:
                lower[each + 1] += each >= 0
            for level in range(MAX_EQUITY + 1):
                lower[level + 1] += lower[level]
        own = equities[PAIR[hole[row, 0], hole[row, 1]]]
        found[row] = (lower[own] + lower[own + 1]) / (LEFT * (LEFT - 1))
    return found
