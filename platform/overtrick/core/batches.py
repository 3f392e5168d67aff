"""Observations, actions and the trajectories that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
    note: dict[str, Array] = field(default_factory=dict)  # (R,) each: what a learner wants back


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
    note: dict[str, Array] = field(default_factory=dict)

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


def concatenate_trajectories(batches: Sequence[Trajectories]) -> Trajectories:
    """The decisions of several batches as one; games are numbered on."""
    starts = np.cumsum([0] + [b.games for b in batches])
    columns: dict[str, Any] = {}
    for name in ("seat", "observation", "legal", "infoset", "action", "logp", "reward", "last"):
        parts = [getattr(b, name) for b in batches]
        columns[name] = None if parts[0] is None else np.concatenate(parts)
    game = np.concatenate([b.game + start for b, start in zip(batches, starts[:-1], strict=True)])
    note = {n: np.concatenate([b.note[n] for b in batches]) for n in batches[0].note}
    return Trajectories(games=int(starts[-1]), game=game, note=note, **columns)


def select_observations(observations: Observations, rows: Array | slice) -> Observations:
    """Some of the rows of a turn."""
    return Observations(
        observations.game[rows],
        observations.seat[rows],
        observations.observation[rows],
        None if observations.legal is None else observations.legal[rows],
        None if observations.infoset is None else observations.infoset[rows],
    )
