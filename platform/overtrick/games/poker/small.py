"""Poker games of which every deal can be listed, so that the exact solvers can have them."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Turn
from overtrick.games.poker.game import Hands, Poker
from overtrick.games.poker.rules import Rules


class SmallPoker(Poker):
    """The same engine with one hole card a seat and at most one board card.

    It lists every deal, and numbers what a seat can see as information sets.
    """

    infosets: int

    def __init__(self, rules: Rules, fold: bool | None = None, ranks: int | None = None) -> None:
        super().__init__(rules, fold, ranks)
        self.infosets = int(self._infoset_base[-1])

    def every_deal(self) -> tuple[Deals, Array]:
        """All distinct deals (G, C) in lexicographic order and their probabilities (G,)."""
        deals, counts = np.unique(self._equal_deals, axis=0, return_counts=True)
        return deals, counts / counts.sum()

    def deal(self, games: int, rng: Generator) -> Deals:
        return self._equal_deals[rng.integers(len(self._equal_deals), size=games)]

    def shown(self, state: Hands) -> Array:
        return self.seats + self.turned[state.node]

    def turn(self, state: Hands) -> Turn:
        turn = super().turn(state)
        seen = turn.seen
        infoset = self._infoset_base[seen[:, -1]] + self._holding[seen[:, 0], seen[:, 1]]
        return Turn(turn.game, turn.seat, seen, turn.legal, infoset)

    def brief(self, turn: Turn) -> Array:
        """(R, 1 + S) float64 the least that a small network needs, each number from -1 to 1.

        The hole card's rank, lowest to highest; the latest action of the seat itself and of each
        seat after it, first to last action of the game, 0 before it acted. For Kuhn these are
        the inputs of Samothrakis and Lucas 2011, section 4.2.
        """
        card = 2 * self.rank(turn.seen[:, 0]) / max(1, self.rules.ranks - 1) - 1
        turns = (turn.seat[:, None] + np.arange(self.seats)) % self.seats
        latest = self._latest[turn.seen[:, -1:], turns]
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
        deck = range(self.rules.ranks * self.rules.suits)
        deals = np.array(list(itertools.permutations(deck, self.rules.cards)))
        return deals // self.rules.suits if self.fold else deals

    @cached_property
    def _holdings(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """All (hole, board) pairs that a seat can see before and after the board is turned."""
        hole, last = self._equal_deals[:, 0], self._equal_deals[:, -1]
        before = [(int(h), -1) for h in np.unique(hole)]
        after = sorted({(int(h), int(b)) for h, b in zip(hole, last, strict=True)})
        return before, after if sum(self.rules.board) else []

    @cached_property
    def _holding(self) -> Array:
        """(hole, board) to its number among the pairs that can be seen together."""
        top = int(self._equal_deals.max()) + 1
        number = np.full((top, top + 1), -1)  # the last column is board == -1
        for pairs in self._holdings:
            for i, (hole, board) in enumerate(pairs):
                number[hole, board] = i
        return number

    @cached_property
    def _infoset_base(self) -> Array:
        """(B + 1,) number of the first information set at each node."""
        before, after = self._holdings
        size = np.where(self.turned > 0, len(after), len(before)) * (self.betting.seat >= 0)
        return np.concatenate([[0], np.cumsum(size)])
