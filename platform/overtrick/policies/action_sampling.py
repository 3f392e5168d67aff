"""Sample discrete actions from probabilities, and continuous actions from normal distributions."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Actions, Array, RunError

MAX_LOG_STD = 20.0  # a larger log standard deviation means that learning has diverged


def sample_actions(probs: Array, rng: Generator) -> Actions:
    """Sample one action for each row of probabilities (R, A); never an action of probability 0.

    Raises RunError if the probabilities are not finite.
    """
    action = np.empty(len(probs), np.int64)
    if not _sample(probs, rng.random(len(probs)), action):
        raise RunError(
            "a policy has diverged: its probabilities are not numbers; try smaller gradient steps"
        )
    return Actions(action, np.log(probs[np.arange(len(probs)), action]))


@njit(cache=True)
def _sample(probs, uniform, action):  # type: ignore[no-untyped-def]
    """Write the action of each row of probabilities (R, A) into `action` (R,).

    Return whether the sum of every row is a positive number. uniform: (R,) random numbers from 0 to
    1. They are scaled by the sum, so that rounding selects no action past the last.
    """
    for row in range(len(probs)):
        total = 0.0
        for prob in probs[row]:
            total += prob
        if not total > 0:
            return False
        mark, cumulative, chosen = uniform[row] * total, 0.0, 0
        for k in range(probs.shape[1]):
            cumulative += probs[row, k]
            if probs[row, k] > 0:
                chosen = k
            if mark < cumulative:
                break
        action[row] = chosen
    return True


def sample_gaussian_actions(mean: Array, log_std: Array, rng: Generator) -> Actions:
    """Sample one continuous action for each row from independent normal distributions.

    `mean` and `log_std` are (R, A); `log_std` is the natural logarithm of the standard deviation.
    Raises RunError unless both are finite and `log_std` is below MAX_LOG_STD.
    """
    if not (np.isfinite(mean + log_std).all() and (log_std < MAX_LOG_STD).all()):
        raise RunError(
            "a policy has diverged: its actions are not numbers; try smaller gradient steps"
        )
    noise = rng.standard_normal(mean.shape)
    density = -(np.square(noise) / 2 + log_std + np.log(2 * np.pi) / 2)
    return Actions(mean + np.exp(log_std) * noise, density.sum(axis=1))
