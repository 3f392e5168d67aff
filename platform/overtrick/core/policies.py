"""The contract of a policy."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Actions, Array, Observations


class PolicySession(Protocol):
    """A policy during one sitting: it holds tonight's memory and generator."""

    def act(self, observations: Observations) -> Actions: ...


class Policy(Protocol):
    """What a player knows."""

    def start(self, games: int, rng: Generator) -> PolicySession: ...


@runtime_checkable
class BehaviouralPolicy(Policy, Protocol):
    """A policy without memory, known by its probabilities: it can be valued exactly."""

    def probs(self, observations: Observations) -> Array:
        """(R, A) float64, 0 where illegal, each row summing to 1."""
