"""Base class of solvers that improve a strategy iteratively."""

from __future__ import annotations

from abc import ABC, abstractmethod

from overtrick.core import Array
from overtrick.core.checkpoints import Checkpointed


class IterativeSolver(Checkpointed, ABC):
    """Solver with an iteration counter and a checkpoint of named arrays."""

    iteration: int = 0

    @abstractmethod
    def run(self, iterations: int) -> None:
        """Run `iterations` more iterations."""

    @abstractmethod
    def average(self) -> Array:
        """Return the strategy that the iterations so far have found.

        It is (N, A), or (L,) in a game evaluated by walks.
        """
