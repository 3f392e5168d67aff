"""Poker games with few cards, whose deals can all be listed for the exact solvers."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations
from overtrick.games.poker.game import Poker, PokerState
from overtrick.games.poker.rules import PokerRules

MOST_LISTED = 1_000_000
"""Number of deals up to which deals are drawn from a list of all of them."""


class EnumerablePoker(Poker):
    """Limit poker with one hole card for each seat and at most one board card.

    All deals can be listed, and information sets are numbered by hole card, board and betting.
    """

    infosets: int

    def __init__(
        self,
        rules: PokerRules,
        fold: bool | None = None,
        ranks: int | None = None,
        view: str = "cards",
    ) -> None:
        super().__init__(rules, fold, ranks, view)
        self.kinds = self.rules.ranks if self.fold else self.deck  # distinct cards as observed
        self.infosets = int(self._infoset_base[-1])

    def every_deal(self) -> tuple[Deals, Array]:
        """Return all distinct deals (G, C) in lexicographic order and their probabilities (G,)."""
        deals, counts = np.unique(self._equal_deals, axis=0, return_counts=True)
        return deals, counts / counts.sum()

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample deals (G, C) uniformly from all deals of distinct cards."""
        count = math.perm(self.deck, self.rules.cards)
        place = rng.integers(count, size=games)
        return self._equal_deals[place] if count <= MOST_LISTED else self._deals_at(place)

    def _deals_at(self, place: Array) -> Deals:
        """Return the deals (n, C) at places (n,) of the list `_equal_deals`, without the list."""
        cards = self.rules.cards
        deals = np.empty((len(place), cards), np.int64)
        for column in range(cards):
            card, place = np.divmod(place, math.perm(self.deck - column - 1, cards - column - 1))
            for dealt in np.sort(deals[:, :column], axis=1).T:  # `card` counts those not yet dealt
                card += card >= dealt
            deals[:, column] = card
        return deals // self.rules.suits if self.fold else deals

    def revealed_columns(self, state: PokerState) -> Array:
        """Return the number (G,) of cards in each deal that at least one seat has seen.

        These are the hole cards of all seats, and the board card once it is dealt. They are the
        first columns of the deal.
        """
        return self.seats + self.turned[state.node]

    def _infosets(self, seen: Array) -> Array:
        """Return the index (R,) of the information set of each observation in `seen` (R, K)."""
        return self._infoset_base[seen[:, -1]] + self._holding[seen[:, 0], seen[:, 1]]

    def compact_features(self, observations: Observations) -> Array:
        """Return (R, 1 + S) float64 inputs for a small network, each from -1 to 1.

        The first input is the rank of the hole card (-1 lowest, 1 highest). The other inputs are
        the latest actions of the seat itself and of each seat after it, scaled by index from -1
        (action 0) to 1 (action A - 1); 0 if the seat has not acted. For Kuhn poker these are the
        inputs of Samothrakis and Lucas 2011, section 4.2.
        """
        card = 2 * self.rank(observations.observation[:, 0]) / max(1, self.rules.ranks - 1) - 1
        turns = (observations.seat[:, None] + np.arange(self.seats)) % self.seats
        latest = self._latest[observations.observation[:, -1:], turns]
        scaled = np.where(latest >= 0, 2 * latest / (self.actions - 1) - 1, 0)
        return np.hstack([card[:, None], scaled])

    @cached_property
    def _latest(self) -> Array:
        """Return the latest action (B, S) of each seat before each betting node; -1 if none."""
        latest = np.full((len(self.betting.seat), self.seats), -1)
        for node, row in enumerate(self.betting.after):
            for action, child in enumerate(row):
                if child >= 0:
                    latest[child] = latest[node]
                    latest[child, self.betting.seat[node]] = action
        return latest

    @cached_property
    def _equal_deals(self) -> Array:
        """List all deals (n, C) of distinct cards in lexicographic order; all are equally likely.

        If the game's option `fold` is true, the rows contain ranks instead of cards. The same row
        then occurs once for each choice of suits.
        """
        deals = np.zeros((1, 0), np.int64)
        for _ in range(self.rules.cards):
            card = np.tile(np.arange(self.deck), len(deals))
            before = np.repeat(deals, self.deck, axis=0)
            fresh = (before != card[:, None]).all(axis=1)
            deals = np.column_stack([before[fresh], card[fresh]])
        return deals // self.rules.suits if self.fold else deals

    @property
    def min_tree_size(self) -> int:
        """Return a lower bound on the size of the game tree, without building the tree.

        The size is the number of nodes or the number of deals, whichever is larger.
        """
        nodes = sum(math.perm(self.kinds, self.seats + int(turned)) for turned in self.turned)
        return max(nodes, math.perm(self.deck, self.rules.cards))

    @cached_property
    def _holding(self) -> Array:
        """Return a table that numbers the pairs of hole card (row) and board card (column) from 0.

        Impossible pairs have the entry -1. One more column, the last, is for decisions before the
        board card is dealt: it numbers the hole cards from 0. In a game without a board, this is
        the only column.
        """
        if not sum(self.rules.board):
            return np.arange(self.kinds)[:, None]  # there is no board
        possible = ~np.eye(self.kinds, dtype=bool)
        if self.kinds < self.deck:  # folded: the board card may have the rank of the hole card
            possible[:] = True
        after = np.where(possible, possible.cumsum().reshape(possible.shape) - 1, -1)
        return np.column_stack([after, np.arange(self.kinds)])

    @cached_property
    def _infoset_base(self) -> Array:
        """Return the index of each betting node's first information set, as an array (B + 1,).

        The last entry is N, the number of information sets of the game.
        """
        boards = self.kinds if self.kinds < self.deck else self.kinds - 1  # for each hole card
        holdings = np.where(self.turned > 0, self.kinds * boards, self.kinds)
        size = holdings * (self.betting.seat >= 0)
        return np.concatenate([[0], np.cumsum(size)])
