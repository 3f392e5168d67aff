"""Policies given by their action probabilities alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

from numpy.random import Generator

from overtrick.core import (
    Array,
    Choice,
    Mixed,
    Player,
    Turn,
)
from overtrick.policies.action_sampling import draw


class Memoryless(ABC):
    """A policy known by its probabilities; subclasses give `probs`."""

    @abstractmethod
    def probs(self, turn: Turn) -> Array:
        """(R, A) float64, 0 where illegal, each row summing to 1."""

    def sit(self, games: int, rng: Generator) -> Player:
        return Sampler(self, rng)


class Sampler:
    """Draws from a policy's probabilities."""

    def __init__(self, policy: Mixed, rng: Generator) -> None:
        self.policy = policy
        self.rng = rng

    def act(self, turn: Turn) -> Choice:
        return draw(self.policy.probs(turn), self.rng)
