"""Facts of a poker game as numbers for a network, documented index by index.

Games with a board (leduc, leduc_textbook), F = 36, as RLCard's leduc-holdem:

    0..2    hole card, one-hot by rank (J, Q, K)
    3..5    board card, one-hot by rank; all zero before it is turned
    6..20   own chips in the pot, one-hot from 0 to 14
    21..35  the other seat's chips in the pot, one-hot from 0 to 14

Games without a board (kuhn, one_card), F = ranks + betting nodes:

    0..ranks-1   hole card, one-hot by rank
    ranks..      node of the betting table, one-hot
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overtrick.core import Array

if TYPE_CHECKING:
    from overtrick.games.poker.game import Poker

CHIPS = 15


def encode(game: Poker, seen: Array) -> Array:
    """(R, F) float32 features of (R, K) facts."""
    rows = np.arange(len(seen))
    hole, board, own, other, _, node = seen.T
    ranks = game.rules.ranks
    hole, board = game.rank(hole), game.rank(board)
    if not sum(game.rules.board):
        out = np.zeros((len(seen), ranks + len(game.betting.seat)), np.float32)
        out[rows, ranks + node] = 1
    else:
        out = np.zeros((len(seen), 2 * ranks + 2 * CHIPS), np.float32)
        turned = board >= 0
        out[rows[turned], ranks + board[turned]] = 1
        out[rows, 2 * ranks + own] = 1
        out[rows, 2 * ranks + CHIPS + other] = 1
    out[rows, hole] = 1
    return out
