"""Poker games of which every deal can be listed, so that the exact solvers can have them."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations
from overtrick.games.poker.game import Poker, PokerState
from overtrick.games.poker.rules import PokerRules


class EnumerablePoker(Poker):
    """The same engine with one hole card a seat and at most one board card.

    It lists every deal, and numbers what a seat can see as information sets.
    """

    infosets: int

    def __init__(
        self, rules: PokerRules, fold: bool | None = None, ranks: int | None = None
    ) -> None:
        super().__init__(rules, fold, ranks)
        self.kinds = self.rules.ranks if self.fold else self.deck  # of cards, as seats see them
        self.infosets = int(self._infoset_base[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.rules, self.fold)

    def every_deal(self) -> tuple[Deals, Array]:
        """All distinct deals (G, C) in lexicographic order and their probabilities (G,)."""
        deals, counts = np.unique(self._equal_deals, axis=0, return_counts=True)
        return deals, counts / counts.sum()

    def deal(self, games: int, rng: Generator) -> Deals:
        return self._equal_deals[rng.integers(len(self._equal_deals), size=games)]

    def revealed_columns(self, state: PokerState) -> Array:
        return self.seats + self.turned[state.node]

    def observe(self, state: PokerState) -> Observations:
        return self._in_sets(super().observe(state))

    def validated_observations(self, seen: Array) -> Observations:
        return self._in_sets(super().validated_observations(seen))

    def _in_sets(self, observations: Observations) -> Observations:
        """The same rows with their information sets."""
        seen = observations.observation
        infoset = self._infoset_base[seen[:, -1]] + self._holding[seen[:, 0], seen[:, 1]]
        return Observations(observations.game, observations.seat, seen, observations.legal, infoset)

    def compact_features(self, observations: Observations) -> Array:
        """(R, 1 + S) float64 the least that a small network needs, each number from -1 to 1.

        The hole card's rank, lowest to highest; the latest action of the seat itself and of each
        seat after it, first to last action of the game, 0 before it acted. For Kuhn these are
        the inputs of Samothrakis and Lucas 2011, section 4.2.
        """
        card = 2 * self.rank(observations.observation[:, 0]) / max(1, self.rules.ranks - 1) - 1
        turns = (observations.seat[:, None] + np.arange(self.seats)) % self.seats
        latest = self._latest[observations.observation[:, -1:], turns]
        told = np.where(latest >= 0, 2 * latest / (self.actions - 1) - 1, 0)
        return np.hstack([card[:, None], told])

    @cached_property
    def _latest(self) -> Array:
        """(B, S) the latest action of each seat on the way to a node, -1 before it acted."""
        latest = np.full((len(self.betting.seat), self.seats), -1)
        for node, row in enumerate(self.betting.after):
            for action, child in enumerate(row):
                if child >= 0:
                    latest[child] = latest[node]
                    latest[child, self.betting.seat[node]] = action
        return latest

    @cached_property
    def _equal_deals(self) -> Array:
        """(_, C) deals that are equally likely, in lexicographic order; some repeat if folded."""
        deals = np.zeros((1, 0), np.int64)
        for _ in range(self.rules.cards):
            card = np.tile(np.arange(self.deck), len(deals))
            before = np.repeat(deals, self.deck, axis=0)
            fresh = (before != card[:, None]).all(axis=1)
            deals = np.column_stack([before[fresh], card[fresh]])
        return deals // self.rules.suits if self.fold else deals

    @property
    def min_tree_size(self) -> int:
        """Deals that `every_deal` lays out, or nodes of the tree that are sure: the larger."""
        nodes = sum(math.perm(self.kinds, self.seats + int(turned)) for turned in self.turned)
        return max(nodes, math.perm(self.deck, self.rules.cards))

    @cached_property
    def _holding(self) -> Array:
        """(hole, board) to its number among the pairs that can be seen together, else -1."""
        if not sum(self.rules.board):
            return np.arange(self.kinds)[:, None]  # the only column is board == -1
        possible = ~np.eye(self.kinds, dtype=bool)
        if self.kinds < self.deck:  # a board card may look like the hole card
            possible[:] = True
        after = np.where(possible, possible.cumsum().reshape(possible.shape) - 1, -1)
        return np.column_stack([after, np.arange(self.kinds)])  # the last is board == -1

    @cached_property
    def _infoset_base(self) -> Array:
        """(B + 1,) number of the first information set at each node."""
        boards = self.kinds if self.kinds < self.deck else self.kinds - 1  # beside a hole card
        holdings = np.where(self.turned > 0, self.kinds * boards, self.kinds)
        size = holdings * (self.betting.seat >= 0)
        return np.concatenate([[0], np.cumsum(size)])
