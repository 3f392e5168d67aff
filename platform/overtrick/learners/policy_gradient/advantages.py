"""From decisions to what their actions deserve: returns and advantages."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, Trajectories


def discounted_returns(batch: Trajectories, gamma: float) -> Array:
    """(D,) discounted points from each decision to the end of its game, for its own seat."""
    return _backwards(batch.reward, np.zeros(len(batch)), batch.last, gamma, 1.0)


def generalised_advantages(batch: Trajectories, values: Array, gamma: float, lam: float) -> Array:
    """(D,) generalised advantage estimates (Schulman et al. 2016, eq. 16).

    values (D,) are a baseline's predictions. lam = 1 is the discounted return less the
    baseline; games end, so nothing is bootstrapped past the last decision.
    """
    return _backwards(batch.reward, values, batch.last, gamma, lam)


def subtract_leave_one_out_mean(
    advantage: Array, infoset: Array, member: Array, games: float
) -> Array:
    """(D,) advantages less what the member's other games brought at the same information set.

    The mean of the others, as if `games` more had brought 0: a second baseline, which learns from
    the sample itself what the first one does not know about this opponent. A game comes to an
    information set once, so its own return stays out of its baseline and no bias comes in
    (leave-one-out, as Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free").
    """
    _, row = np.unique(member * (int(infoset.max(initial=0)) + 1) + infoset, return_inverse=True)
    total, count = np.bincount(row, advantage), np.bincount(row)
    return advantage - (total[row] - advantage) / (count[row] - 1 + games)


@njit(cache=True)
def _backwards(reward, values, last, gamma, lam):  # type: ignore[no-untyped-def]
    out = np.empty(len(reward))
    running = 0.0
    for d in range(len(reward) - 1, -1, -1):
        ahead = 0.0 if last[d] else values[d + 1]
        if last[d]:
            running = 0.0
        running = reward[d] + gamma * ahead - values[d] + gamma * lam * running
        out[d] = running
    return out
