"""Contracts of Mini-Bridge: compute declarer, strain and tricks needed from a deal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge import cards
from overtrick.games.bridge.cards import CARD_POINTS, NOTRUMP, SUITS, TRICKS

EVEN_POINTS = 20
"""High-card points of each pair in a deal without a contract."""
MIN_FIT = 8
"""Lowest number of cards of a suit that a pair needs to play in this suit."""

IN_NOTRUMP = {21: 7, 23: 8, 25: 9, 27: 10, 29: 11, 33: 12, 37: 13}
IN_TRUMPS = {21: 7, 23: 9, 25: 10, 27: 11, 31: 12, 37: 13}
"""Number of tricks needed, by threshold of the pair's high-card points. The highest threshold that
the points reach applies (Hadjur 2018, Table 4.1)."""

LONG_FIT, WITH_LONG_FIT = 9, 8
"""With at least LONG_FIT trumps, a pair with 21 or 22 points needs WITH_LONG_FIT tricks."""

NO_DECLARER = -1


class MiniBridgeContract(NamedTuple):
    """Contracts of G Mini-Bridge deals: declarer, strain and number of tricks needed."""

    declarer: Array  # (G,) seat; NO_DECLARER where both pairs have 20 points
    strain: Array  # (G,)
    needed: Array  # (G,) number of tricks needed


def decide_contracts(holder: Array, trumps: bool) -> MiniBridgeContract:
    """Compute the Mini-Bridge contract of each deal (G, 52), with seat 0 as the dealer.

    The pair with more high-card points (HCP) declares; if both have 20, there is no declarer. The
    declarer is the hand of this pair with more HCP; a tie goes to the hand that comes first in
    clockwise order from the dealer.

    If `trumps` is true, the pair's longest suit is trumps if the pair has at least 8 cards in it.
    Of equally long suits, choose the suit with more HCP, then the higher suit. Otherwise the strain
    is notrump.

    holder: (G, 52) the seat that holds each card.
    """
    games = np.arange(len(holder))
    held = cards.honour_points(holder)
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
    """Return the number of cards (G,) in a pair's longest suit in each deal, and the suit (G,).

    Of equally long suits, choose the suit with more high-card points, then the higher suit. holder:
    (G, 52) the seat that holds each card. pair: (G,) 0 for seats 0 and 2, 1 for seats 1 and 3.
    """
    games, suits = np.arange(len(holder)), len(SUITS)
    counts = cards.suit_lengths(holder)
    both = (counts[:, :2] + counts[:, 2:])[games, pair]  # (G, suits)
    ours = holder % 2 == pair[:, None]
    honours = np.where(ours, CARD_POINTS, 0).reshape(-1, suits, TRICKS).sum(axis=2)
    suit = (both * 1000 + honours * 10 + np.arange(suits)).argmax(axis=1)
    return both[games, suit], suit


def _by_points(table: dict[int, int]) -> Array:
    """Tabulate a step function of high-card points: its values (41,) at 0 to 40 points.

    table: values by threshold of points, in ascending order. The highest threshold that the points
    reach applies; below the first threshold, the value is 0.
    """
    tricks = np.zeros(41, np.int64)
    for floor, needed in table.items():
        tricks[floor:] = needed
    return tricks
