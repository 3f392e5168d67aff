"""Exact expected values, best responses and NashConv on bucketed games.

A bucketed game has public actions, and each seat privately holds one of K buckets of hands. The
computation visits only the nodes of the public tree and keeps a number for each private bucket.
With independent buckets, the public actions alone determine a seat's belief about the other seat's
bucket (Johanson et al. 2011, "Accelerating best response calculation in large extensive games").
Where chance moves both seats' buckets jointly, the computation keeps a number for each history of
own buckets.

The public nodes at which a seat acts are divided into groups. The nodes of one group share their
information sets: a strategy cannot tell these nodes apart. An information set is a pair of a group
and a bucket. The array `index` (B,) holds the group of each of the B public nodes, numbered from 0;
it is -1 at terminal nodes. A strategy sigma is (N, A) float64 for both seats, 0 at illegal actions.
Row `group x K + bucket` of sigma holds the action probabilities of an information set. M strategies
are (M, N, A); results then have a leading axis M.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overtrick.core import Array, BucketedGame, UserError
from overtrick.solvers.public_tree.independent_pass import Layout, evaluate_independent, make_layout
from overtrick.solvers.public_tree.joint_pass import evaluate_joint
from overtrick.solvers.strategy_check import check_rows

STRATEGIES_PER_PASS = 32
"""Largest number of strategies evaluated in one pass, so that its arrays stay in the cache."""

NO_REPLY = np.zeros(0, np.int8)  # for calls that need no best response


@dataclass(frozen=True)
class IndexedGame:
    """Bucketed game whose public nodes are divided into groups that share information sets.

    A strategy cannot tell the nodes of one group apart. Each pair of a group and a bucket is an
    information set, which is one row of a strategy.
    """

    rules: BucketedGame
    index: Array  # (B,) int32 group of each public node, -1 at terminal nodes
    legal: Array  # (N, A) bool
    seat: Array  # (N,) int32 seat that acts in each row
    layout: Layout

    @property
    def buckets(self) -> int:
        """The number of private buckets, K."""
        return len(self.rules.win)

    def uniform(self) -> Array:
        """Return the uniform strategy (N, A)."""
        return self.legal / self.legal.sum(axis=1, keepdims=True)

    @cached_property
    def states(self) -> Array:
        """(B,) number of private states that a best response distinguishes at each public node.

        It is 0 at terminal nodes. With independent buckets a private state is the acting seat's
        bucket in the current round, one of K. With joint buckets it is the history of the seat's
        buckets in all rounds so far. The index of a history is the sum of bucket_r x K^r over these
        rounds r.
        """
        remembered = self.rules.round + 1 if self.rules.joint else np.ones_like(self.rules.round)
        return np.where(self.rules.seat >= 0, self.buckets**remembered, 0)

    @cached_property
    def first(self) -> Array:
        """(B,) index of each node's first private state in the action array of a best response."""
        return np.cumsum(self.states) - self.states


def public_node_index(game: BucketedGame) -> Array:
    """Number the public nodes (B,) so that no two of them share an information set.

    The nodes at which a seat acts get the numbers 0, 1, ...; terminal nodes get -1. As the array
    `index` of an IndexedGame the result makes each public node a group of its own.
    """
    acts = game.seat >= 0
    return np.where(acts, np.cumsum(acts) - 1, -1).astype(np.int32)


def index_game(game: BucketedGame, index: Array | None = None) -> IndexedGame:
    """Divide the public nodes of a bucketed game into groups that share information sets.

    `index` (B,): group of each public node; with None each node is a group of its own. Raises
    UserError unless the groups are numbered 0, 1, ... without gaps and terminal nodes have -1.
    Raises UserError also if the nodes of one group differ in the acting seat or the legal actions.
    """
    index = public_node_index(game) if index is None else np.asarray(index)
    acts = game.seat >= 0
    if index.shape != acts.shape or not np.issubdtype(index.dtype, np.integer):
        raise UserError(f"an index must be ({len(acts)},) integers, one for each public node")
    if ((index >= 0) != acts).any():
        raise UserError("an index must be -1 at terminal nodes and 0 or more elsewhere")
    numbers, node, back = np.unique(index[acts], return_index=True, return_inverse=True)
    if (numbers != np.arange(len(numbers))).any():
        raise UserError(
            f"an index must use all numbers from 0 without a gap: it has {len(numbers)} numbers"
        )
    seat, legal = game.seat[acts], game.after[acts] >= 0
    equal = (legal == legal[node][back]).all(axis=1) & (seat == seat[node][back])
    if not equal.all():
        raise UserError(
            f"information index {int(index[acts][~equal][0])} has public nodes of different "
            "seats or legal actions"
        )
    rows = np.repeat(node, len(game.win))
    return IndexedGame(
        game, index, legal[rows], seat[rows].astype(np.int32), make_layout(game, index)
    )


def check_strategy(game: IndexedGame, sigma: Array) -> None:
    """Raise UserError unless sigma, (N, A) or (M, N, A), holds strategies of the game."""
    if sigma.ndim not in {2, 3} or sigma.shape[-2:] != game.legal.shape:
        raise UserError(
            f"a strategy for another game or index: it is {sigma.shape}, this one has "
            f"{game.legal.shape[0]} rows and {game.legal.shape[1]} actions"
        )
    check_rows(sigma, game.legal)


def expected(game: IndexedGame, sigma: Array) -> Array:
    """Return (2,) or (M, 2) expected points of each seat when both play sigma.

    Raises UserError if sigma is not a strategy of the game.
    """
    check_strategy(game, sigma)
    return _values(game, sigma, best=False)


def nash_conv(game: IndexedGame, sigma: Array) -> Array:
    """Return NashConv, () or (M,) points: the sum of best-response values, 0 at an equilibrium.

    The values of sigma itself cancel in a zero-sum game. The best response distinguishes all public
    nodes and remembers all buckets of its seat, even where sigma does not. Raises UserError if
    sigma is not a strategy of the game.
    """
    check_strategy(game, sigma)
    return _values(game, sigma, best=True).sum(axis=-1)


def best_response(game: IndexedGame, sigma: Array, seat: int) -> tuple[float, Array]:
    """Compute a best response of one seat to the other seat's strategy in sigma (N, A).

    Returns the value of the best response in points, and an int8 array with the best action of each
    private state (history or bucket at a public node). The states of node b start at index
    `game.first[b]`. Entries of the other seat's nodes are -1. Ties go to the first action.
    """
    value, reply = best_responses(game, sigma)
    mover = np.repeat(game.rules.seat, game.states)
    return float(value[seat]), np.where(mover == seat, reply, -1).astype(np.int8)


def best_responses(game: IndexedGame, sigma: Array) -> tuple[Array, Array]:
    """Return (2,) the best-response value of each seat, and the actions of both best responses.

    The actions are one int8 array over the private states (bucket, or history of buckets) of all
    public nodes; the states of node b start at index `game.first[b]`.
    """
    check_strategy(game, sigma)
    if sigma.ndim > 2:
        raise UserError(f"best_responses takes one strategy (N, A), not {len(sigma)}")
    reply = np.zeros(int(game.states.sum()), np.int8)
    return _values(game, sigma, True, reply), reply


def kernel_tables(game: IndexedGame, sigma: Array) -> Array:
    """Convert strategies (M, N, A) to (N / K, A, K, M), as the compiled functions read them.

    The axes of the result are group of public nodes, action, bucket and strategy.
    """
    strategies, _, actions = sigma.shape
    table = sigma.reshape(strategies, -1, game.buckets, actions).transpose(1, 3, 2, 0)
    return np.ascontiguousarray(table, np.float64)


def _values(game: IndexedGame, sigma: Array, best: bool, reply: Array = NO_REPLY) -> Array:
    """Return (2,) or (M, 2) each seat's value under sigma, or with `best` its best-response value.

    sigma is one strategy (N, A) or M strategies (M, N, A). With `best` and one strategy, the
    actions of both best responses are written to `reply`, unless it is empty.
    """
    strategies = sigma.reshape(-1, *sigma.shape[-2:])
    value = np.empty((len(strategies), 2))
    lay, joint = game.layout, game.rules.joint
    block_size = 1 if joint else STRATEGIES_PER_PASS
    for start in range(0, len(strategies), block_size):
        block = value[start : start + block_size]
        table = kernel_tables(game, strategies[start : start + block_size])
        width = None if len(block) == 1 else len(block)
        for seat in range(2):
            block[:, seat] = (
                evaluate_joint(lay, table[..., 0], seat, best, game.first, reply)
                if joint
                else evaluate_independent(lay, table, seat, best, width, game.first, reply)
            )
    return value.reshape(*sigma.shape[:-2], 2)
