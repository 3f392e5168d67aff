"""The inner nodes of a tree as arrays in the order in which kernels visit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from overtrick.core import CHANCE, Array

if TYPE_CHECKING:
    from overtrick.solvers.extensive.tree import Tree


class PostOrder(NamedTuple):
    """The I inner nodes in an order in which children come before their parents."""

    node: Array  # (I,) int32
    first: Array  # (I,) int32 the first child
    last: Array  # (I,) int32 one past the last child
    mover: Array  # (I,) int32 the seat that acts, or CHANCE
    start: Array  # (I,) int32 place of the first action of its information set; 0 at chance
    sequence: Array  # (I, S) int32 as Tree.sequence
    luck: Array  # (I,) float64 probability that chance lets the node come


class ResponseOrder(NamedTuple):
    """A walk in groups, so that a seat's last decisions come before its earlier ones.

    Groups take turns: what nobody but others decide, then the seat's own decisions of one stage,
    whose followers are all done by then; and so on up to the root.
    """

    walk: PostOrder
    ends: Array  # (groups,) int64 where each group ends in the walk
    rows: Array  # the seat's information sets, last stage first
    row_ends: Array  # where each own group ends in rows


def response_order(tree: Tree, seat: int) -> ResponseOrder:
    """The walk of a seat's best response."""
    made = np.append(0, 1 + tree.stage[tree.owner])[tree.sequence[:, seat]]
    rank = 2 * made + (tree.seat == seat)
    walk = post_order(tree, rank)
    own = np.flatnonzero(tree.observations.seat == seat)
    rows = own[np.argsort(-tree.stage[own], kind="stable")]
    last = tree.decisions(seat)
    ends = np.searchsorted(-rank[walk.node], -np.arange(2 * last, -1, -1), side="right")
    row_ends = np.searchsorted(-tree.stage[rows], -np.arange(last - 1, -1, -1), side="right")
    return ResponseOrder(walk, ends, rows, row_ends)


def post_order(tree: Tree, rank: Array) -> PostOrder:
    """The inner nodes by rank (V,) from the highest down, then from the deepest level up.

    Within a level nodes keep their order, so that sums over an information set run in the order
    of a depth-first walk.
    """
    inner = np.flatnonzero(tree.children > 0)
    depth, luck = depth_and_chance_reach(tree.parent, tree.seat, tree.chance)
    inner = inner[np.lexsort((inner, -depth[inner], -rank[inner]))].astype(np.int32)
    acts = tree.seat[inner] >= 0
    start = np.zeros(len(inner), np.int32)
    start[acts] = tree.start[tree.infoset[inner[acts]]]
    first = tree.first[inner]
    return PostOrder(
        inner,
        first,
        first + tree.children[inner],
        tree.seat[inner],
        start,
        tree.sequence[inner],
        luck[inner],
    )


def realisation_plan(tree: Tree, flat: Array) -> Array:
    """(1 + L,) probability that a seat plays each of its sequences, by its own choices alone.

    flat (L,) is a strategy's legal entries; entry 0 is the empty sequence, whose plan is 1
    (the realisation plan of Koller, Megiddo and von Stengel 1996).
    """
    realised = np.ones(1 + len(flat))
    fill_realisation_plan(tree.order, tree.start, tree.past, flat, realised)
    return realised


@njit(cache=True)
def fill_realisation_plan(rows, start, past, flat, realised):  # type: ignore[no-untyped-def]
    """Fill a plan; rows: a seat's earlier information sets stand before its later ones."""
    for row in rows:
        for place in range(start[row], start[row + 1]):
            realised[1 + place] = realised[past[row]] * flat[place]


@njit(cache=True)
def depth_and_chance_reach(parent, seat, chance):  # type: ignore[no-untyped-def]
    """Each node's depth and the probability that chance lets it come."""
    depth = np.zeros(len(parent), np.int32)
    luck = np.ones(len(parent))
    for node in range(1, len(parent)):
        above = parent[node]
        depth[node] = depth[above] + 1
        luck[node] = luck[above]
        if seat[above] == CHANCE:
            luck[node] *= chance[node]
    return depth, luck


@njit(cache=True)
def others_reach(walk, realised, i, who):  # type: ignore[no-untyped-def]
    """Probability that chance and everyone but `who` let the walk's i-th node come."""
    reach = 1.0
    for seat in range(walk.sequence.shape[1]):
        if seat != who:
            reach *= realised[walk.sequence[i, seat]]
    return reach * walk.luck[i]
