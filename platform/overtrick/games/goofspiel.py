"""Goofspiel with imperfect information: two seats bid cards for prizes, and bids stay hidden.

The rules are those of OpenSpiel's `goofspiel` with `imp_info=True` and the returns `win_loss`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, UserError, suggestion
from overtrick.games.observation_validation import check_limits, check_rows
from overtrick.games.presentation import PlayedActions, Presentation
from overtrick.games.spec import GameSpec

MIN_CARDS, MAX_CARDS = 2, 13
MAX_LISTED_ORDERS = math.factorial(8)
POINTS_ORDERS = ("random", "descending", "ascending")
RESULTS = (-1, 0, 1)  # lost, tied, won


@dataclass(slots=True)
class GoofspielState:
    """State of G games in progress with N cards."""

    prizes: Array  # (G, N) the prizes in their order
    bids: Array  # (G, S, N) cards that each seat has bid in each round; 0: not yet
    round: Array  # (G,) number of rounds played


class Goofspiel:
    """Goofspiel of two seats, in which a bid remains hidden.

    Each seat has the cards 1 to N. The prizes 1 to N are shown one after the other. Both seats bid
    one of their cards simultaneously. The higher card wins the prize; after a tie the prize is
    discarded. A seat learns only the result. A card that was bid is discarded. The last prize goes
    to the higher of the last two cards, without a decision. The seat with the higher total of
    prizes gains 1, and the other loses 1; with equal totals nobody gains. A deal (N,) lists the
    prizes in their order.

    Options: `cards`, the number N, from 2 to 13; `points_order`, the order of the prizes: random,
    descending or ascending. Raises UserError for other values.

    Observation fields: the seat; the prizes of the rounds 1 to N - 1, or 0 if not shown yet; the
    seat's own bids in the rounds 1 to N - 2, or 0 if not made yet; and its results in these rounds,
    1 if it has won, -1 if it has lost, 0 for a tie or a round to come. The last round needs no
    decision.
    """

    name = "goofspiel"
    unit = "game"
    seats = 2
    infosets = None
    lowest_payoff = -1.0

    def __init__(self, cards: int = 6, points_order: str = "random") -> None:
        if type(cards) is not int or not MIN_CARDS <= cards <= MAX_CARDS:
            raise UserError(f"cards must be {MIN_CARDS} to {MAX_CARDS}, not {cards!r}")
        if points_order not in POINTS_ORDERS:
            hint = suggestion(str(points_order), POINTS_ORDERS)
            raise UserError(f"unknown points_order {points_order!r}: {hint}")
        self.cards, self.points_order = cards, points_order
        self.actions = cards
        self.action_names = tuple(map(str, range(1, cards + 1)))
        self.observation_fields = (
            "seat",
            *(f"prize_{k}" for k in range(1, cards)),
            *(f"bid_{k}" for k in range(1, cards - 1)),
            *(f"result_{k}" for k in range(1, cards - 1)),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Goofspiel, (self.cards, self.points_order)

    def prize_orders(self) -> Array:
        """Return (D, N) all orders of the prizes, which are equally likely.

        Raises UserError if there are more than 40,320.
        """
        if self.points_order != "random":
            return self.deal(1, np.random.default_rng(0))
        if math.factorial(self.cards) > MAX_LISTED_ORDERS:
            raise UserError(
                f"goofspiel with {self.cards} cards has {math.factorial(self.cards):,} orders of "
                f"prizes, more than the {MAX_LISTED_ORDERS:,} that can be listed"
            )
        return np.array(list(itertools.permutations(range(1, self.cards + 1))))

    def deal(self, games: int, rng: Generator) -> Deals:
        order = np.tile(np.arange(1, self.cards + 1), (games, 1))
        if self.points_order == "random":
            return rng.permuted(order, axis=1)
        return order if self.points_order == "ascending" else order[:, ::-1].copy()

    def are_possible_deals(self, deals: Deals) -> Array:
        return self._follows_order(deals) & (
            np.sort(deals, axis=1) == np.arange(1, self.cards + 1)
        ).all(axis=1)

    def _follows_order(self, prizes: Array) -> Array:
        """Return (R,) whether the first prizes (R, k) of games are in the order of the game."""
        if self.points_order == "random":
            return np.ones(len(prizes), bool)
        ascending = np.arange(1, self.cards + 1)
        order = ascending if self.points_order == "ascending" else ascending[::-1]
        shown = prizes != 0
        return (~shown | (prizes == order[: prizes.shape[1]])).all(axis=1)

    def start(self, deals: Deals) -> GoofspielState:
        games = len(deals)
        bids = np.zeros((games, self.seats, self.cards), np.int64)
        return GoofspielState(deals.astype(np.int64), bids, np.zeros(games, np.int64))

    def observe(self, state: GoofspielState) -> Observations:
        game = np.repeat(np.flatnonzero(state.round < self.cards), self.seats)
        seat = np.tile(np.arange(self.seats), len(game) // self.seats)
        own, other = state.bids[game, seat], state.bids[game, 1 - seat]
        shown = np.arange(self.cards - 1) <= state.round[game][:, None]
        view = [
            np.where(shown, state.prizes[game, :-1], 0),
            own[:, :-2],
            np.sign(own - other)[:, :-2],
        ]
        return self._rows(game, np.column_stack([seat, *view]))

    def view_observations(self, seat: int, views: Array) -> Observations:
        """Return the observations of a seat, see core.HiddenBidGame."""
        rows = np.arange(len(views))
        return self._rows(rows, np.column_stack([np.full(len(views), seat), views]))

    def _rows(self, game: Array, observation: Array) -> Observations:
        bids = self._split(observation)[1]
        legal = (bids[:, :, None] != np.arange(1, self.cards + 1)).all(axis=1)
        return Observations(game, observation[:, 0], observation, legal, None)

    def _split(self, observation: Array) -> tuple[Array, Array, Array]:
        """Return the prizes (R, N - 1), bids (R, N - 2) and results (R, N - 2) of observations."""
        prizes, bids, results = np.split(
            observation[:, 1:], [self.cards - 1, 2 * self.cards - 3], 1
        )
        return prizes, bids, results

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and derive their seats and legal actions.

        Raises UserError for an observation that no seat can have.
        """
        fields = self.observation_fields
        limits = dict.fromkeys(fields, (0, self.cards))
        limits |= {name: (-1, 1) for name in fields if name.startswith("result")} | {"seat": (0, 1)}
        check_limits(fields, observation, limits)
        observation = observation.astype(np.int64)
        prizes, bids, results = self._split(observation)
        played = (bids != 0).sum(axis=1)[:, None]  # (R, 1) number of rounds before this one
        rounds = np.arange(self.cards - 1)
        fit = ((prizes != 0) == (rounds <= played)).all(axis=1)
        fit &= ((bids != 0) == (rounds[:-1] < played)).all(axis=1)
        fit &= ((results == 0) | (rounds[:-1] < played)).all(axis=1)
        fit &= _distinct(prizes) & _distinct(bids) & self._follows_order(prizes)
        fit &= self._other_bids_exist(bids, results)
        check_rows(fields, observation, fit, "contradict each other")
        return self._rows(np.arange(len(observation)), observation)

    def _other_bids_exist(self, bids: Array, results: Array) -> Array:
        """Return (R,) whether some bids of the other seat explain the results of own bids.

        A tie needs the same card. Rounds that are won can use up the lowest of the other cards, and
        rounds that are lost the highest.
        """
        cards, none = self.cards, self.cards + 1
        tied = np.where((results == 0) & (bids != 0), bids, 0)
        free = (tied[:, :, None] != np.arange(1, cards + 1)).all(axis=1)
        low = np.sort(np.where(free, np.arange(1, cards + 1), none), axis=1)
        high = np.sort(np.where(free, np.arange(1, cards + 1), 0), axis=1)[:, ::-1]
        won = np.sort(np.where(results > 0, bids, none + 1), axis=1)
        lost = np.sort(np.where(results < 0, bids, -1), axis=1)[:, ::-1]
        count = bids.shape[1]
        explained = (low[:, :count] < won) & (high[:, :count] > lost)
        return np.asarray(explained.all(axis=1))

    def step(self, state: GoofspielState, observations: Observations, action: Array) -> Array:
        """Bid a card for each row; return the payoffs (G, S) of games that end.

        The rows have both seats of each game. Raises ValueError for an illegal action.
        """
        rows, game = np.arange(len(action)), observations.game
        known = (action >= 0) & (action < self.actions)
        assert observations.legal is not None
        fine = known & observations.legal[rows, action * known]
        if not fine.all():
            row = int(np.argmin(fine))
            raise ValueError(f"illegal action {int(action[row])} in game {int(game[row])}")
        state.bids[game, observations.seat, state.round[game]] = action + 1
        state.round[np.unique(game)] += 1
        last = np.flatnonzero(state.round == self.cards - 1)
        total = self.cards * (self.cards + 1) // 2
        state.bids[last, :, -1] = total - state.bids[last].sum(axis=2)
        state.round[last] = self.cards
        won = np.sign(state.bids[last, 0] - state.bids[last, 1])
        points = np.zeros((len(state.round), self.seats))
        points[last, 0] = np.sign((won * state.prizes[last]).sum(axis=1))
        points[last, 1] = -points[last, 0]
        return points

    def features(self, observations: Observations) -> Array:
        """Return network inputs (R, F) float32 of 0 and 1.

        In this order: the seat; the prize of each round; the own bid of each round; the result of
        each round; the remaining cards; and the prize of this round.
        """
        observation, rows = observations.observation, np.arange(len(observations))
        prizes, bids, results = self._split(observation)
        cards = np.arange(1, self.cards + 1)
        played = (bids != 0).sum(axis=1)
        shown_results = (results[:, :, None] == RESULTS) & (bids != 0)[:, :, None]
        assert observations.legal is not None
        parts = [
            np.arange(self.seats) == observations.seat[:, None],
            prizes[:, :, None] == cards,
            bids[:, :, None] == cards,
            shown_results,
            observations.legal,
            prizes[rows, played][:, None] == cards,
        ]
        flat = [part.reshape(len(rows), -1) for part in parts]
        return np.hstack(flat).astype(np.float32)

    def hand(self, observations: Observations) -> Array:
        """Return (R,) the cards that a seat still has, such as "2 4 5"."""
        assert observations.legal is not None
        names = np.array(self.action_names)
        return np.array([" ".join(names[row]) for row in observations.legal])

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: the prize, and own bids with results so far."""
        (prizes,), (bids,), (results,) = self._split(observation[None].astype(np.int64))
        played = int((bids != 0).sum())
        said = {-1: "lost", 0: "tied", 1: "won"}
        before = [f"{bids[k]} for {prizes[k]} {said[int(results[k])]}" for k in range(played)]
        return f"prize {prizes[played]} after {', '.join(before) or 'nothing'}"


def _distinct(cards: Array) -> Array:
    """Return (R,) whether the cards (R, k) of each row are distinct; 0 is no card."""
    order = np.sort(cards, axis=1)
    return ((order[:, 1:] != order[:, :-1]) | (order[:, 1:] == 0)).all(axis=1)


class GoofspielPresentation(Presentation):
    """Text presentation of Goofspiel."""

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Return the prizes in their order and the bids of both seats, as text.

        The bids include the last card of each seat, which is bid without a decision.
        """
        lines = [f"prizes {' '.join(map(str, deal.tolist()))}"]
        for seat in range(self.game.seats):
            bids = [1 + action for player, action in played if player == seat]
            left = sorted({*deal.tolist()} - {*bids})
            bids += left if len(left) == 1 else []
            lines.append(f"seat {1 + seat} bid {' '.join(map(str, bids))}")
        return "; ".join(lines)


SPEC = GameSpec(Goofspiel.name, Goofspiel, presentation=GoofspielPresentation)
