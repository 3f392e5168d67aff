"""Replay buffers of decisions: a ring buffer of the newest, and a reservoir sample of all.

Rows are given as named columns (D, ...) of equal length. A buffer stores them in arrays of fixed
capacity, allocated when the first rows are added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Observations, Trajectories

Columns = dict[str, Array]
"""Named columns of equal length, each (D, ...)."""


class ReplayBuffer(ABC):
    """Base class of replay buffers of fixed capacity.

    A subclass chooses the buffer indices at which new rows are stored.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.added = 0  # number of rows added in all
        self._rows: Columns = {}

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    @abstractmethod
    def _places(self, count: int, rng: Generator) -> tuple[Array, Array]:
        """Choose which of `count` new rows to store, and the buffer index of each stored row.

        Returns two arrays of equal length. Where two rows get the same index, the later row is
        kept.
        """

    def add(self, rows: Mapping[str, Array], rng: Generator) -> None:
        """Add rows, given as named columns of equal length, in this order."""
        count = len(next(iter(rows.values())))
        selected, indices = self._places(count, rng)
        for name, column in rows.items():
            if name not in self._rows:
                self._rows[name] = np.zeros((self.capacity, *column.shape[1:]), column.dtype)
            self._rows[name][indices] = column[selected]
        self.added += count

    def draw(self, count: int, rng: Generator) -> Array:
        """Sample (count,) indices of stored rows, uniformly with replacement."""
        return rng.integers(len(self), size=count)

    def at(self, indices: Array) -> Columns:
        """Return copies of the rows at the given indices, as named columns."""
        return {name: column[indices] for name, column in self._rows.items()}

    def state(self) -> dict[str, Array]:
        """Return the stored rows as named columns, and the number of rows ever added.

        The empty array `capacity` (capacity, 0) shows the capacity by its shape.
        """
        stored = {name: column[: len(self)].copy() for name, column in self._rows.items()}
        capacity = np.zeros((self.capacity, 0), np.int8)
        return {**stored, "added": np.array(self.added), "capacity": capacity}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the rows from a result of `state()`.

        Raises ValueError if they are of a buffer with another capacity.
        """
        added = int(state["added"])
        columns = {name: each for name, each in state.items() if name not in ("added", "capacity")}
        if any(len(stored) != min(added, self.capacity) for stored in columns.values()):
            raise ValueError(f"the replay buffer had another capacity than {self.capacity} rows")
        self.added = added
        self._rows = {}
        for name, stored in columns.items():
            self._rows[name] = np.zeros((self.capacity, *stored.shape[1:]), stored.dtype)
            self._rows[name][: len(stored)] = stored


class RingBuffer(ReplayBuffer):
    """Replay buffer of the newest rows, in which new rows overwrite the oldest.

    The row added after the row at index i is at index (i + 1) modulo the capacity.
    """

    def _places(self, count: int, rng: Generator) -> tuple[Array, Array]:
        selected = np.arange(max(0, count - self.capacity), count)
        return selected, (self.added + selected) % self.capacity


class ReservoirBuffer(ReplayBuffer):
    """Replay buffer that keeps a uniform random sample of all rows ever added.

    Every row is stored with the same probability. Row k, counted from 1, takes a random index with
    probability capacity / k (Vitter 1985, "Random sampling with a reservoir", algorithm R).
    """

    def _places(self, count: int, rng: Generator) -> tuple[Array, Array]:
        number = self.added + np.arange(count)
        indices = np.where(number < self.capacity, number, rng.integers(number + 1))
        selected = np.flatnonzero(indices < self.capacity)
        return selected, indices[selected]


def observation_columns(batch: Trajectories) -> Columns:
    """Return seat, observation and legal mask of decisions, from which features can be computed.

    There is no legal mask if actions are continuous. The features themselves are not stored,
    because they are many times larger.
    """
    legal = {} if batch.legal is None else {"legal": batch.legal}
    return {"seat": batch.seat.astype(np.int8), "seen": batch.observation, **legal}


def observations_of(rows: Mapping[str, Array]) -> Observations:
    """Convert columns of `observation_columns` to Observations.

    The buffer does not store game numbers, so row k gets the game number k.
    """
    return Observations(
        np.arange(len(rows["seat"])), rows["seat"], rows["seen"], rows.get("legal"), None
    )
