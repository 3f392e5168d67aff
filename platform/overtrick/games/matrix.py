"""Normal-form games: each of two seats chooses once, without seeing the other seat's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations
from overtrick.games.observation_validation import check_limits
from overtrick.games.presentation import PlayedActions, Presentation
from overtrick.games.spec import GameSpec

BIASED_RPS = ((0.0, -25.0, 50.0), (25.0, 0.0, -5.0), (-50.0, 5.0, 0.0))
"""Payoffs of seat 0 in biased rock, paper, scissors (OpenSpiel's matrix_brps). In equilibrium the
probabilities are rock 1/16, paper 10/16, scissors 5/16."""


@dataclass(slots=True)
class MatrixState:
    """State of G normal-form games in progress."""

    chosen: Array  # (G, S) action of each seat, -1 before it acted


class Matrix:
    """Two-seat zero-sum normal-form game.

    payoff: (A, A) points of seat 0 by its own action (row) and the action of seat 1 (column). Both
    seats act at the same time. The only observation field is the seat.
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
        return Matrix, (self.name, self.payoff.tolist(), self.action_names)

    @property
    def lowest_payoff(self) -> float:
        """Return the lowest payoff of any seat, in points."""
        return float(-np.abs(self.payoff).max())

    def every_deal(self) -> tuple[Deals, Array]:
        return np.zeros((1, 0), np.int64), np.ones(1)

    def deal(self, games: int, rng: Generator) -> Deals:
        return np.zeros((games, 0), np.int64)

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        return np.zeros((len(observations), 0), np.int64)

    def are_possible_deals(self, deals: Deals) -> Array:
        return np.ones(len(deals), bool)

    def start(self, deals: Deals) -> MatrixState:
        return MatrixState(np.full((len(deals), self.seats), -1))

    def revealed_columns(self, state: MatrixState) -> Array:
        return np.zeros(len(state.chosen), np.int64)

    def observe(self, state: MatrixState) -> Observations:
        game = np.repeat(np.flatnonzero(state.chosen[:, 0] < 0), self.seats)
        return self._rows(game, np.tile(np.arange(self.seats), len(game) // self.seats))

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, 1) and derive their legal actions and information sets.

        Raises UserError for an unknown seat.
        """
        check_limits(self.observation_fields, observation, {"seat": (0, self.seats - 1)})
        return self._rows(np.arange(len(observation)), observation[:, 0].astype(np.int64))

    def _rows(self, game: Array, seat: Array) -> Observations:
        legal = np.ones((len(game), self.actions), bool)
        return Observations(game, seat, seat[:, None], legal, seat)

    def step(self, state: MatrixState, observations: Observations, action: Array) -> Array:
        if ((action < 0) | (action >= self.actions)).any():
            raise ValueError(f"illegal action: {self.name} has actions 0 to {self.actions - 1}")
        state.chosen[observations.game, observations.seat] = action
        gain = np.zeros((len(state.chosen), self.seats))
        over = np.unique(observations.game)
        won = self.payoff[state.chosen[over, 0], state.chosen[over, 1]]
        gain[over] = np.stack([won, -won], axis=1)
        return gain

    def features(self, observations: Observations) -> Array:
        """Return (R, 2) float32: the seat, one-hot."""
        return np.eye(self.seats, dtype=np.float32)[observations.seat]

    def compact_features(self, observations: Observations) -> Array:
        """Return an empty array (R, 0): a seat has one information set and needs no feature."""
        return np.zeros((len(observations), 0))

    def public_situation(self, observations: Observations) -> Array:
        """Return the index (R,) of each row's public state: always 0, the only public state."""
        return np.zeros(len(observations), np.int64)

    def hand(self, observations: Observations) -> Array:
        """Return labels (R,) for grouping observations in figures: the seat, "row" or "column"."""
        return np.array(["row", "column"])[observations.seat]

    def describe(self, observation: Array) -> str:
        """Return one observation (1,) as text: the seat."""
        return f"seat {int(observation[0])}"


class MatrixPresentation(Presentation):
    """Text presentation of a normal-form game, in which all seats choose at once."""

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        return "all choose at once"


BRPS = GameSpec(
    "brps",
    Matrix,
    ("brps", BIASED_RPS, ("rock", "paper", "scissors")),
    presentation=MatrixPresentation,
)
