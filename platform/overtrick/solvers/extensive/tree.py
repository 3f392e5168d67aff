"""Game tree as flat arrays, on which all exact solvers work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import psutil
from numba import njit

from overtrick.core import Array, Enumerable, ExplicitTreeGame, Game, TreeNodes, UserError
from overtrick.solvers.extensive import traversal_order
from overtrick.solvers.extensive.enumerate import enumerate_tree


@dataclass(frozen=True)
class Tree(TreeNodes):
    """Game tree as flat arrays: the nodes, and arrays derived from the nodes."""

    first: Array  # (V,) int32 first child; the other children follow it
    children: Array  # (V,) int32 number of children
    start: Array  # (N + 1,) int32 index of a set's first legal action among all L; the last is L
    sequence: Array  # (V, S) int32 1 + index among the L of each seat's latest action; 0: none yet
    parent_sequence: Array  # (N,) int32 the acting seat's own sequence before this decision
    stage: Array  # (N,) int32 number of decisions that the acting seat made before

    def __repr__(self) -> str:
        return f"Tree({self.nodes} nodes, {self.infosets} information sets, {self.seats} seats)"

    @property
    def nodes(self) -> int:
        """The number of nodes, V."""
        return len(self.parent)

    @property
    def infosets(self) -> int:
        """The number of information sets, N."""
        return len(self.observations)

    @property
    def legal(self) -> Array:
        """(N, A) bool legal mask of each information set."""
        assert self.observations.legal is not None
        return self.observations.legal

    @cached_property
    def action_infoset(self) -> Array:
        """(L,) int32 the information set to which each legal action belongs."""
        return np.repeat(np.arange(self.infosets, dtype=np.int32), np.diff(self.start))

    @cached_property
    def order(self) -> Array:
        """(N,) indices of the information sets: a seat's earlier decisions before its later ones.

        The information sets are sorted by acting seat, then by the number of the seat's earlier
        decisions.
        """
        return np.lexsort((self.stage, self.observations.seat))

    @cached_property
    def gains(self) -> Array:
        """(S, V) float64 points that each seat gains on the edge into each node."""
        return np.ascontiguousarray(self.gain.T)

    @cached_property
    def walk(self) -> traversal_order.PostOrder:
        """Inner nodes sorted by descending depth, so that children come before parents."""
        return traversal_order.post_order(self, np.zeros(self.nodes, np.int32))

    @cached_property
    def response_orders(self) -> tuple[traversal_order.ResponseOrder, ...]:
        """For each seat the order in which its best-response computation visits inner nodes."""
        return tuple(traversal_order.response_order(self, seat) for seat in range(self.seats))

    def max_decisions(self, seat: int) -> int:
        """Return the largest number of decisions that a seat makes in one game."""
        return 1 + int(self.stage[self.observations.seat == seat].max(initial=-1))

    def uniform(self) -> Array:
        """Return the uniform strategy (N, A)."""
        return self.legal / self.legal.sum(axis=1, keepdims=True)

    def check_shape(self, tables: Array) -> None:
        """Raise UserError unless strategy tables have this tree's shape (..., N, A)."""
        if tables.shape[-2:] != self.legal.shape:
            raise UserError(
                f"a strategy for another game: it is {tables.shape}, this game has "
                f"{self.infosets} information sets and {self.legal.shape[1]} actions"
            )

    def flat(self, tables: Array) -> Array:
        """Return (..., L) float64 the entries of strategy tables (..., N, A) at legal actions.

        Raises UserError if the tables do not have this tree's shape.
        """
        self.check_shape(tables)
        return np.ascontiguousarray(tables[..., self.legal], np.float64)

    def table(self, flat: Array) -> Array:
        """Return the table (N, A) with the entries `flat` (L,) at legal actions and 0 elsewhere."""
        table = np.zeros(self.legal.shape)
        table[self.legal] = flat
        return table


def build(game: Game | ExplicitTreeGame, memory: int | None = None) -> Tree:
    """Build the game tree of a game within a memory limit in bytes (None: the free memory).

    Raises UserError if the tree does not fit in memory; where the game knows a lower bound on the
    tree's size, this is detected before building. Raises UserError also for a game that cannot be
    enumerated, and for imperfect recall, which the solvers do not support.
    """
    budget = psutil.virtual_memory().available if memory is None else memory
    enumerable = isinstance(game, Enumerable) and game.infosets is not None
    if game.actions is None or not (enumerable or isinstance(game, ExplicitTreeGame)):
        raise UserError(f"{game.name} is too large for a tree, which this needs")
    per_node = estimated_bytes(1, 0, game.seats, game.actions)
    per_infoset = estimated_bytes(0, 1, game.seats, game.actions)

    def fits(nodes: float, infosets: int) -> bool:  # called at every node, so it must be fast
        return nodes * per_node + infosets * per_infoset <= budget

    if isinstance(game, ExplicitTreeGame):
        return tree_from_nodes(game.nodes(fits), game.name)
    assert isinstance(game, Enumerable)
    return tree_from_nodes(enumerate_tree(game, fits), game.name)


def estimated_bytes(nodes: float, infosets: int, seats: int, actions: int) -> float:
    """Return an upper bound on the peak memory of a tree and one solver on it, in bytes.

    The bound was fitted to measured allocations of trees with 1,000 nodes and more, 2 to 10 seats,
    and up to 200 actions. The memory of a node grows with the square of the number of seats.
    """
    # post-orders: one of the tree and one for each seat's best response, each with S numbers for a
    # node in its array `sequence`; counted as if all nodes were inner nodes
    walks = (1 + seats) * (28 + 4 * seats)
    return nodes * (115 + 32 * seats + walks) + 40.0 * infosets * actions


def tree_from_nodes(nodes: TreeNodes, name: str) -> Tree:
    """Build a tree from its nodes; `name` is the game's name in error messages.

    `nodes`: in breadth-first order, as in TreeNodes. Raises UserError if the legal actions differ
    within an information set, or if the game has imperfect recall.
    """
    assert nodes.observations.legal is not None
    children = np.bincount(nodes.parent[1:], minlength=len(nodes.parent)).astype(np.int32)
    first = (1 + np.cumsum(children) - children).astype(np.int32)
    legal_actions = nodes.observations.legal.sum(axis=1)
    start = np.append(0, np.cumsum(legal_actions)).astype(np.int32)
    acts = nodes.seat >= 0
    action = np.nonzero(nodes.observations.legal)[1]
    if (children[acts] != legal_actions[nodes.infoset[acts]]).any() or not _edges_are_legal(
        nodes.parent, nodes.edge, nodes.seat, nodes.infoset, first, start, action
    ):
        raise UserError(f"{name}: the legal actions differ within one information set")
    sequence, parent_sequence, stage, consistent = _sequences(
        nodes.seats, nodes.parent, nodes.seat, nodes.infoset, first, start
    )
    if not consistent:
        raise UserError(f"{name}: a seat forgets what it knew or did (imperfect recall)")
    return Tree(
        **vars(nodes),
        first=first,
        children=children,
        start=start,
        sequence=sequence,
        parent_sequence=parent_sequence,
        stage=stage,
    )


@njit(cache=True)
def _edges_are_legal(parent, edge, seat, infoset, first, start, action):  # type: ignore[no-untyped-def]
    """Return whether the edges below each node are the legal actions of its information set.

    - `parent`, `edge`, `seat`, `infoset` (V,): as in TreeNodes
    - `first` (V,): first child of each node
    - `start` (N + 1,), `action` (L,): the legal actions of information set n are `action` from
      start[n] to start[n + 1] - 1, in ascending order
    """
    for node in range(1, len(parent)):
        above = parent[node]
        legal = start[infoset[above]] + node - first[above]
        if seat[above] >= 0 and edge[node] != action[legal]:
            return False
    return True


@njit(cache=True)
def _sequences(seats, parent, seat, infoset, first, start):  # type: ignore[no-untyped-def]
    """Number the sequences of each seat's own actions, and check perfect recall.

    L is the number of legal actions, summed over all N information sets. The empty sequence has
    number 0. The sequence whose last action is legal action k, from 0 to L - 1, has number 1 + k.
    Returns four values:

    - (V, S) number of each seat's sequence at each node
    - (N,) number of the acting seat's sequence before each information set
    - (N,) number of decisions that the acting seat made before each information set
    - whether recall is perfect: the acting seat has the same sequence of own actions at all nodes
      of an information set. If not, the arrays are incomplete.

    Arguments:

    - `seats`: number of seats, S
    - `parent`, `seat`, `infoset` (V,): parent, acting seat and information set of each node
    - `first` (V,): first child of each node
    - `start` (N + 1,): number k of each information set's first legal action; the last entry is L
    """
    sequence = np.zeros((len(parent), seats), np.int32)
    parent_sequence = np.full(len(start) - 1, -1, np.int32)
    stage = np.zeros(len(start) - 1, np.int32)
    decisions = np.zeros((len(parent), seats), np.int32)
    for node in range(len(parent)):
        if node > 0:
            above = parent[node]
            sequence[node] = sequence[above]
            decisions[node] = decisions[above]
            mover = seat[above]
            if mover >= 0:
                sequence[node, mover] = 1 + start[infoset[above]] + node - first[above]
                decisions[node, mover] += 1
        mover = seat[node]
        if mover >= 0:
            row = infoset[node]
            if parent_sequence[row] < 0:
                parent_sequence[row] = sequence[node, mover]
                stage[row] = decisions[node, mover]
            elif parent_sequence[row] != sequence[node, mover]:
                return sequence, parent_sequence, stage, False
    return sequence, parent_sequence, stage, True
