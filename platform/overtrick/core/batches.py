"""Observations, actions and the trajectories that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

Array = np.ndarray
Deals = np.ndarray  # (G, C) all chance of a game, in the order in which play reveals it


@dataclass(frozen=True, slots=True)
class Observations:
    """The rows that must act now; at most one row for each (game, seat)."""

    game: Array  # (R,) which of the G games
    seat: Array  # (R,) which seat acts
    observation: Array  # (R, K) what this seat knows, integers of cards; names in Game.facts
    legal: Array | None  # (R, A) bool; None when actions are real vectors
    infoset: Array | None  # (R,) number of the information set; None when too many to number

    def __len__(self) -> int:
        return len(self.game)


@dataclass(frozen=True, slots=True)
class Actions:
    """What a player does with each row of a turn."""

    action: Array  # (R,), or (R, A) real vectors
    logp: Array  # (R,) natural logarithm of the probability, or density, that this action had
    extras: dict[str, Array] = field(default_factory=dict)  # (R,) each: what a learner wants back


@dataclass(frozen=True, slots=True)
class Trajectories:
    """D decisions of whole games, ordered by (game, seat, time)."""

    games: int  # G, also those in which nobody who was watched had to decide
    game: Array  # (D,)
    seat: Array  # (D,)
    observation: Array  # (D, K)
    legal: Array | None  # (D, A)
    infoset: Array | None  # (D,)
    action: Array  # (D,), or (D, A) real vectors
    logp: Array  # (D,)
    reward: Array  # (D,) points gained by this seat from this decision to its next one
    last: Array  # (D,) bool: this seat decides no more in this game
    extras: dict[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.game)

    def observations(self) -> Observations:
        """The decisions as rows of one turn, so that a policy or a game can look at them again."""
        return Observations(self.game, self.seat, self.observation, self.legal, self.infoset)


@dataclass(frozen=True, slots=True)
class Rollout:
    """What came of G games."""

    batch: Trajectories
    payoff: Array  # (G, S) points won by each seat, also by one that never had to act
    diverged_games: int = 0  # games that ended because a simulator could not follow them


RecordT = TypeVar("RecordT")


def select_rows(record: RecordT, rows: Array | slice) -> RecordT:
    """Index every array of a record by rows, as in `array[rows]`, and return the new record.

    record: a dataclass, named tuple or dictionary of arrays with one first axis, such as
    Observations, Trajectories or the state of a game. Fields that are None or a number stay.
    """
    return _map_arrays(lambda array: array[rows], record)


def concat_columns(records: Sequence[RecordT]) -> RecordT:
    """Concatenate records of one type, field by field, along the first axis of their arrays.

    records: at least one dataclass, named tuple or dictionary of arrays. Fields that are None or a
    number are those of the first record.
    """
    return _map_arrays(lambda *arrays: np.concatenate(arrays), *records)


def concatenate_trajectories(batches: Sequence[Trajectories]) -> Trajectories:
    """Concatenate the decisions of several batches, numbering games consecutively across them."""
    starts = np.cumsum([0] + [b.games for b in batches])
    numbered = [
        replace(b, game=b.game + start) for b, start in zip(batches, starts[:-1], strict=True)
    ]
    return replace(concat_columns(numbered), games=int(starts[-1]))


def _map_arrays(function: Callable[..., Array], *records: Any) -> Any:
    """Apply a function to the arrays of equal place in all records; return a record of results."""
    first = records[0]
    if isinstance(first, np.ndarray):
        return function(*records)
    if isinstance(first, dict):
        return {n: _map_arrays(function, *(each[n] for each in records)) for n in first}
    if isinstance(first, tuple):
        return type(first)(*(_map_arrays(function, *each) for each in zip(*records, strict=True)))
    if is_dataclass(first):
        columns = {
            column.name: _map_arrays(function, *(getattr(each, column.name) for each in records))
            for column in fields(first)
        }
        return cast(Any, type(first))(**columns)
    assert first is None or isinstance(first, int), f"not an array: {type(first)}"
    return first
