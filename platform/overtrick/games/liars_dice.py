"""Liar's Dice for two seats, with the rules and the default bidding of OpenSpiel's `liars_dice`."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, UserError
from overtrick.games.observation_validation import check_limits, check_rows
from overtrick.games.presentation import PlayedActions, Presentation
from overtrick.games.spec import GameSpec

NO_SEAT = -1
MOST_BIDS = 40  # information sets then have 64-bit numbers


@dataclass(slots=True)
class LiarsDiceState:
    """State of G games in progress, with D dice for each seat and B possible bids."""

    dice: Array  # (G, S, D) each seat's dice, sorted
    bidder: Array  # (G, B) the seat that made each bid, or -1
    over: Array  # (G,) bool


class LiarsDice:
    """Liar's Dice: two seats roll dice in secret and bid in turn how many dice show a face.

    A bid is a quantity and a face. Each bid is higher than the last: by its quantity, then by its
    face. The highest face is wild: it counts as every face. A call of `liar` ends the game: the
    caller loses if the last bid is true, that is, if at least that quantity of all dice show the
    bid's face or the wild face; otherwise the caller wins. A deal (C,) lists the dice of seat 0,
    then the dice of seat 1.

    Options: `dice`, the number of dice of each seat; `faces`, the number of faces of a die. Raises
    UserError unless dice x faces is 1 to 20, so that there are at most 40 bids.

    Observation fields: the seat's own dice in ascending order, with faces numbered from 0; then for
    each bid the seat that made it, or -1.
    """

    name = "liars_dice"
    unit = "game"
    seats = 2
    lowest_payoff = -1.0

    def __init__(self, dice: int = 1, faces: int = 6) -> None:
        for option, value in (("dice", dice), ("faces", faces)):
            if type(value) is not int or value < 1:
                raise UserError(f"{option} must be a whole number from 1, not {value!r}")
        self.bids = self.seats * dice * faces
        if self.bids > MOST_BIDS:
            raise UserError(f"dice x faces must be {MOST_BIDS // self.seats} or less")
        self.dice, self.faces = dice, faces
        said = [f"{bid // faces + 1}x{bid % faces + 1}" for bid in range(self.bids)]
        self.actions = self.bids + 1
        self.action_names = (*said, "liar")
        self.observation_fields = (
            *(f"die_{k + 1}" for k in range(dice)),
            *(f"bid_{bid}" for bid in said),
        )
        self.infosets = 2**self.bids * math.comb(faces + dice - 1, dice)

    def __reduce__(self) -> tuple[Any, ...]:
        return LiarsDice, (self.dice, self.faces)

    @property
    def min_tree_size(self) -> int:
        """Return the number of decision and terminal nodes of the game tree."""
        return int(self.faces ** (self.seats * self.dice) * (2 ** (self.bids + 1) - 1))

    def every_deal(self) -> tuple[Deals, Array]:
        columns = [range(self.faces)] * (self.seats * self.dice)
        deals = np.array(list(itertools.product(*columns)), np.int64)
        return deals, np.full(len(deals), 1 / len(deals))

    def deal(self, games: int, rng: Generator) -> Deals:
        return rng.integers(self.faces, size=(games, self.seats * self.dice))

    def redeal(self, observations: Observations, rng: Generator) -> Deals:
        """Sample deals (R, C) with each row's own dice and new dice for the other seat."""
        rows = np.arange(len(observations))
        deals = self.deal(len(rows), rng).reshape(-1, self.seats, self.dice)
        deals[rows, observations.seat] = observations.observation[:, : self.dice]
        return deals.reshape(len(rows), -1)

    def are_possible_deals(self, deals: Deals) -> Array:
        return np.all((deals >= 0) & (deals < self.faces), axis=1)

    def start(self, deals: Deals) -> LiarsDiceState:
        dice = np.sort(deals.reshape(-1, self.seats, self.dice), axis=2)
        return LiarsDiceState(
            dice, np.full((len(deals), self.bids), NO_SEAT), np.zeros(len(deals), bool)
        )

    def revealed_columns(self, state: LiarsDiceState) -> Array:
        return np.full(len(state.over), self.seats * self.dice)

    def observe(self, state: LiarsDiceState) -> Observations:
        game = np.flatnonzero(~state.over)
        seat = (state.bidder[game] >= 0).sum(axis=1) % self.seats
        return self._rows(game, np.column_stack([state.dice[game, seat], state.bidder[game]]))

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and derive their seats, legal actions and infosets.

        Raises UserError for an observation that no seat can have.
        """
        dice = dict.fromkeys(self.observation_fields[: self.dice], (0, self.faces - 1))
        bids = dict.fromkeys(self.observation_fields[self.dice :], (NO_SEAT, self.seats - 1))
        check_limits(self.observation_fields, observation, dice | bids)
        bidder = observation[:, self.dice :]
        made = bidder >= 0
        turns = (made.cumsum(axis=1) - 1) % self.seats
        fit = (np.diff(observation[:, : self.dice], axis=1) >= 0).all(axis=1)
        fit &= (~made | (bidder == turns)).all(axis=1)
        check_rows(self.observation_fields, observation, fit, "contradict each other")
        return self._rows(np.arange(len(observation)), observation.astype(np.int64))

    def _rows(self, game: Array, observation: Array) -> Observations:
        """Build an Observations record from observations (R, K).

        `game`: (R,) index of each row's game. The seats, legal actions and information sets are
        derived from the observations.
        """
        made = observation[:, self.dice :] >= 0
        last = self._last_bid(made)
        legal = np.arange(self.actions) > last[:, None]
        legal[:, -1] = last >= 0
        history = made @ (1 << np.arange(self.bids))
        holding = self._holding_numbers[tuple(observation[:, : self.dice].T)]
        infoset = history * (int(self._holding_numbers.max()) + 1) + holding
        return Observations(game, made.sum(axis=1) % self.seats, observation, legal, infoset)

    def _last_bid(self, made: Array) -> Array:
        """Return the index (R,) of the last bid, or -1 before the first bid.

        `made`: (R, B) bool, whether each of the B possible bids has been made.
        """
        return np.where(made.any(axis=1), self.bids - 1 - made[:, ::-1].argmax(axis=1), NO_SEAT)

    @cached_property
    def _holding_numbers(self) -> Array:
        """Return an array that numbers all possible sets of dice of one seat, from 0.

        The number of the dice a, b, ... in ascending order is at index [a, b, ...]. Entries for
        other orders are -1.
        """
        numbers = np.full((self.faces,) * self.dice, NO_SEAT)
        every = itertools.combinations_with_replacement(range(self.faces), self.dice)
        for number, dice in enumerate(every):
            numbers[dice] = number
        return numbers

    def step(self, state: LiarsDiceState, observations: Observations, action: Array) -> Array:
        """Apply the actions (R,) to `state` and return the points (G, S) gained.

        When a seat calls liar, the winner gains 1 and the loser -1. Raises ValueError for an
        illegal action.
        """
        rows = np.arange(len(action))
        known = (action >= 0) & (action < self.actions)
        assert observations.legal is not None
        fine = known & observations.legal[rows, action * known]
        if not fine.all():
            row = int(np.argmin(fine))
            game = int(observations.game[row])
            raise ValueError(f"illegal action {int(action[row])} in game {game}")
        points = np.zeros((len(state.over), self.seats))
        bid = action < self.bids
        state.bidder[observations.game[bid], action[bid]] = observations.seat[bid]
        over, caller = observations.game[~bid], observations.seat[~bid]
        last = self._last_bid(state.bidder[over] >= 0)
        quantity, face = last // self.faces + 1, last % self.faces
        dice = state.dice[over].reshape(len(over), self.seats * self.dice)
        shown = ((dice == face[:, None]) | (dice == self.faces - 1)).sum(axis=1)
        won = np.where(shown < quantity, 1.0, -1.0)
        points[over, caller], points[over, 1 - caller] = won, -won
        state.over[over] = True
        return points

    def features(self, observations: Observations) -> Array:
        """Return (R, F) float32, one-hot: seat, own dice, own bids and bids of the other seat."""
        seat, observation = observations.seat[:, None], observations.observation
        dice = np.eye(self.faces)[observation[:, : self.dice]].reshape(len(observation), -1)
        bidder = observation[:, self.dice :]
        parts = [np.arange(self.seats) == seat, dice, bidder == seat, bidder == 1 - seat]
        return np.hstack(parts).astype(np.float32)

    def hand(self, observations: Observations) -> Array:
        """Return each row's own dice as strings (R,), such as "266"."""
        faces = 1 + observations.observation[:, : self.dice]
        return np.array(["".join(map(str, row)) for row in faces.tolist()])

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: the seat's dice and all bids so far."""
        dice = " ".join(str(1 + int(face)) for face in observation[: self.dice])
        bids = [self.action_names[bid] for bid in np.flatnonzero(observation[self.dice :] >= 0)]
        return f"{dice} after {', '.join(bids) or 'nothing'}"


class LiarsDicePresentation(Presentation):
    """Text presentation of Liar's Dice."""

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return all bids and the dice of every seat, as text."""
        held = [
            f"seat {seat} had {' '.join(map(str, dice))}"
            for seat, dice in enumerate(np.sort(1 + deal.reshape(self.game.seats, -1)).tolist(), 1)
        ]
        return "; ".join([super().describe_deal(deal, played), *held])


SPEC = GameSpec(LiarsDice.name, LiarsDice, presentation=LiarsDicePresentation)
