"""Sample discrete actions from probabilities, and continuous actions from normal distributions."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, RunError

MAX_LOG_STD = 20.0  # a larger log standard deviation means that learning has diverged


def sample_actions(probs: Array, rng: Generator) -> Actions:
    """Sample one action for each row of probabilities (R, A); never an action of probability 0.

    Raises RunError if the probabilities are not finite.
    """
    cumulative = probs.cumsum(axis=1)
    if not (cumulative[:, -1] > 0).all():
        raise RunError(
            "a policy has diverged: its probabilities are not numbers; try smaller gradient steps"
        )
    # scaling by the last cumulative sum keeps rounding from selecting an action past the last
    mark = rng.random(len(probs)) * cumulative[:, -1]
    action = (mark[:, None] >= cumulative).sum(axis=1)
    return Actions(action, np.log(probs[np.arange(len(probs)), action]))


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
