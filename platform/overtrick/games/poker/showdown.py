"""Hand strength at a showdown, and division of the pot."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.poker.rules import PokerRules


def strength(rules: PokerRules, deals: Array, ranks: Array) -> Array:
    """Return the strength (G, S) of each seat's hand: larger is better, equal is a tie.

    deals: (G, C) hole cards seat by seat, then the board. ranks: (G, C) the ranks of these cards.
    In games with five or more cards in a hand, the best five count (see hand_ranking.py). In other
    games a pair of hole card and board card beats any unpaired hand; otherwise the higher hole card
    wins.
    """
    seats = len(rules.posts)
    if rules.best_five:
        from overtrick.games.poker.hand_ranking import seat_strengths  # builds tables

        return seat_strengths(deals, seats, rules.hole)
    hole, board = ranks[:, :seats], ranks[:, seats:]
    paired = (hole[:, :, None] == board[:, None, :]).any(axis=-1)
    return hole + rules.ranks * paired.astype(np.int64)


@njit(cache=True)
def settle(game, end, live, chips, strength, gain):  # type: ignore[no-untyped-def]
    """Divide the pots of ended games: write each seat's net chips won into `gain` (G, S).

    The strongest hands that have not folded share the pot.

    game: (R,) indices of the R ended games. end: (R,) the terminal betting node of each.
    live: (B, S) bool, whether the seat has not folded at each betting node.
    chips: (B, S) chips of each seat in the pot at each betting node.
    strength: (G, S) hand strengths.
    """
    for row in range(len(game)):
        g, e = game[row], end[row]
        best, winners, pot = -1, 0, 0
        for seat in range(chips.shape[1]):
            pot += chips[e, seat]
            if live[e, seat] and strength[g, seat] >= best:
                winners = 1 if strength[g, seat] > best else winners + 1
                best = strength[g, seat]
        for seat in range(chips.shape[1]):
            won = live[e, seat] and strength[g, seat] == best
            gain[g, seat] = (pot / winners if won else 0.0) - chips[e, seat]
