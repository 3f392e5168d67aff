"""Normal-form games: every seat chooses once, none sees another's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations
from overtrick.games.observation_checks import check_limits
from overtrick.games.presentation import PlayedActions, Presentation
from overtrick.games.spec import GameSpec

BIASED_RPS = ((0.0, -25.0, 50.0), (25.0, 0.0, -5.0), (-50.0, 5.0, 0.0))
"""Row player's payoff for rock, paper, scissors (OpenSpiel's matrix_brps);
equilibrium 1/16, 10/16, 5/16."""


@dataclass(slots=True)
class Choices:
    """G games in progress."""

    chosen: Array  # (G, S) each seat's action, -1 before it chose


class Matrix:
    """A two-seat zero-sum normal-form game; `payoff` (A, A) is what seat 0 wins.

    Both seats act in the same turn. Facts: the seat, which is all that a seat knows.
    """

    unit = "point"
    seats = 2
    infosets = 2
    public_situations = 1
    min_tree_size = 1
    observation_fields = ("seat",)

    def __init__(
        self, name: str, payoff: tuple[tuple[float, ...], ...], action_names: tuple[str, ...]
    ) -> None:
        self.name = name
        self.payoff = np.array(payoff)
        self.actions = len(action_names)
        self.action_names = action_names

    def __reduce__(self) -> tuple[Any, ...]:
        rows = tuple(tuple(map(float, row)) for row in self.payoff)
        return Matrix, (self.name, rows, self.action_names)

    @property
    def lowest_payoff(self) -> float:
        """The least that a seat can win of a game."""
        return float(-np.abs(self.payoff).max())

    def every_deal(self) -> tuple[Deals, Array]:
        return np.zeros((1, 0), np.int64), np.ones(1)

    def deal(self, games: int, rng: Generator) -> Deals:
        return np.zeros((games, 0), np.int64)

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        return np.zeros((len(observations), 0), np.int64)

    def start(self, deals: Deals) -> Choices:
        return Choices(np.full((len(deals), self.seats), -1))

    def revealed_columns(self, state: Choices) -> Array:
        return np.zeros(len(state.chosen), np.int64)

    def observe(self, state: Choices) -> Observations:
        game = np.repeat(np.flatnonzero(state.chosen[:, 0] < 0), self.seats)
        return self._turn(game, np.tile(np.arange(self.seats), len(game) // self.seats))

    def validated_observations(self, seen: Array) -> Observations:
        """The rows (R, 1) as `turn` gives them. Raises Refused for facts that nobody sees."""
        check_limits(self.observation_fields, seen, {"seat": (0, self.seats - 1)})
        return self._turn(np.arange(len(seen)), seen[:, 0].astype(np.int64))

    def _turn(self, game: Array, seat: Array) -> Observations:
        return Observations(
            game, seat, seat[:, None], np.ones((len(game), self.actions), bool), seat
        )

    def step(self, state: Choices, observations: Observations, action: Array) -> Array:
        if ((action < 0) | (action >= self.actions)).any():
            raise ValueError(f"illegal action: {self.name} has actions 0 to {self.actions - 1}")
        state.chosen[observations.game, observations.seat] = action
        gain = np.zeros((len(state.chosen), self.seats))
        over = np.unique(observations.game)
        won = self.payoff[state.chosen[over, 0], state.chosen[over, 1]]
        gain[over] = np.stack([won, -won], axis=1)
        return gain

    def features(self, observations: Observations) -> Array:
        """(R, 2) the seat, one-hot."""
        return np.eye(self.seats, dtype=np.float32)[observations.seat]

    def compact_features(self, observations: Observations) -> Array:
        """(R, 0) nothing: a seat knows nothing that could tell two situations apart."""
        return np.zeros((len(observations), 0))

    def public_situation(self, observations: Observations) -> Array:
        """(R,) 0: everybody always sees the same."""
        return np.zeros(len(observations), np.int64)

    def hand(self, observations: Observations) -> Array:
        """(R,) the name of each row's seat: there are no cards."""
        return np.array(["row", "column"])[observations.seat]

    def describe(self, seen: Array) -> str:
        """One row of facts in words."""
        return f"seat {int(seen[0])}"


class MatrixPresentation(Presentation):
    """A game in which nothing is seen before all have chosen."""

    def view(self, seen: Array, moves: PlayedActions, signs: bool = True) -> str:
        return "all choose at once"


BRPS = GameSpec(
    "brps",
    Matrix,
    ("brps", BIASED_RPS, ("rock", "paper", "scissors")),
    presentation=MatrixPresentation,
)
