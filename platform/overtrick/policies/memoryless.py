"""Policies given by their action probabilities alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

from numpy.random import Generator

from overtrick.core import (
    Actions,
    Array,
    BehaviouralPolicy,
    Observations,
    PolicySession,
)
from overtrick.policies.action_sampling import sample_actions


class MemorylessPolicy(ABC):
    """A policy known by its probabilities; subclasses give `probs`."""

    @abstractmethod
    def probs(self, observations: Observations) -> Array:
        """(R, A) float64, 0 where illegal, each row summing to 1."""

    def start(self, games: int, rng: Generator) -> PolicySession:
        return MemorylessSession(self, rng)


class MemorylessSession:
    """Draws from a policy's probabilities."""

    def __init__(self, policy: BehaviouralPolicy, rng: Generator) -> None:
        self.policy = policy
        self.rng = rng

    def act(self, observations: Observations) -> Actions:
        return sample_actions(self.policy.probs(observations), self.rng)
