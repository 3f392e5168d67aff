"""Mini-Bridge: who declares, in which strain and for how many tricks, without an auction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.cards import (
    CARD_POINTS,
    NOTRUMP,
    SUITS,
    TRICKS,
    honour_points,
    suit_lengths,
)

EVEN_POINTS = 20  # honour points of a pair with which nobody declares
MIN_FIT = 8  # cards of a suit that a pair must have between them to make it trumps

IN_NOTRUMP = {21: 7, 23: 8, 25: 9, 27: 10, 29: 11, 33: 12, 37: 13}
IN_TRUMPS = {21: 7, 23: 9, 25: 10, 27: 11, 31: 12, 37: 13}
"""Tricks to be made, from so many honour points of the pair on (Hadjur 2018, Table 4.1)."""

LONG_FIT, WITH_LONG_FIT = 9, 8  # cards with which 21 or 22 points in trumps must make so many


class MiniBridgeContract(NamedTuple):
    """What is to be made, in G games."""

    declarer: Array  # (G,) seat; NOBODY where both pairs have 20 points
    strain: Array  # (G,)
    needed: Array  # (G,) tricks


NO_DECLARER = -1


def decide_contracts(holder: Array, trumps: bool) -> MiniBridgeContract:
    """The contract of each deal (G, 52), of which seat 0 is the dealer.

    The pair with more honour points declares, and in it the seat with more, of equals the one
    nearer to the dealer. With trumps, their longest suit of at least 8 cards is trumps; of equals
    the one with more points in it, then the higher one.
    """
    games = np.arange(len(holder))
    held = honour_points(holder)
    by_pair = held[:, :2] + held[:, 2:]
    pair = by_pair.argmax(axis=1)
    declarer = np.where(held[games, pair] >= held[games, pair + 2], pair, pair + 2)
    together = by_pair[games, pair]
    needed = _least(IN_NOTRUMP)[together]
    strain = np.full(len(holder), NOTRUMP)
    if trumps:
        fit, suit = _best_fit(holder, pair)
        suited = fit >= MIN_FIT
        in_trumps = _least(IN_TRUMPS)[together]
        in_trumps[(together < 23) & (fit >= LONG_FIT)] = WITH_LONG_FIT
        needed = np.where(suited, in_trumps, needed)
        strain[suited] = suit[suited]
    return MiniBridgeContract(
        np.where(together == EVEN_POINTS, NO_DECLARER, declarer), strain, needed
    )


def _best_fit(holder: Array, pair: Array) -> tuple[Array, Array]:
    """(G,) cards of each pair's best suit, and that suit."""
    games, suits = np.arange(len(holder)), len(SUITS)
    counts = suit_lengths(holder)
    both = (counts[:, :2] + counts[:, 2:])[games, pair]  # (G, suits)
    ours = holder % 2 == pair[:, None]
    honours = np.where(ours, CARD_POINTS, 0).reshape(-1, suits, TRICKS).sum(axis=2)
    suit = (both * 1000 + honours * 10 + np.arange(suits)).argmax(axis=1)
    return both[games, suit], suit


def _least(table: dict[int, int]) -> Array:
    """(41,) tricks by honour points; 0 where a pair does not declare."""
    tricks = np.zeros(41, np.int64)
    for floor, needed in table.items():
        tricks[floor:] = needed
    return tricks
