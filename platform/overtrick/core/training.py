"""The contracts of a learner and of a trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.random import Generator

from overtrick.core.batches import Array, Trajectories
from overtrick.core.policies import Policy


class Learner(Protocol):
    """An algorithm: batches in, numbers out."""

    def policy(self, explore: bool = True) -> Policy: ...
    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]: ...
    def state(self) -> dict[str, Array]: ...
    def load(self, state: Mapping[str, Array]) -> None: ...


class Trainer(Protocol):
    """Who plays whom and who learns."""

    iteration: int  # how many are done; also in the state, under this name

    def step(self) -> dict[str, float]:
        """One training iteration and its metrics."""

    def state(self) -> dict[str, Array]:
        """Everything that the next iteration depends on."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Go on from a state as if nothing had happened."""

    def model(self) -> dict[str, Array]:
        """The weights worth keeping."""

    def report(self, history: Any) -> Any:
        """The final table and the figures, from every iteration's metrics."""

    def close(self) -> None:
        """Give the crew back."""
