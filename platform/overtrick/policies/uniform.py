"""Policies that act uniformly at random."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, PolicySession
from overtrick.policies.memoryless import MemorylessPolicy


class UniformPolicy(MemorylessPolicy):
    """Policy that takes every legal action with equal probability."""

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A), equal for all legal actions of a row."""
        assert observations.legal is not None
        return observations.legal / observations.legal.sum(axis=1, keepdims=True)


class UniformVectorPolicy:
    """Policy for continuous actions: each of `width` components is uniform from -1 to 1."""

    def __init__(self, width: int) -> None:
        self.width = width

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Return a session that samples actions with `rng`."""
        return _UniformVectorSession(self.width, rng)


class _UniformVectorSession:
    def __init__(self, width: int, rng: Generator) -> None:
        self.width = width
        self.rng = rng

    def act(self, observations: Observations) -> Actions:
        """Sample an action for each observation, with all components uniform from -1 to 1."""
        move = self.rng.uniform(-1, 1, (len(observations), self.width))
        return Actions(move, np.full(len(observations), -self.width * np.log(2)))
