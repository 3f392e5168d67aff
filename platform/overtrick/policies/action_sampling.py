"""Drawing actions: from probabilities, or from normal distributions of real vectors."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    Actions,
    Array,
    RunError,
)

MAX_LOG_STD = 20.0  # a log_std that nobody means


def sample_actions(probs: Array, rng: Generator) -> Actions:
    """One action a row from (R, A) probabilities. Never one whose probability is 0."""
    cumulative = probs.cumsum(axis=1)
    if not (cumulative[:, -1] > 0).all():
        raise RunError(
            "a policy has diverged: its probabilities are no numbers; try smaller gradient steps"
        )
    # the last column is the sum: with it as scale, rounding can never push past the last action
    mark = rng.random(len(probs)) * cumulative[:, -1]
    action = (mark[:, None] >= cumulative).sum(axis=1)
    return Actions(action, np.log(probs[np.arange(len(probs)), action]))


def sample_gaussian_actions(mean: Array, log_std: Array, rng: Generator) -> Actions:
    """One move a row from independent normal distributions, (R, A) each."""
    if not (np.isfinite(mean).all() and (log_std < MAX_LOG_STD).all()):
        raise RunError(
            "a policy has diverged: its moves are no numbers; try smaller gradient steps"
        )
    noise = rng.standard_normal(mean.shape)
    density = -(np.square(noise) / 2 + log_std + np.log(2 * np.pi) / 2)
    return Actions(mean + np.exp(log_std) * noise, density.sum(axis=1))
