"""A game as one tree of arrays: what every exact solver works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import psutil
from numba import njit

from overtrick.core import Array, Enumerable, ExplicitTreeGame, Game, TreeNodes, UserError
from overtrick.solvers.extensive.enumerate import enumerate_tree
from overtrick.solvers.extensive.traversal import (
    PostOrder,
    ResponseOrder,
    post_order,
    response_order,
)


@dataclass(frozen=True)
class Tree(TreeNodes):
    """Nodes, and what follows from them."""

    first: Array  # (V,) int32 the first child; the others follow it
    children: Array  # (V,) int32 number of children
    start: Array  # (N + 1,) int32 place of a set's first legal action among all L; lastly L
    sequence: Array  # (V, S) int32 1 + place of each seat's latest action, 0 before it has acted
    past: Array  # (N,) int32 the own sequence with which a seat comes here
    stage: Array  # (N,) int32 decisions that this seat made before

    @property
    def nodes(self) -> int:
        return len(self.parent)

    @property
    def infosets(self) -> int:
        return len(self.observations)

    @property
    def legal(self) -> Array:
        """(N, A) bool."""
        assert self.observations.legal is not None
        return self.observations.legal

    @cached_property
    def owner(self) -> Array:
        """(L,) int32 the information set of each legal action."""
        return np.repeat(np.arange(self.infosets, dtype=np.int32), np.diff(self.start))

    @cached_property
    def order(self) -> Array:
        """(N,) the information sets by seat, a seat's earlier ones before its later ones."""
        return np.lexsort((self.stage, self.observations.seat))

    @cached_property
    def gains(self) -> Array:
        """(S, V) float64 the gains seat by seat, as kernels want them."""
        return np.ascontiguousarray(self.gain.T)

    @cached_property
    def walk(self) -> PostOrder:
        """The inner nodes, deepest level first."""
        return post_order(self, np.zeros(self.nodes, np.int32))

    @cached_property
    def stages(self) -> tuple[ResponseOrder, ...]:
        """For each seat the inner nodes as its best response visits them."""
        return tuple(response_order(self, seat) for seat in range(self.seats))

    def decisions(self, seat: int) -> int:
        """The most decisions that a seat makes in one game."""
        return 1 + int(self.stage[self.observations.seat == seat].max(initial=-1))

    def uniform(self) -> Array:
        """(N, A) equal probability for each legal action."""
        return self.legal / self.legal.sum(axis=1, keepdims=True)

    def demand(self, tables: Array) -> None:
        """Raise UserError unless tables are (..., N, A)."""
        if tables.shape[-2:] != self.legal.shape:
            raise UserError(
                f"a strategy for another game: it is {tables.shape}, this game has "
                f"{self.infosets} information sets and {self.legal.shape[1]} actions"
            )

    def flat(self, tables: Array) -> Array:
        """(..., L) float64 the legal entries of tables (..., N, A), as kernels want them.

        Raises UserError for tables of another shape.
        """
        self.demand(tables)
        return np.ascontiguousarray(tables[..., self.legal], np.float64)

    def table(self, flat: Array) -> Array:
        """(N, A) the table of flat entries (L,), 0 where illegal."""
        table = np.zeros(self.legal.shape)
        table[self.legal] = flat
        return table


def build(game: Game | ExplicitTreeGame, memory: int | None = None) -> Tree:
    """The whole tree of a game, in no more than so many bytes (None: what the machine has free).

    Raises UserError if it would not fit by `size`, where a game tells so before it is laid out; or
    if a seat forgets what it knew or did: the solvers need perfect recall.
    """
    budget = psutil.virtual_memory().available if memory is None else memory
    listed = isinstance(game, Enumerable) and game.infosets is not None
    if game.actions is None or not (listed or isinstance(game, ExplicitTreeGame)):
        raise UserError(f"{game.name} is too large for a tree, which this needs")
    a_node, a_set = (estimated_bytes(*one, game.seats, game.actions) for one in ((1, 0), (0, 1)))

    def fits(nodes: float, infosets: int) -> bool:  # asked at every node, so it is quick
        return nodes * a_node + infosets * a_set <= budget

    if isinstance(game, ExplicitTreeGame):
        return tree_from_nodes(game.nodes(fits), game.name)
    assert isinstance(game, Enumerable)
    return tree_from_nodes(enumerate_tree(game, fits), game.name)


def estimated_bytes(nodes: float, infosets: int, seats: int, actions: int) -> float:
    """Bytes that a tree and one solver of it take at most, at the peak of their work.

    Measured to bound what is allocated for trees of 1,000 nodes and more, 2 to 10 seats, and up
    to 200 actions. A seat's best response has a walk of its own, so a node's part grows with the
    square of the seats.
    """
    walks = (1 + seats) * (28 + 4 * seats)  # Walk of inner nodes, here taken to be all of them
    return nodes * (140 + 32 * seats + walks) + 40.0 * infosets * actions


def tree_from_nodes(nodes: TreeNodes, name: str) -> Tree:
    """The tree of some nodes. Raises UserError for imperfect recall; name is said in errors."""
    assert nodes.observations.legal is not None
    children = np.bincount(nodes.parent[1:], minlength=len(nodes.parent)).astype(np.int32)
    first = (1 + np.cumsum(children) - children).astype(np.int32)
    choices = nodes.observations.legal.sum(axis=1)
    start = np.append(0, np.cumsum(choices)).astype(np.int32)
    acts = nodes.seat >= 0
    if (children[acts] != choices[nodes.infoset[acts]]).any():
        raise UserError(f"{name}: the legal actions differ within one information set")
    sequence, past, stage, sound = _recall(
        nodes.seats, nodes.parent, nodes.seat, nodes.infoset, first, start
    )
    if not sound:
        raise UserError(f"{name}: a seat forgets what it knew or did (imperfect recall)")
    return Tree(
        **vars(nodes),
        first=first,
        children=children,
        start=start,
        sequence=sequence,
        past=past,
        stage=stage,
    )


@njit(cache=True)
def _recall(seats, parent, seat, infoset, first, start):  # type: ignore[no-untyped-def]
    """Each seat's latest action at every node, and whether information sets agree on theirs."""
    sequence = np.zeros((len(parent), seats), np.int32)
    past = np.full(len(start) - 1, -1, np.int32)
    stage = np.zeros(len(start) - 1, np.int32)
    made = np.zeros((len(parent), seats), np.int32)
    for node in range(len(parent)):
        if node > 0:
            above = parent[node]
            sequence[node] = sequence[above]
            made[node] = made[above]
            mover = seat[above]
            if mover >= 0:
                sequence[node, mover] = 1 + start[infoset[above]] + node - first[above]
                made[node, mover] += 1
        mover = seat[node]
        if mover >= 0:
            row = infoset[node]
            if past[row] < 0:
                past[row] = sequence[node, mover]
                stage[row] = made[node, mover]
            elif past[row] != sequence[node, mover]:
                return sequence, past, stage, False
    return sequence, past, stage, True
