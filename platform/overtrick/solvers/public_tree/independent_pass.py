"""One depth-first pass over the public moves of Chains: what both seats' strategies are worth.

Only the nodes between the root and the current one are held in memory, so the working set stays
in the processor's nearest cache. Strategies are (N / K, A, K, M) here: M of them side by side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, BucketedGame


class Layout(NamedTuple):
    """Chains as kernels want them: the nodes in preorder, the tables from each seat's side."""

    node: Array  # (B,) number of the node in Chains
    parent: Array  # (B,) place of the parent in this order, -1 for the root
    depth: Array  # (B,)
    edge: Array  # (B,) action that leads here
    seat: Array  # (B,) who acts, negative at an end
    row: Array  # (B,) information index, -1 at an end
    move: Array  # (B,) table by which chance moves the buckets on the way in, -1 for none
    gain: Array  # (B,)
    stake: Array  # (B,)
    start: Array  # (2, K) each seat's first bucket; joint (2, K, K), own bucket first
    moves: Array  # (rounds - 1, K, K); joint (2, rounds - 1, K, K, K, K), own buckets first
    pay: Array  # (2, K, K) what a showdown for a stake of 1 pays, own bucket first


def make_layout(game: BucketedGame, index: Array) -> Layout:
    """The layout of a game for strategies of one index (B,)."""
    node: list[int] = []
    parent: list[int] = []
    depth: list[int] = []
    edge: list[int] = []
    ahead = [(0, -1, 0, 0)]
    while ahead:
        now, above, deep, action = ahead.pop()
        ahead += [
            (int(game.after[now, a]), len(node), deep + 1, a)
            for a in np.flatnonzero(game.after[now] >= 0)[::-1]
        ]
        node.append(now)
        parent.append(above)
        depth.append(deep)
        edge.append(action)
    order = np.array(node, np.int32)
    stage = game.round[order]
    before = np.append(stage[0], stage[parent[1:]])
    move = np.where(stage > before, before, -1).astype(np.int32)
    if game.joint:
        start = np.stack([game.start, game.start.T])
        moves = np.stack([game.moves, game.moves.transpose(0, 2, 1, 4, 3)])
    else:
        start, moves = np.stack([game.start.sum(axis=1), game.start.sum(axis=0)]), game.moves
    return Layout(
        order,
        np.array(parent, np.int32),
        np.array(depth, np.int32),
        np.array(edge, np.int32),
        game.seat[order].astype(np.int32),
        index[order].astype(np.int32),
        move,
        game.gain[order].astype(np.float64),
        game.stake[order].astype(np.float64),
        np.ascontiguousarray(start, np.float64),
        np.ascontiguousarray(moves, np.float64),
        np.stack([2 * game.win - 1, 1 - 2 * game.win.T]),
    )


@njit(cache=True)
def evaluate_independent(lay, sigma, who, best, lanes, first, reply):  # type: ignore[no-untyped-def]
    """(M,) what a seat wins under M strategies, or by its best reply to each.

    Buckets must be independent: then a seat's own buckets tell nothing of the other's, and what
    it believes of them follows from the public moves alone. lanes is M, or None for M = 1, which
    compiles a faster form. reply takes the best reply to the first strategy, at first (B,) of a
    node + own bucket; an empty one is left alone.
    """
    width = 1 if lanes is None else lanes
    deep, buckets = lay.depth.max() + 1, lay.start.shape[1]
    belief = np.zeros((deep, buckets, width))  # chance and the other let its buckets come
    held = np.zeros(deep, np.int32)  # the depth at which a node's belief is kept
    value = np.zeros((deep, buckets, width))  # counterfactual, by own bucket
    spare, here = np.zeros((buckets, width)), np.zeros(deep, np.int32)
    for k in range(buckets):
        belief[0, k] = lay.start[1 - who, k]
    for i in range(len(lay.node)):
        d = lay.depth[i]
        here[d] = i
        if d > 0:
            held[d], above = held[d - 1], here[d - 1]
            if lay.seat[above] == 1 - who:
                _choose(belief, d, held[d], sigma, lay.row[above], lay.edge[i], width)
                held[d] = d
        if lay.move[i] >= 0:
            _mix(belief, d, held[d], lay.moves[lay.move[i]].T, spare, width)
            held[d] = d
        if lay.seat[i] >= 0:
            _fill(value, d, -np.inf if best and lay.seat[i] == who else 0.0, width)
            continue
        gain = lay.gain[i] if who == 0 else -lay.gain[i]
        _pay(belief, held[d], value, d, gain, lay.stake[i], lay.pay, who, spare, width)
        after = lay.depth[i + 1] if i + 1 < len(lay.node) else 1
        for d in range(lay.depth[i], after - 1, -1):  # these nodes have no more children
            above, child = here[d - 1], here[d]
            if lay.move[child] >= 0:
                _mix(value, d, d, lay.moves[lay.move[child]], spare, width)
            if lay.seat[above] != who:
                _add(value, d, width)
            elif best:
                _most(value, d, reply, first[lay.node[above]], lay.edge[child], width)
            else:
                _choose(value, d, d, sigma, lay.row[above], lay.edge[child], width)
                _add(value, d, width)
    worth = np.zeros(width)
    for k in range(buckets):
        worth += lay.start[who, k] * value[0, k]
    return worth


@njit(cache=True, inline="always")
def _choose(table, d, source, sigma, row, action, width):  # type: ignore[no-untyped-def]
    """Multiply by the probability of an action: a table's entry at depth d from the source's."""
    for k in range(table.shape[1]):
        for m in range(width):
            table[d, k, m] = table[source, k, m] * sigma[row, action, k, m]


@njit(cache=True, inline="always")
def _mix(table, d, source, weight, spare, width):  # type: ignore[no-untyped-def]
    """Multiply by a matrix (K, K) from the left: a table's entry at depth d from the source's."""
    for k in range(table.shape[1]):
        for m in range(width):
            spare[k, m] = 0
        for j in range(table.shape[1]):
            p = weight[k, j]
            for m in range(width):
                spare[k, m] += p * table[source, j, m]
    for k in range(table.shape[1]):
        for m in range(width):
            table[d, k, m] = spare[k, m]


@njit(cache=True, inline="always")
def _pay(belief, source, value, d, gain, stake, pay, who, spare, width):  # type: ignore[no-untyped-def]
    """The value of an end: what it pays against each bucket that the other may hold."""
    for m in range(width):
        spare[0, m] = 0
    for j in range(belief.shape[1] if gain != 0 else 0):
        for m in range(width):
            spare[0, m] += gain * belief[source, j, m]
    for k in range(belief.shape[1]):
        for m in range(width):
            value[d, k, m] = spare[0, m]
        for j in range(belief.shape[1] if stake != 0 else 0):
            p = stake * pay[who, k, j]
            for m in range(width):
                value[d, k, m] += p * belief[source, j, m]


@njit(cache=True, inline="always")
def _fill(value, d, number, width):  # type: ignore[no-untyped-def]
    for k in range(value.shape[1]):
        for m in range(width):
            value[d, k, m] = number


@njit(cache=True, inline="always")
def _most(value, d, reply, place, action, width):  # type: ignore[no-untyped-def]
    for k in range(value.shape[1] if len(reply) else 0):
        if value[d, k, 0] > value[d - 1, k, 0]:
            reply[place + k] = action
    for k in range(value.shape[1]):
        for m in range(width):
            value[d - 1, k, m] = max(value[d - 1, k, m], value[d, k, m])


@njit(cache=True, inline="always")
def _add(value, d, width):  # type: ignore[no-untyped-def]
    for k in range(value.shape[1]):
        for m in range(width):
            value[d - 1, k, m] += value[d, k, m]
