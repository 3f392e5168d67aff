"""Abstraction of limit hold'em by percentiles of hands, on which best responses take milliseconds.

In each round a hand belongs to one of K buckets by its percentile on the board (see
`hand_percentile`). The percentiles of two seats on one board are almost independent: their
correlation is -0.03, because the seats cannot hold the same cards. So the abstraction draws the
buckets of each seat independently.
"""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, BucketedGame, Observations
from overtrick.core.files import read_weights, write_weights_whole
from overtrick.games.poker.game import Poker
from overtrick.games.poker.holdem.bucketed_holdem import abstract_holdem
from overtrick.games.poker.holdem.hand_percentile import percentiles
from overtrick.policies.memoryless import MemorylessPolicy

BUCKETS = 20  # K
FILE = Path(__file__).with_name(f"percentiles-{BUCKETS}.safetensors")
DEALS = 300_000  # with which the file was made, and the seed
SEED = 0
TABULATED = 4  # hands of each bucket at which a policy is evaluated
SHOWN = (0, 3, 4, 5)  # board cards by round
ROWS_PER_PART = 400_000  # observations at a time


def estimate_tables(game: Poker, deals: int, rng: Generator) -> dict[str, Array]:
    """Estimate the tables of the abstraction from sampled deals; 20,000 take a second.

    Returns float64 arrays. `start` (K,): probability of each bucket before the flop. `moves`
    (3, K, K): probability of the next round's bucket (last axis) given the present one, to the
    flop, the turn and the river. `win` (K, K): probability that a seat wins the showdown, by its
    river bucket and the other seat's; a tie counts half.
    """
    dealt = game.deal(deals, rng)
    hole = game.rules.hole
    bucket = np.empty((2, len(SHOWN), deals), np.int64)
    for stage, shown in enumerate(SHOWN):
        board = np.full((deals, SHOWN[-1]), -1)
        board[:, :shown] = dealt[:, 2 * hole : 2 * hole + shown]
        for seat in range(2):
            own = dealt[:, seat * hole : (seat + 1) * hole]
            bucket[seat, stage] = bucket_of(percentiles(own, board))
    either = np.concatenate(list(bucket), axis=1)  # (rounds, 2 deals)
    moves = np.zeros((len(SHOWN) - 1, BUCKETS, BUCKETS))
    for stage, table in enumerate(moves):
        np.add.at(table, (either[stage], either[stage + 1]), 1)
    strength = game.start(dealt).strength
    won = (1 + np.sign(strength[:, 0] - strength[:, 1])) / 2
    total, count = np.zeros((2, BUCKETS, BUCKETS))
    for first, second, share in ((0, 1, won), (1, 0, 1 - won)):
        np.add.at(total, (bucket[first, -1], bucket[second, -1]), share)
        np.add.at(count, (bucket[first, -1], bucket[second, -1]), 1)
    start = np.bincount(either[0], minlength=BUCKETS) / (2 * deals)
    return {"start": start, "moves": moves / moves.sum(axis=2, keepdims=True), "win": total / count}


def write_tables(game: Poker) -> None:
    """Write the tables of the abstraction that come with the package."""
    write_weights_whole(FILE, estimate_tables(game, DEALS, np.random.default_rng(SEED)))


def bucket_of(percentile: Array) -> Array:
    """Return the bucket of each percentile, 0 (weakest) to K - 1."""
    return np.minimum((percentile * BUCKETS).astype(np.int64), BUCKETS - 1)


class PercentileAbstraction:
    """The abstraction of a game of limit hold'em; see `core.HandAbstraction`.

    Row n K + k of a strategy (N, A) belongs to decision node n of the betting tree and bucket k.
    """

    def __init__(self, game: Poker) -> None:
        self.game = game

    @cached_property
    def bucketed_game(self) -> BucketedGame:
        """The game of buckets, with independent buckets of both seats."""
        tables = read_weights(FILE)
        start = np.outer(tables["start"], tables["start"])
        return abstract_holdem(start, tables["moves"], tables["win"], self.game.rules)

    @cached_property
    def node_number(self) -> Array:
        """(B,) number of each decision node of the betting tree, from 0; at other nodes -1."""
        acts = self.game.betting.seat >= 0
        return np.where(acts, np.cumsum(acts) - 1, -1)

    @cached_property
    def groups(self) -> Array:
        """(N,) the number of each row's group: a coarse public situation and a fifth of buckets."""
        nodes = np.flatnonzero(self.game.betting.seat >= 0)
        hands = np.zeros((1, self.game.card_fields), np.int64)
        situation = self.game.public_situation(self._observations(nodes, hands))
        fifth = 5 * np.arange(BUCKETS) // BUCKETS
        return np.asarray((5 * situation[:, None] + fifth).reshape(-1))

    def rows(self, observations: Observations) -> Array:
        """Return the row (R,) of a strategy that belongs to each observation."""
        seen, hole = observations.observation, self.game.rules.hole
        bucket = bucket_of(percentiles(seen[:, :hole], seen[:, hole:-4]))
        return self.node_number[seen[:, -1]] * BUCKETS + bucket

    def policy(self, strategy: Array) -> BehaviouralPolicy:
        """Return the policy in the game that follows a strategy (N, A) of the abstraction."""
        return BucketPolicy(self, strategy)

    def tabulate(self, policy: BehaviouralPolicy, rng: Generator) -> Array:
        """Return a policy's mean action probabilities (N, A) at sampled hands of each bucket."""
        betting, cards = self.game.betting, self._sampled_cards(rng)
        nodes = np.flatnonzero(betting.seat >= 0)
        found = np.empty((len(nodes), BUCKETS, self.game.actions))
        for stage, hands in enumerate(cards):
            here = np.flatnonzero(betting.round[nodes] == stage)
            for part in np.array_split(here, -(-len(here) * len(hands) // ROWS_PER_PART)):
                probs = policy.probs(self._observations(nodes[part], hands))
                found[part] = probs.reshape(len(part), BUCKETS, TABULATED, -1).mean(axis=2)
        return found.reshape(-1, self.game.actions)

    def _observations(self, nodes: Array, hands: Array) -> Observations:
        """Return the observations of each hand (hole cards and board) at each betting node."""
        node = np.repeat(nodes, len(hands))
        seen = self.game.public_observations[node]
        seen[:, : hands.shape[1]] = np.tile(hands, (len(nodes), 1))
        seat, legal = self.game.betting.seat[node].astype(np.int64), self.game.betting.legal[node]
        return Observations(np.arange(len(node)), seat, seen, legal, None)

    def _sampled_cards(self, rng: Generator) -> list[Array]:
        """Return hole cards and board (K x TABULATED, 7) of hands of each bucket, by round."""
        hole, found = self.game.rules.hole, []
        for shown in SHOWN:
            left = np.full(BUCKETS, TABULATED)
            kept: list[list[Array]] = [[] for _ in left]
            while left.any():
                dealt = self.game.deal(BUCKETS * TABULATED, rng)
                board = np.full((len(dealt), SHOWN[-1]), -1)
                board[:, :shown] = dealt[:, 2 * hole : 2 * hole + shown]
                bucket = bucket_of(percentiles(dealt[:, :hole], board))
                cards = np.concatenate([dealt[:, :hole], board], axis=1)
                for k in np.flatnonzero(left):
                    new = cards[bucket == k][: left[k]]
                    kept[k].append(new)
                    left[k] -= len(new)
            found.append(np.concatenate([part for parts in kept for part in parts]))
        return found

    def dealt_cards(self, actions: tuple[int, ...]) -> int:
        """Return how many cards of a deal, from the first, are dealt in a game by its end."""
        node = last = 0
        for action in actions:
            last, node = node, int(self.game.betting.after[node, action])
        if self.game.betting.live[node].all():
            return self.game.rules.cards
        return 2 * self.game.rules.hole + SHOWN[self.game.betting.round[last]]

    def opponent_decisions(
        self, seat: int, cards: tuple[int, ...], actions: tuple[int, ...], payoff: float
    ) -> tuple[Array, Array]:
        """Return rows (D, H) and actions (D,), as `core.HandAbstraction` describes them.

        If a showdown leaves cards hidden, hands that contradict the payoff are left out.
        """
        betting, hole = self.game.betting, self.game.rules.hole
        hands = self._possible_hands(seat, cards, actions, payoff)
        board = np.array(cards[2 * hole :])
        node, rows, taken = 0, [], []
        bucket: dict[int, Array] = {}
        for action in actions:
            stage = int(betting.round[node])
            if betting.seat[node] == 1 - seat:
                if stage not in bucket:
                    shown = np.where(np.arange(SHOWN[-1]) < SHOWN[stage], board, -1)
                    boards = np.broadcast_to(shown, (len(hands), SHOWN[-1]))
                    bucket[stage] = bucket_of(percentiles(hands, boards))
                rows.append(self.node_number[node] * BUCKETS + bucket[stage])
                taken.append(action)
            node = int(betting.after[node, action])
        return np.array(rows, np.int64).reshape(-1, len(hands)), np.array(taken, np.int64)

    def _possible_hands(
        self, seat: int, cards: tuple[int, ...], actions: tuple[int, ...], payoff: float
    ) -> Array:
        """Return the hands (H, 2) that the other seat can have had; see `opponent_decisions`."""
        hole = self.game.rules.hole
        other = slice((1 - seat) * hole, (2 - seat) * hole)
        hands = np.array([cards[other]])
        if hands.min() >= 0:
            return hands
        hands = _pairs(self.game.deck)
        hands = hands[~np.isin(hands, cards).any(axis=1)]
        if not self.game.ends_with_showdown(actions):
            return hands
        deals = np.tile(np.array(cards, np.int16), (len(hands), 1))
        deals[:, other] = hands
        strength = self.game.start(deals).strength
        better = np.sign(strength[:, seat] - strength[:, 1 - seat])
        return hands[better == np.sign(payoff)]


class BucketPolicy(MemorylessPolicy):
    """Policy in the game that follows a strategy (N, A) of the abstraction."""

    def __init__(self, abstraction: PercentileAbstraction, strategy: Array) -> None:
        self.abstraction, self.strategy = abstraction, strategy

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, A), by betting node and bucket."""
        return self.strategy[self.abstraction.rows(observations)]


@cache
def _pairs(deck: int) -> Array:
    """Return all pairs of cards of a deck, (H, 2)."""
    return np.stack(np.triu_indices(deck, 1), axis=1)
