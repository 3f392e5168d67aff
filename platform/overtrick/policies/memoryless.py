"""Base class of policies that have no memory and are given by action probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod

from numpy.random import Generator

from overtrick.core import Actions, Array, BehaviouralPolicy, Observations, PolicySession
from overtrick.policies.action_sampling import sample_actions


class MemorylessPolicy(ABC):
    """Base class of policies without memory: subclasses implement `probs`."""

    @abstractmethod
    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A) float64: 0 where illegal, each row sums to 1."""

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Return a session that samples actions from `probs` with `rng`."""
        return MemorylessSession(self, rng)


class MemorylessSession:
    """Sampler of a memoryless policy's actions. Its only state is a random generator."""

    def __init__(self, policy: BehaviouralPolicy, rng: Generator) -> None:
        self.policy = policy
        self.rng = rng

    def act(self, observations: Observations) -> Actions:
        """Sample one action for each row from the policy's probabilities."""
        return sample_actions(self.policy.probs(observations), self.rng)
