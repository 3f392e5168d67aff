"""Perfect play with all cards seen: Bo Haglund's solver DDS, by way of endplay."""

from __future__ import annotations

import numpy as np
from endplay import dds
from endplay.types import Deal, Denom, Player

from overtrick.core import Array, Deals
from overtrick.games.bridge.cards import CARDS, TRICKS, written

AT_ONCE = 200  # boards that DDS takes in one call

DENOMINATIONS = (Denom.clubs, Denom.diamonds, Denom.hearts, Denom.spades, Denom.nt)
"""The strains as endplay has them, in our order."""


def tricks(deals: Deals) -> Array:
    """(G,) the tricks that the declaring side takes of deals (G, 54) as MiniBridge has them if
    both sides play perfectly from the opening lead on."""
    found = []
    for first in range(0, len(deals), AT_ONCE):
        boards = [_board(deal) for deal in deals[first : first + AT_ONCE]]
        solved = dds.solve_all_boards(boards, dds.solve.SolveMode.OptimalOne)
        found += [TRICKS - next(iter(solution))[1] for solution in solved]
    return np.array(found, np.int64)


def _board(deal: Array) -> Deal:
    """The declarer sits North, so that East leads."""
    board = Deal(written(deal[:CARDS]))
    board.trump, board.first = DENOMINATIONS[deal[CARDS]], Player.east
    return board
