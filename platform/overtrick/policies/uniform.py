"""Uniformly random play."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    Array,
    Choice,
    Player,
    Turn,
)
from overtrick.policies.memoryless import Memoryless


class Uniform(Memoryless):
    """Every legal action with equal probability."""

    def probs(self, turn: Turn) -> Array:
        assert turn.legal is not None
        return turn.legal / turn.legal.sum(axis=1, keepdims=True)


class UniformMoves:
    """Every vector of so many numbers from -1 to 1 with equal probability."""

    def __init__(self, width: int) -> None:
        self.width = width

    def sit(self, games: int, rng: Generator) -> Player:
        return _SeatedMoves(self.width, rng)


class _SeatedMoves:
    def __init__(self, width: int, rng: Generator) -> None:
        self.width = width
        self.rng = rng

    def act(self, turn: Turn) -> Choice:
        move = self.rng.uniform(-1, 1, (len(turn), self.width))
        return Choice(move, np.full(len(turn), -self.width * np.log(2)))
