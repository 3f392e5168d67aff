"""What a holding is worth at a showdown."""

from __future__ import annotations

import numpy as np

from overtrick.core import Array


def strength(hole: Array, board: Array, ranks: int) -> Array:
    """A number that is larger for a better hand and equal for a tie, for one-card hands.

    hole (..., S) and board (..., B) hold ranks from 0. A pair with a board card beats any
    unpaired hand; otherwise the higher rank wins. Returns (..., S) int.
    """
    paired = (hole[..., :, None] == board[..., None, :]).any(axis=-1)
    return hole + ranks * paired.astype(np.int64)
