"""Poker with one hole card a seat, played from a betting table over many games at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Turn
from overtrick.games.poker import features
from overtrick.games.poker.betting import Betting, compile_rules
from overtrick.games.poker.hands import strength
from overtrick.games.poker.rules import Rules

FACTS = ("hole", "board", "own_chips", "other_chips", "round", "betting")


@dataclass(slots=True)
class Hands:
    """G games in progress."""

    cards: Array  # (G, C) one hole card a seat, then the board
    node: Array  # (G,) node of the betting table
    strength: Array  # (G, S) at a showdown


class Poker:
    """A limit poker game with one hole card a seat and at most one board card.

    A deal has C = S + board columns, the seats' hole cards first. With `fold` (suit symmetry
    folded) a card is its rank; without, card c has rank c // suits and seats see c itself.
    `ranks` replaces the number of ranks in the rules, named 1, 2, ... from the lowest.

    Facts: hole card; board card, -1 before it is turned; chips that the seat and the other
    seats together have in the pot; betting round; node of the betting table.
    """

    facts = FACTS

    def __init__(self, rules: Rules, fold: bool = True, ranks: int | None = None) -> None:
        if not isinstance(fold, bool):
            raise TypeError(f"fold must be true or false, not {fold!r}")
        if ranks is not None:
            if type(ranks) is not int or ranks < 1:
                raise TypeError(f"ranks must be a number of ranks, not {ranks!r}")
            dealt = len(rules.posts) + sum(rules.board)
            if ranks * rules.suits < dealt:
                least = -(-dealt // rules.suits)
                raise TypeError(f"ranks must be {least} or more, not {ranks}: {dealt} cards go out")
            if ranks != rules.ranks:
                names = tuple(str(rank) for rank in range(1, ranks + 1))
                rules = replace(rules, ranks=ranks, rank_names=names)
        self.cards = len(rules.posts) + sum(rules.board)  # C, of one deal
        self.deck = rules.ranks * rules.suits
        if self.deck < self.cards:
            raise TypeError(f"a deck of {self.deck} is too small for {self.cards} cards")
        self.rules = rules
        self.fold = fold
        self.kinds = rules.ranks if fold else self.deck  # of cards, as seats see them
        self.name = rules.name
        self.unit = rules.unit
        self.seats = len(rules.posts)
        self.actions = len(rules.actions)
        self.action_names = tuple(name for name, _ in rules.actions)
        self.betting: Betting = compile_rules(rules)
        self.board_from = np.cumsum(rules.board)[self.betting.round] > 0  # (B,) board turned up
        self.infosets = int(self._infoset_base[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return Poker, (self.rules, self.fold)

    def rank(self, cards: Array) -> Array:
        """Ranks of cards, from 0; -1 stays -1."""
        return cards if self.fold else cards // self.rules.suits

    def _card_name(self, card: int) -> str:
        """A rank and, where suits are told apart, a suit; nothing for a card not turned yet."""
        if card < 0:
            return ""
        rank = self.rules.rank_names[int(self.rank(np.array(card)))]
        return rank if self.fold else f"{rank}{card % self.rules.suits + 1}"

    def every_deal(self) -> tuple[Deals, Array]:
        """All distinct deals (G, C) in lexicographic order and their probabilities (G,)."""
        deals, counts = np.unique(self._equal_deals, axis=0, return_counts=True)
        return deals, counts / counts.sum()

    def deal(self, games: int, rng: Generator) -> Deals:
        return self._equal_deals[rng.integers(len(self._equal_deals), size=games)]

    def redeal(self, turn: Turn, rng: Generator) -> Deals:
        """(R, C) deals in which each row has its hole card and the board that it sees.

        All other columns are drawn without replacement from the cards that are left.
        """
        board, suits = sum(self.rules.board), self.rules.suits
        cards = np.full((len(turn), self.cards), -1)
        cards[np.arange(len(turn)), turn.seat] = turn.seen[:, 0]
        cards[:, self.seats :] = turn.seen[:, 1 : 1 + board]
        if self.fold:  # any copy of a rank will do, if no two cards are the same one
            twins = [(cards[:, :c] == cards[:, [c]]).sum(axis=1) for c in range(cards.shape[1])]
            cards = np.where(cards < 0, -1, cards * suits + np.stack(twins, axis=1))
        for column in range(self.cards):
            rows = np.flatnonzero(cards[:, column] < 0)
            held = np.sort(np.where(cards[rows] < 0, self.deck, cards[rows]), axis=1)
            card = rng.integers(self.deck - (held < self.deck).sum(axis=1))
            for lower in held.T:  # the card-th of those left: one further for each below it
                card += card >= lower
            cards[rows, column] = card
        return cards // suits if self.fold else cards

    def start(self, deals: Deals) -> Hands:
        ranks = self.rank(deals)
        hole, board = ranks[:, : self.seats], ranks[:, self.seats :]
        node = np.zeros(len(deals), np.int32)
        return Hands(deals, node, strength(hole, board, self.rules.ranks))

    def shown(self, state: Hands) -> Array:
        return self.seats + np.cumsum(self.rules.board)[self.betting.round[state.node]]

    def turn(self, state: Hands) -> Turn:
        game = np.flatnonzero(self.betting.seat[state.node] >= 0)
        node = state.node[game]
        seat = self.betting.seat[node].astype(np.int64)
        seen = np.empty((len(game), len(FACTS)), np.int16)
        seen[:, 0] = state.cards[game, seat]
        seen[:, 1] = np.where(self.board_from[node], state.cards[game, -1], -1)
        seen[:, 2:] = self._public[node]
        infoset = self._infoset_base[node] + self._holding[seen[:, 0], seen[:, 1]]
        return Turn(game, seat, seen, self.betting.legal[node], infoset)

    def step(self, state: Hands, turn: Turn, action: Array) -> Array:
        known = (action >= 0) & (action < self.actions)
        node = np.where(known, self.betting.after[state.node[turn.game], action * known], -1)
        if (node < 0).any():
            row = int(np.argmax(node < 0))
            raise ValueError(f"illegal action {int(action[row])} in game {int(turn.game[row])}")
        state.node[turn.game] = node
        gain = np.zeros((len(state.node), self.seats))
        over = self.betting.seat[node] < 0
        game, end = turn.game[over], node[over]
        strengths = np.where(self.betting.live[end], state.strength[game], -1)
        won = strengths == strengths.max(axis=1, keepdims=True)
        pot = self.betting.chips[end].sum(axis=1, keepdims=True)
        share = pot * won / won.sum(axis=1, keepdims=True)
        gain[game] = (share - self.betting.chips[end]) / self.rules.chips_a_unit
        return gain

    def features(self, turn: Turn) -> Array:
        ranked = np.hstack([self.rank(turn.seen[:, :2]), turn.seen[:, 2:]])
        return features.encode(self.rules, len(self.betting.seat), ranked)

    def brief(self, turn: Turn) -> Array:
        """(R, 1 + S) float64 the least that a small network needs, each number from -1 to 1.

        The hole card's rank, lowest to highest; the latest action of the seat itself and of each
        seat after it, first to last action of the game, 0 before it acted. For Kuhn these are
        the inputs of Samothrakis and Lucas 2011, section 4.2.
        """
        card = 2 * self.rank(turn.seen[:, 0]) / max(1, self.rules.ranks - 1) - 1
        turns = (turn.seat[:, None] + np.arange(self.seats)) % self.seats
        latest = self._latest[turn.seen[:, 5][:, None], turns]
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
        for _ in range(self.cards):
            card = np.tile(np.arange(self.deck), len(deals))
            before = np.repeat(deals, self.deck, axis=0)
            fresh = (before != card[:, None]).all(axis=1)
            deals = np.column_stack([before[fresh], card[fresh]])
        return deals // self.rules.suits if self.fold else deals

    @property
    def least(self) -> int:
        """Deals that `every_deal` lays out, or nodes of the tree that are sure: the larger."""
        shown = self.seats + np.cumsum(self.rules.board)[self.betting.round]
        nodes = sum(math.perm(self.kinds, int(columns)) for columns in shown)
        return max(nodes, math.perm(self.deck, self.cards))

    @cached_property
    def _public(self) -> Array:
        """(B, 4) the public facts at each node: own chips, other chips, round, node."""
        betting = self.betting
        own = np.take_along_axis(betting.chips, betting.seat[:, None].clip(0), axis=1)[:, 0]
        other = betting.chips.sum(axis=1) - own
        return np.stack([own, other, betting.round, np.arange(len(own))], axis=1).astype(np.int16)

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
        holdings = np.where(self.board_from, self.kinds * boards, self.kinds)
        size = holdings * (self.betting.seat >= 0)
        return np.concatenate([[0], np.cumsum(size)])

    def hand(self, turn: Turn) -> Array:
        """(R,) the name of each row's hole card."""
        return np.array(list(self.rules.rank_names))[self.rank(turn.seen[:, 0])]

    def describe(self, seen: Array) -> str:
        """One row of facts (K,) in words: the holding, the board, and the betting so far."""
        hole, turned = (self._card_name(int(card)) for card in seen[:2])
        board = f" on {turned}" if turned else ""
        actions = ", ".join(self.action_names[a] for a in self.betting.history[seen[5]])
        return f"{hole}{board} after {actions or 'nothing'}"
