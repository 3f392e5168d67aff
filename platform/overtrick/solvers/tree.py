"""A game as one tree of arrays, unrolled from the engine that plays it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overtrick.core import Array, Enumerable, Turn, take_turn
from overtrick.solvers.unroll import CHANCE, END, Level, unroll

__all__ = ["CHANCE", "END", "Tree", "build"]


@dataclass(frozen=True)
class Tree:
    """V nodes in breadth-first order; a node's children are neighbours, ordered by edge.

    A node gathers every deal that play so far cannot tell apart, so chance stands where it is
    revealed, one outcome a node, as in OpenSpiel.
    """

    seats: int  # S
    parent: Array  # (V,) int32, -1 for the root
    edge: Array  # (V,) int32 action of the parent that leads here; of chance, the outcome's rank
    seat: Array  # (V,) int32 who acts, CHANCE or END
    infoset: Array  # (V,) int32 information set, -1 where nobody acts
    chance: Array  # (V,) float64 probability of the edge if chance chose it, else 1
    gain: Array  # (V, S) float64 points gained on the edge into the node
    turn: Turn  # one row for each of the N information sets, in their order
    previous: Array  # (N,) int32 the same seat's information set before this one, or -1
    previous_action: Array  # (N,) int32 its action there, or -1
    stage: Array  # (N,) int32 decisions that this seat made before

    @property
    def nodes(self) -> int:
        return len(self.parent)

    @cached_property
    def children(self) -> Array:
        """(V,) int32 number of children."""
        return np.bincount(self.parent[1:], minlength=self.nodes).astype(np.int32)

    @cached_property
    def first(self) -> Array:
        """(V,) int32 the first child; the others follow it."""
        return np.searchsorted(self.parent, np.arange(self.nodes)).astype(np.int32)

    @property
    def infosets(self) -> int:
        return len(self.turn)

    @property
    def legal(self) -> Array:
        """(N, A) bool."""
        assert self.turn.legal is not None
        return self.turn.legal

    def uniform(self) -> Array:
        """(N, A) equal probability for each legal action."""
        return self.legal / self.legal.sum(axis=1, keepdims=True)


def build(game: Enumerable) -> Tree:
    """The whole tree of a game: every deal times every legal action, step by step.

    Raises ValueError if a seat acts on what the deal has not shown yet, or if a seat forgets
    what it knew or did (the solvers need perfect recall).
    """
    if game.infosets is None or game.actions is None:
        raise ValueError(f"{game.name} is too large for a tree")
    deals, probability = game.every_deal()
    weight = probability / probability.min()
    if np.allclose(weight, np.rint(weight), rtol=1e-12):
        # equally likely deals are counted, not added up: so a third is a third to the last bit
        weight = np.rint(weight)
    levels = unroll(game, deals, weight)
    sizes = np.cumsum([0] + [len(level.seat) for level in levels])
    seat = np.concatenate([level.seat for level in levels])
    infoset = np.concatenate([level.infoset for level in levels])
    parent = np.concatenate(
        [np.full(1, -1)]
        + [level.parent + start for level, start in zip(levels[1:], sizes[:-2], strict=True)]
    )
    edge = np.concatenate([level.edge for level in levels])
    turn = _number(game, levels)
    previous, action, stage = _recall(game, sizes, parent, edge, seat, infoset, len(turn))
    return Tree(
        seats=game.seats,
        parent=parent.astype(np.int32),
        edge=edge.astype(np.int32),
        seat=seat.astype(np.int32),
        infoset=infoset.astype(np.int32),
        chance=np.concatenate([level.chance for level in levels]),
        gain=np.concatenate([level.gain for level in levels]),
        turn=turn,
        previous=previous,
        previous_action=action,
        stage=stage,
    )


def _number(game: Enumerable, levels: list[Level]) -> Turn:
    """One row for each information set, in the engine's own numbering."""
    turns = [level.turn for level in levels]
    infoset = np.concatenate([t.infoset for t in turns])
    numbers, first = np.unique(infoset, return_index=True)
    if len(numbers) != game.infosets:
        raise ValueError(f"{game.name} names {game.infosets} information sets, has {len(numbers)}")
    joined = Turn(
        np.concatenate([t.game for t in turns]),
        np.concatenate([t.seat for t in turns]),
        np.concatenate([t.seen for t in turns]),
        np.concatenate([t.legal for t in turns]),
        infoset,
    )
    turn = take_turn(joined, first)
    return Turn(np.arange(len(turn)), turn.seat, turn.seen, turn.legal, turn.infoset)


def _recall(
    game: Enumerable,
    sizes: Array,
    parent: Array,
    edge: Array,
    seat: Array,
    infoset: Array,
    infosets: int,
) -> tuple[Array, Array, Array]:
    """Each information set's own past; raises ValueError if its nodes disagree about it."""
    # (V, S) the last information set and action of each seat on the way to a node
    last = np.full((len(parent), game.seats, 2), -1, np.int32)
    made = np.zeros((len(parent), game.seats), np.int32)
    for start, stop in itertools.pairwise(sizes[1:]):
        above = parent[start:stop]
        last[start:stop], made[start:stop] = last[above], made[above]
        acted = np.flatnonzero(seat[above] >= 0)
        node, who = start + acted, seat[above[acted]]
        last[node, who] = np.stack([infoset[above[acted]], edge[node]], axis=1)
        made[node, who] += 1
    acts = np.flatnonzero(seat >= 0)
    past = np.full((infosets, 3), -2, np.int32)
    mine = np.concatenate([last[acts, seat[acts]], made[acts, seat[acts], None]], axis=1)
    past[infoset[acts]] = mine
    if (past[infoset[acts]] != mine).any():
        raise ValueError(f"{game.name}: a seat forgets what it knew or did (imperfect recall)")
    return past[:, 0], past[:, 1], past[:, 2]
