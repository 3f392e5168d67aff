"""What strategies are worth on Chains, exactly: expected values, best responses, NashConv.

The seats' buckets are no nodes here. Where they are independent, what a seat believes of the
other's bucket follows from the public moves alone, so one pass over the public nodes with a
number a bucket does what a tree of every deal would (Johanson et al. 2011, "Accelerating best
response calculation in large extensive games"); where chance moves them jointly, with a number
for each own history of buckets.

A strategy sigma is (N, A) float64 for both seats at once, 0 where illegal. Its row is
`information index x K + bucket`; an index (B,) names what a seat remembers of the public moves,
and -1 at ends. Many strategies at once are (M, N, A), and so the answers get an axis M.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overtrick.core import Array, BucketedGame, UserError
from overtrick.solvers.public_tree.independent_pass import Layout, evaluate_independent, make_layout
from overtrick.solvers.public_tree.joint_pass import evaluate_joint

STRATEGIES_PER_PASS = 32
"""Strategies in one pass, so that its tables stay in the cache."""

NO_REPLY = np.zeros(0, np.int8)


@dataclass(frozen=True)
class IndexedGame:
    """A game as strategies of one index see it, laid out for the kernels."""

    game: BucketedGame
    index: Array  # (B,) int32 information index, -1 at ends
    legal: Array  # (N, A) bool
    seat: Array  # (N,) int32 whose row it is
    layout: Layout

    @property
    def buckets(self) -> int:
        return len(self.game.win)

    def uniform(self) -> Array:
        """(N, A) equal probability for each legal action."""
        return self.legal / self.legal.sum(axis=1, keepdims=True)

    @cached_property
    def states(self) -> Array:
        """(B,) how many own states the seat to act can be in, 0 at ends.

        The own state is the bucket where buckets are independent. Where they move jointly it is
        the sum of bucket_r x K^r over the rounds r so far: a best reply remembers its buckets.
        """
        remembered = self.game.round + 1 if self.game.joint else np.ones_like(self.game.round)
        return np.where(self.game.seat >= 0, self.buckets**remembered, 0)

    @cached_property
    def first(self) -> Array:
        """(B,) where a node's own states begin in a best reply."""
        return np.cumsum(self.states) - self.states


def public_node_index(game: BucketedGame) -> Array:
    """(B,) the index that tells every public node from every other."""
    acts = game.seat >= 0
    return np.where(acts, np.cumsum(acts) - 1, -1).astype(np.int32)


def index_game(game: BucketedGame, index: Array | None = None) -> IndexedGame:
    """A game seen through an index (B,); None: every public node is told from every other.

    Raises UserError unless the index numbers the nodes at which a seat acts from 0 without a gap,
    and nodes of one number have the same seat and the same legal actions.
    """
    index = public_node_index(game) if index is None else np.asarray(index)
    acts = game.seat >= 0
    if index.shape != acts.shape or not np.issubdtype(index.dtype, np.integer):
        raise UserError(f"an index must be ({len(acts)},) whole numbers, one a public node")
    if ((index >= 0) != acts).any():
        raise UserError("an index must be -1 at the ends of the game and 0 or more elsewhere")
    numbers, node, back = np.unique(index[acts], return_index=True, return_inverse=True)
    if (numbers != np.arange(len(numbers))).any():
        raise UserError(f"an index must number from 0 without a gap: {len(numbers)} numbers occur")
    seat, legal = game.seat[acts], game.after[acts] >= 0
    same = (legal == legal[node][back]).all(axis=1) & (seat == seat[node][back])
    if not same.all():
        raise UserError(
            f"information index {int(index[acts][~same][0])} stands at public nodes of different "
            "seats or legal actions"
        )
    rows = np.repeat(node, len(game.win))
    return IndexedGame(
        game, index, legal[rows], seat[rows].astype(np.int32), make_layout(game, index)
    )


def check_strategy(view: IndexedGame, sigma: Array) -> None:
    """Raise UserError unless sigma is (N, A) or (M, N, A), rows of probabilities of this view."""
    if sigma.ndim not in {2, 3} or sigma.shape[-2:] != view.legal.shape:
        raise UserError(
            f"a strategy for another game or index: it is {sigma.shape}, this one has "
            f"{view.legal.shape[0]} rows and {view.legal.shape[1]} actions"
        )
    sums = np.where(view.legal, sigma, 0).sum(axis=-1)
    wrong = ~(np.abs(sums - 1) < 1e-5) | ((sigma < 0) | ((sigma > 0) & ~view.legal)).any(axis=-1)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise UserError(
            f"row {place[-1]} of a strategy must be probabilities of legal actions with sum 1, "
            f"not {sigma[place].tolist()}"
        )


def expected(view: IndexedGame, sigma: Array) -> Array:
    """(2,) or (M, 2) points that each seat wins on average when both play sigma.

    Raises UserError if sigma is no strategy of this view, as all functions here do.
    """
    check_strategy(view, sigma)
    return _worth(view, sigma, best=False)


def nash_conv(view: IndexedGame, sigma: Array) -> Array:
    """Sum over both seats of what a best response wins: () or (M,) points, 0 at an equilibrium.

    What sigma itself wins cancels out in a zero-sum game. The responder knows every public move
    and all of its own buckets, whatever the index leaves out.
    """
    check_strategy(view, sigma)
    return _worth(view, sigma, best=True).sum(axis=-1)


def best_response(view: IndexedGame, sigma: Array, seat: int) -> tuple[float, Array]:
    """The most that a seat can win when the other keeps to sigma (N, A), and how.

    Returns points, and an int8 array of the best action in each own state, node after node as
    View.first says, -1 where the other seat acts; the first of equals.
    """
    worth, reply = best_responses(view, sigma)
    mover = np.repeat(view.game.seat, view.states)
    return float(worth[seat]), np.where(mover == seat, reply, -1).astype(np.int8)


def best_responses(view: IndexedGame, sigma: Array) -> tuple[Array, Array]:
    """(2,) the most that each seat can win when the other keeps to sigma, and both replies."""
    check_strategy(view, sigma)
    if sigma.ndim > 2:
        raise UserError(f"best responses are found to one strategy at a time, not to {len(sigma)}")
    reply = np.zeros(int(view.states.sum()), np.int8)
    return _worth(view, sigma, True, reply), reply


def kernel_tables(view: IndexedGame, sigma: Array) -> Array:
    """(N / K, A, K, M) strategies (M, N, A) as the kernels want them."""
    many, _, actions = sigma.shape
    table = sigma.reshape(many, -1, view.buckets, actions).transpose(1, 3, 2, 0)
    return np.ascontiguousarray(table, np.float64)


def _worth(view: IndexedGame, sigma: Array, best: bool, reply: Array = NO_REPLY) -> Array:
    """(2,) or (M, 2) what each seat wins by sigma, or by its best reply to it."""
    many = sigma.reshape(-1, *sigma.shape[-2:])
    worth = np.empty((len(many), 2))
    lay, joint = view.layout, view.game.joint
    step = 1 if joint else STRATEGIES_PER_PASS
    for start in range(0, len(many), step):
        part = worth[start : start + step]
        table = kernel_tables(view, many[start : start + step])
        width = None if len(part) == 1 else len(part)
        for seat in range(2):
            part[:, seat] = (
                evaluate_joint(lay, table[..., 0], seat, best, view.first, reply)
                if joint
                else evaluate_independent(lay, table, seat, best, width, view.first, reply)
            )
    return worth.reshape(*sigma.shape[:-2], 2)
