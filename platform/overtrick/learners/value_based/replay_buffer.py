"""What a learner remembers of past decisions: the newest, or a fair sample of all.

Rows are named arrays (D, ...) of one length. What is kept lies in arrays of a fixed room, which
are made when the first rows come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Observations, Trajectories

Columns = dict[str, Array]
"""Named columns of one length (D, ...)."""


class ReplayBuffer(ABC):
    """Room for so many rows; a subclass says where new ones go."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.added = 0  # rows, ever
        self._rows: Columns = {}

    def __len__(self) -> int:
        return min(self.added, self.room)

    @abstractmethod
    def _places(self, count: int, rng: Generator) -> tuple[Array, Array]:
        """Which of so many new rows stay, and the place of each; where places are equal, the
        last one counts."""

    def add(self, rows: Mapping[str, Array], rng: Generator) -> None:
        """Take new rows in, in their order."""
        count = len(next(iter(rows.values())))
        stay, place = self._places(count, rng)
        for name, column in rows.items():
            if name not in self._rows:
                self._rows[name] = np.zeros((self.room, *column.shape[1:]), column.dtype)
            self._rows[name][place] = column[stay]
        self.added += count

    def draw(self, count: int, rng: Generator) -> Array:
        """(count,) places of remembered rows, each equally likely, with replacement."""
        return rng.integers(len(self), size=count)

    def at(self, places: Array) -> Columns:
        """The rows at some places; a copy."""
        return {name: column[places] for name, column in self._rows.items()}

    def state(self) -> dict[str, Array]:
        kept = {name: column[: len(self)].copy() for name, column in self._rows.items()}
        return {**kept, "added": np.array(self.added)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.added = int(state["added"])
        self._rows = {}
        for name, kept in state.items():
            if name != "added":
                self._rows[name] = np.zeros((self.room, *kept.shape[1:]), kept.dtype)
                self._rows[name][: len(kept)] = kept


class RingBuffer(ReplayBuffer):
    """The newest rows. The k-th that was ever added lies at place k modulo the room.

    So the row that came right after another lies at the next place, unless it has not come yet.
    """

    def _places(self, count: int, rng: Generator) -> tuple[Array, Array]:
        stay = np.arange(max(0, count - self.room), count)
        return stay, (self.added + stay) % self.room


class ReservoirBuffer(ReplayBuffer):
    """A fair sample: every row that ever came is kept with the same probability.

    Row k, counted from 1, takes a random place with probability room / k (Vitter 1985, "Random
    sampling with a reservoir", algorithm R).
    """

    def _places(self, count: int, rng: Generator) -> tuple[Array, Array]:
        number = self.added + np.arange(count)
        place = np.where(number < self.room, number, rng.integers(number + 1))
        stay = np.flatnonzero(place < self.room)
        return stay, place[stay]


def observation_columns(batch: Trajectories) -> Columns:
    """What a decision was about: a game's features can be made of it again, many times smaller."""
    assert batch.legal is not None
    return {"seat": batch.seat.astype(np.int8), "seen": batch.observation, "legal": batch.legal}


def observations_of(rows: Mapping[str, Array]) -> Observations:
    """The same as rows of one turn, each of a game of its own."""
    return Observations(
        np.arange(len(rows["seat"])), rows["seat"], rows["seen"], rows["legal"], None
    )
