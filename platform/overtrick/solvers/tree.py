"""A game as one tree of arrays: what every exact solver works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import psutil
from numba import njit

from overtrick.core import CHANCE, END, Array, Enumerable, Game, Nodes, Refused, Unfolded
from overtrick.solvers.unroll import unroll
from overtrick.solvers.walk import Stages, Walk, stages, towards_root

__all__ = ["CHANCE", "END", "Tree", "build"]

NODE_BYTES = 400
"""Bytes of a node at the peak, while the tree is built; a solver holds a third of that."""


@dataclass(frozen=True)
class Tree(Nodes):
    """Nodes, and what follows from them."""

    first: Array  # (V,) int32 the first child; the others follow it
    children: Array  # (V,) int32 number of children
    start: Array  # (N,) int32 place of a set's first legal action among all L; the rest follow
    sequence: Array  # (V, S) int32 1 + place of each seat's latest action, 0 before it has acted
    past: Array  # (N,) int32 the own sequence with which a seat comes here
    stage: Array  # (N,) int32 decisions that this seat made before

    @property
    def nodes(self) -> int:
        return len(self.parent)

    @property
    def infosets(self) -> int:
        return len(self.turn)

    @property
    def legal(self) -> Array:
        """(N, A) bool."""
        assert self.turn.legal is not None
        return self.turn.legal

    @cached_property
    def owner(self) -> Array:
        """(L,) int32 the information set of each legal action."""
        return np.repeat(np.arange(self.infosets, dtype=np.int32), self.legal.sum(axis=1))

    @cached_property
    def walk(self) -> Walk:
        """The inner nodes, deepest level first."""
        return towards_root(self, np.zeros(self.nodes, np.int32))

    @cached_property
    def stages(self) -> tuple[Stages, ...]:
        """For each seat the inner nodes as its best response visits them."""
        return tuple(stages(self, seat) for seat in range(self.seats))

    def uniform(self) -> Array:
        """(N, A) equal probability for each legal action."""
        return self.legal / self.legal.sum(axis=1, keepdims=True)

    def flat(self, table: Array) -> Array:
        """(L,) float64 the legal entries of a table (N, A), as kernels want them."""
        return np.ascontiguousarray(table[self.legal], np.float64)

    def table(self, flat: Array) -> Array:
        """(N, A) the table of flat entries (L,), 0 where illegal."""
        table = np.zeros(self.legal.shape)
        table[self.legal] = flat
        return table


def build(game: Game | Unfolded, memory: int | None = None) -> Tree:
    """The whole tree of a game, in no more than so many bytes (None: what the machine has free).

    Raises Refused if it would not fit, or if a seat forgets what it knew or did: the solvers need
    perfect recall.
    """
    budget = psutil.virtual_memory().available if memory is None else memory
    most = budget // NODE_BYTES
    if isinstance(game, Unfolded):
        return grow(game.nodes(most), game.name)
    if not isinstance(game, Enumerable) or game.infosets is None or game.actions is None:
        raise Refused(f"{game.name} is too large for a tree, which this needs")
    return grow(unroll(game, most), game.name)


def grow(nodes: Nodes, name: str) -> Tree:
    """The tree of some nodes. Raises Refused for imperfect recall; name is said in errors."""
    assert nodes.turn.legal is not None
    children = np.bincount(nodes.parent[1:], minlength=len(nodes.parent)).astype(np.int32)
    first = (1 + np.cumsum(children) - children).astype(np.int32)
    choices = nodes.turn.legal.sum(axis=1)
    start = (np.cumsum(choices) - choices).astype(np.int32)
    acts = nodes.seat >= 0
    if (children[acts] != choices[nodes.infoset[acts]]).any():
        raise Refused(f"{name}: the legal actions differ within one information set")
    sequence, past, stage, sound = _recall(
        nodes.seats, nodes.parent, nodes.seat, nodes.infoset, first, start
    )
    if not sound:
        raise Refused(f"{name}: a seat forgets what it knew or did (imperfect recall)")
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
    past = np.full(len(start), -1, np.int32)
    stage = np.zeros(len(start), np.int32)
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
