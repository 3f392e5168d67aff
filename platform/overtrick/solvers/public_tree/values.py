"""Exact expected values, best responses and NashConv on bucketed games.

A bucketed game has public actions, and each seat privately holds one of K buckets of hands. In each
betting round chance draws new buckets. The computation visits only the B nodes of the public tree.
At each public node it computes a vector of counterfactual values, one for each private state of a
seat (Johanson et al. 2011, "Accelerating best response calculation in large extensive games").
There are two cases:

- Independent buckets: chance draws a seat's new bucket given this seat's previous bucket only. The
  private states are the K buckets, because the public actions alone determine a seat's belief about
  the other seat's bucket.
- Joint buckets: chance draws the pair of new buckets given the previous pair. The private states
  are the sequences of own buckets from the first round to the current round.

An abstract public state is a set of public nodes that share their information sets. If an abstract
public state has several nodes, the game has imperfect recall. An information set is a pair of an
abstract public state and a bucket. The array `index` (B,) holds the abstract public state of each
public node, numbered from 0; it is -1 at terminal nodes.

A strategy sigma is (N, A) float64 for both seats, 0 at illegal actions. Row s x K + k of sigma
holds the action probabilities in abstract public state s with bucket k. M strategies are an array
(M, N, A); results then have a leading axis M.
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
    """Bucketed game with an abstraction of its public states.

    An information set is an abstract public state together with a private bucket. An abstract
    public state is a set of public nodes that share their information sets. Each information set is
    one row of a strategy.
    """

    rules: BucketedGame
    index: Array  # (B,) int32 abstract public state of each public node, -1 at terminal nodes
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

        - If chance draws each seat's buckets independently, the states are the K current buckets of
          the acting seat.
        - If chance draws both seats' buckets jointly, the states are the acting seat's sequences of
          buckets, from the first round to the current round. There are K^(r + 1) sequences in
          betting round r = 0, 1, .... The number of a sequence is the sum of bucket_q x K^q over
          the rounds q from 0 to r.
        - Terminal nodes have no states.
        """
        remembered = self.rules.round + 1 if self.rules.joint else np.ones_like(self.rules.round)
        return np.where(self.rules.seat >= 0, self.buckets**remembered, 0)

    @cached_property
    def first(self) -> Array:
        """(B,) offset of each public node in the flat array of a best response's actions.

        The flat array holds, node after node, one action for each private state (see `states`).
        """
        return np.cumsum(self.states) - self.states


def public_node_index(game: BucketedGame) -> Array:
    """Number the decision nodes of the public tree 0, 1, ..., for a game without state abstraction.

    Returns (B,) int32: the number of each public node, -1 for terminal nodes. With this array as
    `index` of index_game, different public nodes never share an information set.
    """
    acts = game.seat >= 0
    return np.where(acts, np.cumsum(acts) - 1, -1).astype(np.int32)


def index_game(game: BucketedGame, index: Array | None = None) -> IndexedGame:
    """Make the information sets of a bucketed game from an abstraction of its public states.

    `index` (B,): abstract public state of each public node. The public nodes of one abstract public
    state share their information sets. With None each node is an abstract public state of its own.
    Raises UserError unless the abstract public states are numbered 0, 1, ... without gaps and
    terminal nodes have -1. Raises UserError also if the nodes of one abstract public state differ
    in the acting seat or the legal actions. Raises UserError also if the seats' first buckets are
    correlated, but the later buckets are drawn independently.
    """
    apart = np.outer(game.start.sum(axis=1), game.start.sum(axis=0))
    if not game.joint and not np.allclose(game.start, apart, rtol=0, atol=1e-9):
        raise UserError(
            f"the first buckets of {game.name} depend on each other: give joint transition "
            "probabilities `moves` too"
        )
    index = public_node_index(game) if index is None else np.asarray(index)
    acts = game.seat >= 0
    if index.shape != acts.shape or not np.issubdtype(index.dtype, np.integer):
        raise UserError(
            f"abstract public states must be ({len(acts)},) integers, one for each public node"
        )
    if ((index >= 0) != acts).any():
        raise UserError(
            "abstract public states must be -1 at terminal nodes and 0 or more elsewhere"
        )
    numbers, node, back = np.unique(index[acts], return_index=True, return_inverse=True)
    if (numbers != np.arange(len(numbers))).any():
        raise UserError(
            "abstract public states must be numbered from 0 without a gap: there are "
            f"{len(numbers)} numbers"
        )
    seat, legal = game.seat[acts], game.after[acts] >= 0
    equal = (legal == legal[node][back]).all(axis=1) & (seat == seat[node][back])
    if not equal.all():
        raise UserError(
            f"abstract public state {int(index[acts][~equal][0])} has public nodes of different "
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
            f"a strategy of another game or abstraction: it is {sigma.shape}, this one has "
            f"{game.legal.shape[0]} rows and {game.legal.shape[1]} actions"
        )
    check_rows(sigma, game.legal)


def expected(game: IndexedGame, sigma: Array) -> Array:
    """Return each seat's expected points when both seats play sigma.

    The result is (2,) for one strategy (N, A), and (M, 2) for M strategies (M, N, A). Raises
    UserError if sigma is not a strategy of the game.
    """
    check_strategy(game, sigma)
    return _values(game, sigma, best=False)


def nash_conv(game: IndexedGame, sigma: Array) -> Array:
    """Return NashConv in points: the sum of both seats' best-response values, 0 at an equilibrium.

    The result is () for one strategy (N, A), and (M,) for M strategies (M, N, A). The values of
    sigma itself cancel in a zero-sum game. The best responses are optimal among all strategies with
    perfect recall, even if sigma has imperfect recall. Raises UserError if sigma is not a strategy
    of the game.
    """
    check_strategy(game, sigma)
    return _values(game, sigma, best=True).sum(axis=-1)


def best_response(game: IndexedGame, sigma: Array, seat: int) -> tuple[float, Array]:
    """Compute a best response of one seat to the other seat's strategy in sigma (N, A).

    Returns the value of the best response in points, and an int8 array of its actions. At each
    public node b, entry `game.first[b]` + k is the action in private state k of the acting seat.
    Entries of the other seat's nodes are -1. Ties go to the first action.

    If chance draws each seat's buckets independently, the private state is the seat's current
    bucket. If chance draws both seats' buckets jointly, the private state is the sequence of the
    seat's buckets so far, because earlier buckets then tell about the other seat's bucket (see
    IndexedGame.states).
    """
    value, reply = best_responses(game, sigma)
    mover = np.repeat(game.rules.seat, game.states)
    return float(value[seat]), np.where(mover == seat, reply, -1).astype(np.int8)


def best_responses(game: IndexedGame, sigma: Array) -> tuple[Array, Array]:
    """Return (2,) the best-response value of each seat, and the actions of both best responses.

    The actions are one int8 array. At public node b, entry `game.first[b]` + k is the action in
    private state k of the acting seat.

    If chance draws each seat's buckets independently, the private state is the seat's current
    bucket. If chance draws both seats' buckets jointly, the private state is the sequence of the
    seat's buckets so far, because earlier buckets then tell about the other seat's bucket (see
    IndexedGame.states).
    """
    check_strategy(game, sigma)
    if sigma.ndim > 2:
        raise UserError(f"best_responses takes one strategy (N, A), not {len(sigma)}")
    reply = np.zeros(int(game.states.sum()), np.int8)
    return _values(game, sigma, True, reply), reply


def kernel_tables(game: IndexedGame, sigma: Array) -> Array:
    """Convert strategies (M, N, A) to (N / K, A, K, M), as the compiled functions read them.

    The axes of the result are abstract public state, action, bucket and strategy. An abstract
    public state is a set of public nodes that share their information sets. Each of the N
    information sets is a pair of an abstract public state and one of K buckets.
    """
    strategies, _, actions = sigma.shape
    table = sigma.reshape(strategies, -1, game.buckets, actions).transpose(1, 3, 2, 0)
    return np.ascontiguousarray(table, np.float64)


def _values(game: IndexedGame, sigma: Array, best: bool, reply: Array = NO_REPLY) -> Array:
    """Return each seat's value under sigma, or with `best` its best-response value.

    The result is (2,) for one strategy (N, A), and (M, 2) for M strategies (M, N, A). With `best`
    and one strategy, the actions of both best responses are written to `reply`, unless it is empty.
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
