"""The interfaces of a learner (update rule) and of a trainer (training loop)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.random import Generator

from overtrick.core.batches import Array, Trajectories
from overtrick.core.policies import Policy


class Learner(Protocol):
    """A learning algorithm that updates its weights from batches of trajectories."""

    def policy(self, explore: bool = True) -> Policy:
        """Return the current policy: exploring if `explore` is true, else greedy."""

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """Update the weights from a batch, and return metrics by name."""

    def state(self) -> dict[str, Array]:
        """Return weights, optimiser state and buffers as arrays by name, for a checkpoint."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the arrays that the method `state` returned."""


class Trainer(Protocol):
    """A training loop: plays games, updates learners and evaluates them."""

    iteration: int  # finished iterations; also in the state, under this name

    def step(self) -> dict[str, float]:
        """Run one training iteration and return its metrics by name."""

    def state(self) -> dict[str, Array]:
        """Return the trainer's complete state as arrays by name, for a checkpoint."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore a checkpoint's state. Training continues as if it had never been interrupted."""

    def model(self) -> dict[str, Array]:
        """Return the weights of the trained model by name, as they are stored with the run."""

    def report(self, history: Any) -> Any:
        """Return the results table and figures. `history`: the metrics of all iterations."""

    def close(self) -> None:
        """Release the worker processes."""
