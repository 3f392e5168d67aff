"""The model with the best score that was measured during training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from overtrick.core import Array
from overtrick.core.checkpoints import prefixed, unprefixed

WEIGHTS = "weights"  # prefix of the weights among the arrays of a checkpoint


@dataclass(frozen=True)
class BestModel:
    """Iteration, score and weights of the best model so far; they are part of each checkpoint."""

    iteration: int = 0  # 0: no iteration has had a score
    score: float = -math.inf  # larger is better
    weights: Mapping[str, Array] | None = None

    def updated(
        self, iteration: int, score: float | None, weights: Callable[[], Mapping[str, Array]]
    ) -> BestModel:
        """Return the better of this model and that of an iteration; on a tie, this one.

        `score`: of the iteration; None if none was measured. `weights`: returns the iteration's
        model; called only if it is the better one.
        """
        if score is None or not score > self.score:
            return self
        copied = {name: np.array(each, order="C") for name, each in weights().items()}
        return BestModel(iteration, score, copied)

    def state(self) -> dict[str, Array]:
        """Return this model as arrays for a checkpoint."""
        numbers = {"iteration": np.array(self.iteration), "score": np.array(self.score)}
        return numbers | prefixed(WEIGHTS, self.weights or {})

    @classmethod
    def of_state(cls, state: Mapping[str, Array]) -> BestModel:
        """Restore a model from the arrays of `state`.

        An earlier version's checkpoint has no such arrays. Its best model is unknown, so that the
        result has the score inf and no weights, and no later iteration counts as best.
        """
        if not state:
            return cls(score=math.inf)
        weights = unprefixed(WEIGHTS, state)
        return cls(int(state["iteration"]), float(state["score"]), weights or None)
