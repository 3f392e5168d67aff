"""Arrays of observations, actions, trajectories and rollouts, and operations on them.

The letters of the shapes (G, S, R, K, A, D, ...) are explained in core/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import numpy as np

Array = np.ndarray
Deals = np.ndarray  # (G, C) all chance outcomes of each game, in the order of their reveal


@dataclass(frozen=True, slots=True)
class Observations:
    """Observations of the seats that must act now in G games: at most one row per game and seat."""

    game: Array  # (R,) number of the game, from 0 to G - 1
    seat: Array  # (R,) seat that acts
    observation: Array  # (R, K) observation of this seat; columns as in Game.observation_fields
    legal: Array | None  # (R, A) bool mask of legal actions; None when actions are continuous
    infoset: Array | None  # (R,) index of the information set; None when too many to number

    def __len__(self) -> int:
        return len(self.game)


@dataclass(frozen=True, slots=True)
class Actions:
    """Actions chosen by a policy for the R rows of an Observations, and their log-probabilities."""

    action: Array  # (R,) index of the action, or (R, A) continuous actions
    logp: Array  # (R,) natural logarithm of the probability, or density, of the action
    extras: dict[str, Array] = field(default_factory=dict)  # arrays of R rows for the learner


@dataclass(frozen=True, slots=True)
class Trajectories:
    """The D recorded decisions of G complete games, sorted by game, then seat, then time."""

    games: int  # G, including games without a recorded decision
    game: Array  # (D,) number of the game
    seat: Array  # (D,) seat that acted
    observation: Array  # (D, K)
    legal: Array | None  # (D, A) bool mask of legal actions
    infoset: Array | None  # (D,) index of the information set
    action: Array  # (D,) index of the action, or (D, A) continuous actions
    logp: Array  # (D,) natural logarithm of the action's probability, or density
    reward: Array  # (D,) points that the seat gains between this decision and its next one
    last: Array  # (D,) bool: the last decision of this seat in this game
    extras: dict[str, Array] = field(default_factory=dict)  # (D, ...) from Actions.extras

    def __len__(self) -> int:
        return len(self.game)

    def observations(self) -> Observations:
        """Return the D decisions as Observations, the input of policies and of game methods."""
        return Observations(self.game, self.seat, self.observation, self.legal, self.infoset)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Result of playing G games: the recorded decisions and the payoffs."""

    batch: Trajectories
    payoff: Array  # (G, S) total points won by each seat
    outcome: Array  # (G, S) without reward shaping: 1 win, 0 draw, -1 loss; or the payoff
    diverged_games: int = 0  # games that ended early because their simulator diverged
    decision_count: int = 0  # number of decisions of all seats, recorded or not


RecordT = TypeVar("RecordT")


def select_rows(record: RecordT, rows: Array | slice) -> RecordT:
    """Return a copy of a record in which every array is replaced by `array[rows]`.

    `record`: a dataclass, named tuple or dictionary of arrays that share their first axis, such as
    Observations, Trajectories or the state of a game. Other fields (None, integers) are copied.
    """
    return _map_arrays(lambda array: array[rows], record)


def concat_columns(records: Sequence[RecordT]) -> RecordT:
    """Concatenate the arrays of several records of one type along their first axis, field by field.

    `records`: at least one dataclass, named tuple or dictionary of arrays. A field that is None or
    an integer is copied from the first record.
    """
    return _map_arrays(lambda *arrays: np.concatenate(arrays), *records)


def concatenate_trajectories(batches: Sequence[Trajectories]) -> Trajectories:
    """Concatenate several batches of trajectories, numbering their games consecutively."""
    starts = np.cumsum([0] + [b.games for b in batches])
    numbered = [
        replace(b, game=b.game + start) for b, start in zip(batches, starts[:-1], strict=True)
    ]
    return replace(concat_columns(numbered), games=int(starts[-1]))


def _map_arrays(function: Callable[..., Array], *records: Any) -> Any:
    """Combine the corresponding arrays of all records with `function`, field by field.

    `function` takes one array of each record. Returns a record of the same type that holds its
    results. Fields that are not arrays (None, integers) are copied from the first record.
    """
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
