"""Fast play of a single limit poker game, from observations precomputed for every betting node."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Observations, select_rows
from overtrick.games.poker.game import Poker, PokerState
from overtrick.games.poker.rules import PokerRules

MAX_DEALT = 64  # most games dealt in advance
ROW = np.zeros(1, np.int64)  # index of the only game


class BettingNode(NamedTuple):
    """Node of the betting tree; its features and observation fields do not depend on the cards."""

    number: int  # index in the betting tree
    after: dict[int, BettingNode]  # next node by legal action
    seat: int  # seat to act, -1 at a terminal node
    legal: Array  # (A,) int8
    view: int  # index of seat and round, which decide the visible cards; -1 at a terminal node
    features: Array  # the features after the features of cards; empty at a terminal node
    observation: Array  # the observation fields after the cards; empty at a terminal node


@cache
def build_nodes(rules: PokerRules, fold: bool, view: str) -> tuple[BettingNode, Array]:
    """Build the betting tree of a game as linked nodes; return its root and representative nodes.

    The representative nodes (n,) are indices in the betting tree: one node for each pair of seat to
    act and betting round, because this pair decides which cards are visible. Results are cached.

    `fold`, `view`: the options of the class `Poker`.
    """
    game, rng = Poker(rules, fold, None, view), np.random.default_rng(0)
    betting, acts = game.betting, np.flatnonzero(game.betting.seat >= 0)
    views = betting.seat[acts].astype(np.int64) * len(rules.caps) + betting.round[acts]
    _, shown, of = np.unique(views, return_index=True, return_inverse=True)
    (features,), (seen,) = observe_at_nodes(game, game.start(game.deal(1, rng)), acts)
    features, seen = features[:, game.card_features :], seen[:, game.card_fields :]
    legal = betting.legal.astype(np.int8)
    place = np.cumsum(betting.seat >= 0) - 1  # index among nodes at which a seat acts
    nodes: dict[int, BettingNode] = {}
    for number in reversed(range(len(legal))):  # in preorder, children have higher indices
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
            seen[:0] if end else seen[row],
        )
    return nodes[0], acts[shown]


def observe_at_nodes(game: Poker, state: PokerState, nodes: Array) -> tuple[Array, Array]:
    """Return features (G, n, F) and observations (G, n, K) of G games, each at n betting nodes.

    `state`: has the cards of the games; its own betting nodes are ignored.
    `nodes`: (n,) indices of the n betting nodes in the betting tree.
    """
    games = len(state.node)
    state = select_rows(state, np.repeat(np.arange(games), len(nodes)))
    state.node[:] = np.tile(nodes, games)
    observations, shape = game.observe(state), (games, len(nodes), -1)
    return game.features(observations).reshape(shape), observations.observation.reshape(shape)


class SinglePokerGame:
    """One poker game in progress, with the interface of environments.single_game.SingleGame.

    The part of an observation that depends on cards is computed once per deal, the rest once for
    all games. Games are dealt in advance, in batches of up to MAX_DEALT. The deals are the same as
    if dealt one by one, unless other code draws from the same generator. Observations have no index
    of the information set.
    """

    seat: int
    legal: Array

    def __init__(self, game: Poker) -> None:
        self._game = game
        self._no_points = [0.0] * game.seats
        self._root, self._view_nodes = build_nodes(game.rules, game.fold, game.view)
        self._rng: Generator | None = None
        self.begin(np.random.default_rng(0))

    def begin(self, rng: Generator) -> None:
        """Start a new game; deals are drawn in batches from `rng`."""
        if rng is not self._rng:
            self._rng, self._dealt, self._row = rng, 0, 0
        self._row += 1
        if self._row >= self._dealt:
            # batches double in size
            self._dealt, self._row = min(max(1, 2 * self._dealt), MAX_DEALT), 0
            state = self._game.start(self._game.deal(self._dealt, rng))
            features, seen = observe_at_nodes(self._game, state, self._view_nodes)
            self._strength = state.strength
            self._features = features[:, :, : self._game.card_features]
            self._cards_seen = seen[:, :, : self._game.card_fields]
        self._go_to(self._root)

    def act(self, action: int) -> list[float]:
        """Play a legal action of the seat to act, and return the points that each seat gains."""
        self._go_to(self._node.after[action])
        if self.seat >= 0:
            return self._no_points
        strength = self._strength[self._row : self._row + 1]
        won = self._game.won(strength, ROW, np.array([self._node.number]))
        return won[0].tolist()

    @property
    def observation(self) -> Array:
        """Return the network inputs (F,) float32 of the seat to act."""
        return np.concatenate((self._features[self._row, self._node.view], self._node.features))

    @property
    def observations(self) -> Observations:
        """Return the observation of the seat to act as one row; its field `infoset` is None."""
        node = self._node
        seen = np.concatenate((self._cards_seen[self._row, node.view], node.observation))
        legal = self._node.legal.astype(bool)
        return Observations(ROW, np.array([self.seat]), seen[None], legal[None], None)

    def _go_to(self, node: BettingNode) -> None:
        self._node, self.seat, self.legal = node, node.seat, node.legal
