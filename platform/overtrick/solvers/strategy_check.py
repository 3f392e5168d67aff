"""Check that an array holds strategies."""

from __future__ import annotations

import numpy as np

from overtrick.core import Array, UserError

TOLERANCE = 1e-5  # of the sum of a row's probabilities, which may be float32


def check_rows(sigma: Array, legal: Array) -> None:
    """Raise UserError unless each row of sigma (..., N, A) is a probability distribution.

    Illegal actions must have probability 0. `legal` (N, A): mask of the legal actions at each
    information set.
    """
    sums = np.where(legal, sigma, 0).sum(axis=-1)
    wrong = ~(np.abs(sums - 1) < TOLERANCE) | ((sigma < 0) | ((sigma != 0) & ~legal)).any(axis=-1)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0])
        raise UserError(
            f"row {place[-1]} of a strategy must be probabilities of legal actions with sum 1, "
            f"not {sigma[place].tolist()}"
        )
