"""How strong a holding of hold'em is among all holdings that the same board allows.

Its percentile is the share of them with a lower chance to win against a uniform hand, plus half
of those with the same chance, itself included: 1 is the best, 0 the worst. All of it is exact.
River boards are worked out where they are asked for; the rest is a table that is built once (some
seconds), kept in a file of 48 MB, and shared by all processes that read it.
"""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.core.files import cache_folder, write_array
from overtrick.games.poker.hand_ranking import SUITS
from overtrick.games.poker.holdem.equity import (
    DECK,
    HOLDINGS,
    LEFT,
    MAX_EQUITY,
    PAIR,
    boards,
    key_of,
    pass_down,
    river_equities,
    river_sums,
)

FILE = "holdem_percentiles_1.npy"  # another number if the table ever means something else
MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd: Fibonacci hashing
SHOWN = (0, 3, 4)  # cards on the board in the rounds that the table has


class PercentileTable(NamedTuple):
    """The ranks of all holdings on all boards before the river; boards without suit names."""

    key: Array  # (n,) int64 boards of 0, 3 and 4 cards, each lot ascending
    start: Array  # (6,) int64 the first board of so many cards
    rank: Array  # (n, HOLDINGS) uint16 of the holdings twice as many as are worse, plus the ties


def percentiles(hole: Array, board: Array) -> Array:
    """(R,) float64 from 0 to 1: hole (R, 2) on board (R, 5), whose cards not yet up are -1.

    Cards are numbers as in ranking.py. The first call of a process may take a moment. Raises
    ValueError if a card of a board lies there twice.
    """
    hole, board = (np.ascontiguousarray(cards, np.int64) for cards in (hole, board))
    up = (board >= 0).sum(axis=1)
    found = np.empty(len(hole))
    early = np.flatnonzero(up < 5)
    if len(early):
        found[early] = _look_up(*percentile_table(), hole[early], board[early], up[early])
    late = np.flatnonzero(up == 5)
    if len(late):
        found[late] = _memory.percentiles(hole[late], board[late])
    return found


class _Rivers:
    """Percentiles on full boards, and those that were asked for lately: in a betting round each
    seat comes to the same cards several times."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.cards = np.zeros((1 << bits, 2), np.int64)  # a board and a hole, a bit a card
        self.value = np.zeros(1 << bits)

    def percentiles(self, hole: Array, board: Array) -> Array:
        cards = np.stack([np.bitwise_or.reduce(1 << c, axis=1) for c in (board, hole)], axis=1)
        if not (np.bitwise_count(cards[:, 0]) == board.shape[1]).all():
            raise ValueError("a board needs five different cards")  # kernels check no bounds
        mixed = (cards.view(np.uint64) * MIX).sum(axis=1)
        slot = mixed >> np.uint64(64 - self.bits)
        found = self.value[slot]
        new = np.flatnonzero((self.cards[slot] != cards).any(axis=1))
        new = new[np.argsort(cards[new, 0], kind="stable")]  # each board is worked out once
        found[new] = _on_rivers(hole[new], board[new], cards[new, 0])
        self.cards[slot[new]], self.value[slot[new]] = cards[new], found[new]
        return found


_memory = _Rivers(bits=17)  # 3 MB


@cache
def percentile_table() -> PercentileTable:
    """The table, from its file if there is one; else it is built, and kept if that is possible."""
    lots = [boards(cards) for cards in SHOWN]
    key = np.concatenate([lot.key for lot in lots])
    sizes = [len(lot.key) for lot in lots]
    start = np.array([0, 1, 1, 1, 1 + sizes[1], len(key)])
    path = cache_folder() / FILE
    rank = _read(path, len(key))
    if rank is None:
        rank = _built()
        with contextlib.suppress(OSError):  # nothing can be kept there: built again next time
            path.parent.mkdir(parents=True, exist_ok=True)
            write_array(path, rank)
    rank.flags.writeable = False
    return PercentileTable(key, start, rank)


def _read(path: Path, boards: int) -> Array | None:
    """The ranks in a file, None if there is none or it is damaged."""
    try:
        found = np.asarray(np.load(path, mmap_mode="r"))
    except (OSError, ValueError, EOFError):
        return None
    fits = found.shape == (boards, HOLDINGS) and found.dtype == np.uint16
    return found if fits else None


def _built() -> Array:
    """(n, HOLDINGS) the ranks of a Table."""
    lots = [boards(cards) for cards in range(5)]
    sums = river_sums(lots[4])
    ranks = [_ranks(sums, np.argsort(sums, axis=1))]
    for cards in (3, 2, 1, 0):
        sums = pass_down(lots[cards + 1], sums, lots[cards])
        if cards in SHOWN:
            ranks.append(_ranks(sums, np.argsort(sums, axis=1)))
    return np.concatenate(ranks[::-1])


@njit(cache=True)
def _ranks(sums, orders):  # type: ignore[no-untyped-def]
    """(n, HOLDINGS) uint16 of each sum (n, HOLDINGS) twice as many as are lower, plus the equal.

    orders (n, HOLDINGS): each row's places, lowest sum first. Only sums above 0 count: before the
    river no holding wins nothing at all.
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
    found = np.empty(len(hole))
    masks, place = np.empty(SUITS, np.int64), np.empty(SUITS, np.int64)
    for row in range(len(hole)):
        cards = up[row]
        masks[:] = 0
        for card in board[row, :cards]:
            masks[card % SUITS] |= 1 << card // SUITS
        own = key_of(masks, place)
        lot = key[start[cards] : start[cards + 1]]
        at = start[cards] + np.searchsorted(lot, own)
        a, b = hole[row]
        pair = PAIR[a // SUITS * SUITS + place[a % SUITS], b // SUITS * SUITS + place[b % SUITS]]
        left = DECK - cards
        found[row] = rank[at, pair] / (left * (left - 1))
    return found


@njit(cache=True)
def _on_rivers(hole, board, same):  # type: ignore[no-untyped-def]
    found = np.empty(len(hole))
    equity, lower = np.empty(HOLDINGS, np.int64), np.empty(MAX_EQUITY + 2, np.int64)
    for row in range(len(hole)):
        if row == 0 or same[row] != same[row - 1]:
            river_equities(board[row], equity)
            lower[:] = 0
            for each in equity:
                lower[each + 1] += each >= 0
            for level in range(MAX_EQUITY + 1):
                lower[level + 1] += lower[level]
        own = equity[PAIR[hole[row, 0], hole[row, 1]]]
        found[row] = (lower[own] + lower[own + 1]) / (LEFT * (LEFT - 1))
    return found
