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

import numpy as np

from overtrick.core import Array
from overtrick.games.poker.rules import Rules

CHIPS = 15


def encode(rules: Rules, nodes: int, ranked: Array) -> Array:
    """(R, F) float32 features of (R, K) facts, cards as ranks; nodes is B of the betting table."""
    rows = np.arange(len(ranked))
    hole, board, own, other, _, node = ranked.T
    ranks = rules.ranks
    if not sum(rules.board):
        out = np.zeros((len(ranked), ranks + nodes), np.float32)
        out[rows, ranks + node] = 1
    else:
        out = np.zeros((len(ranked), 2 * ranks + 2 * CHIPS), np.float32)
        turned = board >= 0
        out[rows[turned], ranks + board[turned]] = 1
        out[rows, 2 * ranks + own] = 1
        out[rows, 2 * ranks + CHIPS + other] = 1
    out[rows, hole] = 1
    return out
