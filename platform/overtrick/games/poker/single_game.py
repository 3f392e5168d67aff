"""One game of limit poker at a time: what the engine says of every node is laid out once, and a
step looks it up."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Observations, select_rows
from overtrick.games.poker.game import Poker, PokerState
from overtrick.games.poker.rules import PokerRules

MAX_DEALT = 64  # games that are dealt at once
ROW = np.zeros(1, np.int64)  # of the only game


class BettingNode(NamedTuple):
    """A node of the betting, and what hangs on it alone."""

    number: int  # in the table of betting
    after: dict[int, BettingNode]  # by each legal action
    seat: int  # to act, -1 at an end
    legal: Array  # (A,) int8
    view: int  # who acts in which round, as a number: it tells which cards are seen; -1 at an end
    features: Array  # behind those of cards; none at an end
    observation_fields: Array  # the same


@cache
def build_nodes(rules: PokerRules, fold: bool, view: str) -> tuple[BettingNode, Array]:
    """The first node, and for each view a node, by its number, that has it.

    All callers share them, since hold'em's take a moment.
    """
    game, rng = Poker(rules, fold, None, view), np.random.default_rng(0)
    betting, acts = game.betting, np.flatnonzero(game.betting.seat >= 0)
    views = betting.seat[acts].astype(np.int64) * len(rules.caps) + betting.round[acts]
    _, shown, of = np.unique(views, return_index=True, return_inverse=True)
    (features,), (facts,) = observe_at_nodes(game, game.start(game.deal(1, rng)), acts)
    features, facts = features[:, game.card_features :], facts[:, game.card_fields :]
    legal = betting.legal.astype(np.int8)
    place = np.cumsum(betting.seat >= 0) - 1  # among those who act
    nodes: dict[int, BettingNode] = {}
    for number in reversed(range(len(legal))):  # in preorder what follows has a higher number
        after = enumerate(betting.after[number].tolist())
        seat, row = int(betting.seat[number]), place[number]
        end = seat < 0
        nodes[number] = BettingNode(
            number,
            {action: nodes[node] for action, node in after if node >= 0},
            seat,
            legal[number],
            -1 if end else int(of[row]),
            features[:0] if end else features[row],
            facts[:0] if end else facts[row],
        )
    return nodes[0], acts[shown]


def observe_at_nodes(game: Poker, state: PokerState, nodes: Array) -> tuple[Array, Array]:
    """(G, nodes, F) features and (G, nodes, K) facts of each game at each of these nodes."""
    games = len(state.node)
    state = select_rows(state, np.repeat(np.arange(games), len(nodes)))
    state.node[:] = np.tile(nodes, games)
    observations, shape = game.observe(state), (games, len(nodes), -1)
    return game.features(observations).reshape(shape), observations.observation.reshape(shape)


class SinglePokerGame:
    """A game in progress, an `environments.single_game.SingleGame`; information sets have no
    numbers here.

    A seat sees its cards, as far as they are turned, and the betting: the engine tells the first
    once a deal, the second once and for all. Games are dealt ahead, more and more at once: the
    same ones that a generator deals one by one, if nobody else draws from it meanwhile.
    """

    seat: int
    legal: Array

    def __init__(self, game: Poker) -> None:
        self._game = game
        self._nothing = [0.0] * game.seats
        self._first, self._shown = build_nodes(game.rules, game.fold, game.view)
        self._rng: Generator | None = None
        self.begin(np.random.default_rng(0))

    def begin(self, rng: Generator) -> None:
        if rng is not self._rng:
            self._rng, self._dealt, self._row = rng, 0, 0
        self._row += 1
        if self._row >= self._dealt:
            self._dealt, self._row = min(max(1, 2 * self._dealt), MAX_DEALT), 0
            state = self._game.start(self._game.deal(self._dealt, rng))
            features, facts = observe_at_nodes(self._game, state, self._shown)
            self._strength = state.strength
            self._features = features[:, :, : self._game.card_features]
            self._facts = facts[:, :, : self._game.card_fields]
        self._to(self._first)

    def act(self, action: int) -> list[float]:
        self._to(self._node.after[action])
        if self.seat >= 0:
            return self._nothing
        strength = self._strength[self._row : self._row + 1]
        won = self._game.won(strength, ROW, np.array([self._node.number]))
        points: list[float] = won[0].tolist()
        return points

    @property
    def observation(self) -> Array:
        return np.concatenate((self._features[self._row, self._node.view], self._node.features))

    @property
    def observations(self) -> Observations:
        seen = np.concatenate(
            (self._facts[self._row, self._node.view], self._node.observation_fields)
        )
        legal = self._node.legal.astype(bool)
        return Observations(ROW, np.array([self.seat]), seen[None], legal[None], None)

    def _to(self, node: BettingNode) -> None:
        self._node, self.seat, self.legal = node, node.seat, node.legal
