"""The contract of a policy."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from numpy.random import Generator

from overtrick.core.batches import Array, Choice, Turn


class Player(Protocol):
    """A policy during one sitting: it holds tonight's memory and generator."""

    def act(self, turn: Turn) -> Choice: ...


class Policy(Protocol):
    """What a player knows."""

    def sit(self, games: int, rng: Generator) -> Player: ...


@runtime_checkable
class Mixed(Policy, Protocol):
    """A policy without memory, known by its probabilities: it can be valued exactly."""

    def probs(self, turn: Turn) -> Array:
        """(R, A) float64, 0 where illegal, each row summing to 1."""
