"""Orders in which the compiled functions visit the inner nodes of a game tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit

from overtrick.core import CHANCE, Array

if TYPE_CHECKING:
    from overtrick.solvers.extensive.tree import Tree


class PostOrder(NamedTuple):
    """The I inner nodes of a tree, children before parents, as arrays for compiled functions."""

    node: Array  # (I,) int32
    first: Array  # (I,) int32 the first child
    last: Array  # (I,) int32 one past the last child
    mover: Array  # (I,) int32 the seat that acts, or CHANCE
    start: Array  # (I,) int32 index of its first action among the L; 0 at chance
    sequence: Array  # (I, S) int32 rows of Tree.sequence
    chance_reach: Array  # (I,) float64 product of chance's probabilities up to the node


class ResponseOrder(NamedTuple):
    """Bottom-up order of a tree's inner nodes, for the backward induction of a best response.

    Children come before parents. Nodes are grouped by the number of decisions that the responding
    seat has made before them, the largest number first. If the responding seat makes at most D
    decisions in one game, the groups are:

    - group 0: nodes of chance and of the other seats after D decisions of the responding seat
    - group 1: nodes of the responding seat after D - 1 own decisions
    - group 2: nodes of chance and of the other seats after D - 1 decisions of the responding seat
    - group 3: nodes of the responding seat after D - 2 own decisions, and so on
    """

    walk: PostOrder
    ends: Array  # (groups,) int64 end of each group in the post-order
    rows: Array  # (n,) information sets of the seat, those after most own decisions first
    row_ends: Array  # (stages,) end of each odd group in `rows`


def response_order(tree: Tree, seat: int) -> ResponseOrder:
    """Return the order in which one seat's best-response computation visits the inner nodes."""
    decisions_made = np.append(0, 1 + tree.stage[tree.action_infoset])[tree.sequence[:, seat]]
    rank = 2 * decisions_made + (tree.seat == seat)
    walk = post_order(tree, rank)
    own = np.flatnonzero(tree.observations.seat == seat)
    rows = own[np.argsort(-tree.stage[own], kind="stable")]
    last = tree.max_decisions(seat)
    ends = np.searchsorted(-rank[walk.node], -np.arange(2 * last, -1, -1), side="right")
    row_ends = np.searchsorted(-tree.stage[rows], -np.arange(last - 1, -1, -1), side="right")
    return ResponseOrder(walk, ends, rows, row_ends)


def post_order(tree: Tree, rank: Array) -> PostOrder:
    """Sort the inner nodes by descending `rank`, and nodes of equal rank by descending depth.

    `rank` (V,): integer sort key of each node, which must never decrease from a parent to its
    child. Children then come before parents. Nodes of equal rank and depth stay in the tree's
    order.
    """
    inner = np.flatnonzero(tree.children > 0)
    depth, chance_reach = depth_and_chance_reach(tree.parent, tree.seat, tree.chance)
    # the order of nodes at one depth makes sums over an information set run as in a depth-first
    # traversal
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
        chance_reach[inner],
    )


def realisation_plan(tree: Tree, flat: Array) -> Array:
    """Return (1 + L,) the realisation plan of a behaviour strategy of all seats.

    `flat` (L,) holds the strategy's probability of each legal action of each information set. The
    plan gives the probability of each sequence of a seat's own actions, as if all other seats and
    chance led there. Entry 0 is the empty sequence, with probability 1. Entry 1 + k is the sequence
    whose last action is action k of `flat`. Source: Koller, Megiddo and von Stengel 1996.
    """
    realised = np.ones(1 + len(flat))
    fill_plan(tree.order, tree.start, tree.parent_sequence, flat, realised)
    return realised


@njit(cache=True)
def fill_plan(rows, start, past, flat, realised):  # type: ignore[no-untyped-def]
    """Fill `realised` (1 + L,) with the realisation plan of a strategy (see realisation_plan).

    The arrays (L,) have one entry for each legal action of each of the N information sets.

    - `rows`: all information sets, a seat's earlier decisions before its later ones
    - `start` (N + 1,): index in arrays (L,) of each information set's first legal action
    - `past` (N,): index in `realised` of each information set's parent sequence
    - `flat` (L,): behaviour strategy

    Entry 0 of `realised`, for the empty sequence, must hold 1 before the call.
    """
    for row in rows:
        for place in range(start[row], start[row + 1]):
            realised[1 + place] = realised[past[row]] * flat[place]


@njit(cache=True)
def depth_and_chance_reach(parent, seat, chance):  # type: ignore[no-untyped-def]
    """Return (V,) the depth of each node and (V,) the probability that chance leads to it.

    This probability is the product of chance's probabilities on the path from the root. `parent`,
    `seat` and `chance` are those of TreeNodes.
    """
    depth = np.zeros(len(parent), np.int32)
    chance_reach = np.ones(len(parent))
    for node in range(1, len(parent)):
        above = parent[node]
        depth[node] = depth[above] + 1
        chance_reach[node] = chance_reach[above]
        if seat[above] == CHANCE:
            chance_reach[node] *= chance[node]
    return depth, chance_reach


@njit(cache=True)
def others_reach(walk, realised, i, seat_excluded):  # type: ignore[no-untyped-def]
    """Return the counterfactual reach probability of node `walk.node[i]` for one seat.

    - `walk`: a PostOrder of the tree
    - `realised` (1 + L,): realisation plan of the strategy of all seats
    - `seat_excluded`: the seat whose own actions are left out of the product
    """
    reach = 1.0
    for seat in range(walk.sequence.shape[1]):
        if seat != seat_excluded:
            reach *= realised[walk.sequence[i, seat]]
    return reach * walk.chance_reach[i]
