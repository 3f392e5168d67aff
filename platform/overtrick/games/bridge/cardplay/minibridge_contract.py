"""Contracts of Mini-Bridge: declarer, strain and tricks needed, decided by the deal itself."""

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

EVEN_POINTS = 20
"""Honour points of both pairs in a deal that is not played."""
MIN_FIT = 8
"""The fewest cards of a suit that a pair must hold together to play in it."""

IN_NOTRUMP = {21: 7, 23: 8, 25: 9, 27: 10, 29: 11, 33: 12, 37: 13}
IN_TRUMPS = {21: 7, 23: 9, 25: 10, 27: 11, 31: 12, 37: 13}
"""Tricks needed, by the lowest honour points of the pair (Hadjur 2018, Table 4.1)."""

LONG_FIT, WITH_LONG_FIT = 9, 8
"""With at least LONG_FIT trumps, a pair with 21 or 22 points needs WITH_LONG_FIT tricks."""

NO_DECLARER = -1


class MiniBridgeContract(NamedTuple):
    """The contracts of G deals of Mini-Bridge."""

    declarer: Array  # (G,) seat; NO_DECLARER where both pairs have 20 points
    strain: Array  # (G,)
    needed: Array  # (G,) tricks


def decide_contracts(holder: Array, trumps: bool) -> MiniBridgeContract:
    """Return the contract of each deal (G, 52), with seat 0 as the dealer.

    The pair with more honour points declares, and within it the hand with more; if equal, the hand
    nearer to the dealer. With trumps, the pair's longest suit of at least 8 cards is trumps; if
    equal, the suit with more honour points, then the higher one.
    """
    games = np.arange(len(holder))
    held = honour_points(holder)
    by_pair = held[:, :2] + held[:, 2:]
    pair = by_pair.argmax(axis=1)
    declarer = np.where(held[games, pair] >= held[games, pair + 2], pair, pair + 2)
    together = by_pair[games, pair]
    needed = _by_points(IN_NOTRUMP)[together]
    strain = np.full(len(holder), NOTRUMP)
    if trumps:
        fit, suit = _best_fit(holder, pair)
        suited = fit >= MIN_FIT
        in_trumps = _by_points(IN_TRUMPS)[together]
        in_trumps[(together < 23) & (fit >= LONG_FIT)] = WITH_LONG_FIT
        needed = np.where(suited, in_trumps, needed)
        strain[suited] = suit[suited]
    declarer = np.where(together == EVEN_POINTS, NO_DECLARER, declarer)
    return MiniBridgeContract(declarer, strain, needed)


def _best_fit(holder: Array, pair: Array) -> tuple[Array, Array]:
    """Return (G,) the cards that each pair (G,) holds of its best suit, and (G,) that suit."""
    games, suits = np.arange(len(holder)), len(SUITS)
    counts = suit_lengths(holder)
    both = (counts[:, :2] + counts[:, 2:])[games, pair]  # (G, suits)
    ours = holder % 2 == pair[:, None]
    honours = np.where(ours, CARD_POINTS, 0).reshape(-1, suits, TRICKS).sum(axis=2)
    suit = (both * 1000 + honours * 10 + np.arange(suits)).argmax(axis=1)
    return both[games, suit], suit


def _by_points(table: dict[int, int]) -> Array:
    """Return (41,) tricks needed by honour points; 0 below the lowest entry of the table."""
    tricks = np.zeros(41, np.int64)
    for floor, needed in table.items():
        tricks[floor:] = needed
    return tricks
