"""Base class of solvers that improve a strategy iteratively."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from overtrick.core import Array


class IterativeSolver(ABC):
    """Solver with an iteration counter and a checkpoint of named arrays."""

    saved: ClassVar[tuple[str, ...]]
    """Names of the arrays that a checkpoint holds; each is an attribute and a key of `state`."""

    iteration: int = 0

    @abstractmethod
    def run(self, iterations: int) -> None:
        """Run more iterations."""

    @abstractmethod
    def average(self) -> Array:
        """Return the solution so far, a strategy (N, A)."""

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint.

        After `load`, the solver computes the same numbers as without the interruption.
        """
        arrays = {name: getattr(self, name) for name in self.saved}
        return {**arrays, "iteration": np.array(self.iteration)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the arrays and the counter that `state` returned."""
        for name in self.saved:
            setattr(self, name, state[name].copy())
        self.iteration = int(state["iteration"])
