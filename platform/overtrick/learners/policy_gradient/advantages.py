"""Returns and generalised advantage estimates of decisions."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, Trajectories


def discounted_returns(batch: Trajectories, gamma: float) -> Array:
    """Compute the discounted returns (D,) of the acting seat, from each decision on."""
    return _backwards(batch.reward, np.zeros(len(batch)), batch.last, gamma, 1.0)


def generalised_advantages(batch: Trajectories, values: Array, gamma: float, lam: float) -> Array:
    """Compute generalised advantage estimates (D,) of decisions (Schulman et al. 2016, eq. 16).

    `values` (D,): a baseline's predictions of the discounted returns. `lam`: lambda of the
    estimator; with `lam` = 1 the estimate is the discounted return minus the baseline. All games
    are complete, so no value is bootstrapped after the last decision.
    """
    return _backwards(batch.reward, values, batch.last, gamma, lam)


def subtract_leave_one_out_mean(
    advantage: Array, infoset: Array, member: Array, games: float
) -> Array:
    """Subtract a leave-one-out baseline from the advantages (D,) of D decisions.

    `member` (D,) is the policy that made each decision, and `infoset` (D,) its information set. The
    baseline of a decision is the mean advantage of the same policy's decisions at the same
    information set in other games. The mean is shrunk towards 0 by `games` pseudo-observations of
    advantage 0. The baseline corrects for the part of the return that an earlier baseline did not
    predict, such as the effect of this particular opponent. A game reaches an information set at
    most once, so a game's own return is not in its baseline. The baseline therefore adds no bias
    (Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free!").
    """
    _, row = np.unique(member * (int(infoset.max(initial=0)) + 1) + infoset, return_inverse=True)
    total, count = np.bincount(row, advantage), np.bincount(row)
    return advantage - (total[row] - advantage) / (count[row] - 1 + games)


@njit(cache=True)
def _backwards(reward, values, last, gamma, lam):  # type: ignore[no-untyped-def]
    out = np.empty(len(reward))
    running = 0.0
    for d in range(len(reward) - 1, -1, -1):
        next_value = 0.0 if last[d] else values[d + 1]
        if last[d]:
            running = 0.0
        running = reward[d] + gamma * next_value - values[d] + gamma * lam * running
        out[d] = running
    return out
