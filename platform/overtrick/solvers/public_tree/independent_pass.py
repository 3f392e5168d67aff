"""Values of strategies on a bucketed game with independent buckets, in one depth-first pass.

A bucketed game has public actions, and each seat privately holds one of K buckets of hands. In each
betting round chance draws new buckets. Buckets are independent if chance draws each seat's new
bucket given this seat's previous bucket only. The pass keeps in memory only the nodes between the
root and the current node, so that its arrays fit in the L1 cache.

An abstract public state is a set of public nodes that share their information sets. Each of the N
information sets is a pair of an abstract public state and a bucket. M strategy profiles are
evaluated in parallel, as an array (N / K, A, K, M) by abstract public state, action, bucket and
profile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, BucketedGame


class Layout(NamedTuple):
    """Arrays of a bucketed game for the compiled functions; public nodes are in preorder."""

    node: Array  # (B,) number of the node in the BucketedGame
    parent: Array  # (B,) position of the parent in this order, -1 for the root
    depth: Array  # (B,)
    edge: Array  # (B,) action on the edge into the node
    seat: Array  # (B,) seat that acts, negative at an end
    row: Array  # (B,) abstract public state, as a number from 0; -1 at an end
    move: Array  # (B,) index in `moves` of the bucket transition before the node, -1 for none
    gain: Array  # (B,)
    stake: Array  # (B,)
    start: Array  # (2, K) probability of each seat's first bucket; joint (2, K, K), own first
    moves: Array  # (rounds - 1, K, K); joint (2, rounds - 1, K, K, K, K), own buckets first
    pay: Array  # (2, K, K) each seat's payoff of a showdown for a stake of 1, own bucket first


def make_layout(game: BucketedGame, index: Array) -> Layout:
    """Return a bucketed game's arrays for the compiled functions, with public nodes in preorder.

    `index` (B,): abstract public state of each public node of `game`, -1 at terminal nodes. An
    abstract public state is a set of public nodes that share their information sets.
    """
    node: list[int] = []
    parent: list[int] = []
    depth: list[int] = []
    edge: list[int] = []
    stack = [(0, -1, 0, 0)]
    while stack:
        current, above, deep, action = stack.pop()
        stack += [
            (int(game.after[current, a]), len(node), deep + 1, a)
            for a in np.flatnonzero(game.after[current] >= 0)[::-1]
        ]
        node.append(current)
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
def evaluate_independent(lay, sigma, seat, best, strategies, first, reply):  # type: ignore[no-untyped-def]
    """Return (M,) the expected points of `seat`, or its best-response values if `best`.

    M strategy profiles are evaluated in parallel. With `best` the seat plays a best response to
    each of them. The function makes one depth-first pass over the public tree of a bucketed game.
    Chance must draw each seat's buckets independently of the other seat's.

    - `lay`: Layout of the game, with B public nodes and K buckets of each seat
    - `sigma` (N / K, A, K, M): strategies by abstract public state, action, bucket and profile. An
      abstract public state is a set of public nodes that share their information sets.
    - `strategies`: M; pass None for a single profile, which is faster
    - `first` (B,): offset of each public node in `reply`
    - `reply`: output, the actions of the best response to the first profile. The action at public
      node b with bucket k is reply[first[b] + k]. The array is not written if it is empty or `best`
      is false.
    """
    width = 1 if strategies is None else strategies
    levels, buckets = lay.depth.max() + 1, lay.start.shape[1]
    belief = np.zeros((levels, buckets, width))  # reach of the other seat's buckets
    belief_depth = np.zeros(levels, np.int32)  # index in `belief` of each depth's current belief
    value = np.zeros((levels, buckets, width))  # counterfactual, by own bucket
    scratch, node_at = np.zeros((buckets, width)), np.zeros(levels, np.int32)
    for k in range(buckets):
        belief[0, k] = lay.start[1 - seat, k]
    for i in range(len(lay.node)):
        d = lay.depth[i]
        node_at[d] = i
        if d > 0:
            belief_depth[d], above = belief_depth[d - 1], node_at[d - 1]
            if lay.seat[above] == 1 - seat:
                _multiply_probability(
                    belief, d, belief_depth[d], sigma, lay.row[above], lay.edge[i], width
                )
                belief_depth[d] = d
        if lay.move[i] >= 0:
            _multiply_matrix(belief, d, belief_depth[d], lay.moves[lay.move[i]].T, scratch, width)
            belief_depth[d] = d
        if lay.seat[i] >= 0:
            _fill_value(value, d, -np.inf if best and lay.seat[i] == seat else 0.0, width)
            continue
        gain = lay.gain[i] if seat == 0 else -lay.gain[i]
        _terminal_value(
            belief, belief_depth[d], value, d, gain, lay.stake[i], lay.pay, seat, scratch, width
        )
        next_depth = lay.depth[i + 1] if i + 1 < len(lay.node) else 1
        for d in range(lay.depth[i], next_depth - 1, -1):  # all children of these nodes are done
            above, child = node_at[d - 1], node_at[d]
            if lay.move[child] >= 0:
                _multiply_matrix(value, d, d, lay.moves[lay.move[child]], scratch, width)
            if lay.seat[above] != seat:
                _add_to_parent(value, d, width)
            elif best:
                _max_into_parent(value, d, reply, first[lay.node[above]], lay.edge[child], width)
            else:
                _multiply_probability(value, d, d, sigma, lay.row[above], lay.edge[child], width)
                _add_to_parent(value, d, width)
    worth = np.zeros(width)
    for k in range(buckets):
        worth += lay.start[seat, k] * value[0, k]
    return worth


@njit(cache=True, inline="always")
def _multiply_probability(table, d, source, sigma, row, action, width):  # type: ignore[no-untyped-def]
    """Set table[d] = table[source] x sigma[row, action], for M strategy profiles in parallel.

    - `table` (depths, K, M): reach probabilities or counterfactual values, by depth in the public
      tree, bucket and profile
    - `d`, `source`: depth to write, and depth to read
    - `sigma` (states, A, K, M): strategies by abstract public state, action, bucket and profile. An
      abstract public state is a set of public nodes that share their information sets.
    - `row`, `action`: abstract public state, and action taken there
    - `width`: number of profiles, M
    """
    for k in range(table.shape[1]):
        for m in range(width):
            table[d, k, m] = table[source, k, m] * sigma[row, action, k, m]


@njit(cache=True, inline="always")
def _multiply_matrix(table, d, source, weight, scratch, width):  # type: ignore[no-untyped-def]
    """Set table[d] = weight @ table[source], a product of matrices (K, K) and (K, M).

    - `table` (depths, K, M): reach probabilities or counterfactual values, by depth in the public
      tree, bucket and strategy profile
    - `d`, `source`: depth to write, and depth to read
    - `weight` (K, K): bucket transition probabilities, transposed for reach probabilities
    - `scratch` (K, M): overwritten
    - `width`: number of profiles, M
    """
    for k in range(table.shape[1]):
        for m in range(width):
            scratch[k, m] = 0
        for j in range(table.shape[1]):
            p = weight[k, j]
            for m in range(width):
                scratch[k, m] += p * table[source, j, m]
    for k in range(table.shape[1]):
        for m in range(width):
            table[d, k, m] = scratch[k, m]


@njit(cache=True, inline="always")
def _terminal_value(belief, source, value, d, gain, stake, pay, seat, scratch, width):  # type: ignore[no-untyped-def]
    """Set `value[d]` (K, M) to the counterfactual value of each own bucket at a terminal node.

    M strategy profiles are evaluated in parallel. The counterfactual value is the sum of payoff x
    reach probability over the other seat's buckets. The payoff is `gain` + `stake` x pay[seat].

    - `belief` (depths, K, M): unnormalised reach probabilities of the other seat's buckets, by
      depth in the public tree, bucket and profile
    - `source`: depth at which to read `belief`. It can be less than `d`, because `belief` is stored
      only at depths where it changes.
    - `value` (depths, K, M): output, by depth, own bucket and profile
    - `d`: depth of the terminal node
    - `gain`: payoff of `seat` after a fold; 0 at a showdown
    - `stake`: points that the winner of a showdown gains; 0 after a fold
    - `pay` (2, K, K): each seat's showdown payoff for a stake of 1, by own and other seat's bucket
    - `scratch` (K, M): overwritten
    - `width`: number of profiles, M
    """
    for m in range(width):
        scratch[0, m] = 0
    for j in range(belief.shape[1] if gain != 0 else 0):
        for m in range(width):
            scratch[0, m] += gain * belief[source, j, m]
    for k in range(belief.shape[1]):
        for m in range(width):
            value[d, k, m] = scratch[0, m]
        for j in range(belief.shape[1] if stake != 0 else 0):
            p = stake * pay[seat, k, j]
            for m in range(width):
                value[d, k, m] += p * belief[source, j, m]


@njit(cache=True, inline="always")
def _fill_value(value, d, fill, width):  # type: ignore[no-untyped-def]
    for k in range(value.shape[1]):
        for m in range(width):
            value[d, k, m] = fill


@njit(cache=True, inline="always")
def _max_into_parent(value, d, reply, place, action, width):  # type: ignore[no-untyped-def]
    for k in range(value.shape[1] if len(reply) else 0):
        if value[d, k, 0] > value[d - 1, k, 0]:
            reply[place + k] = action
    for k in range(value.shape[1]):
        for m in range(width):
            value[d - 1, k, m] = max(value[d - 1, k, m], value[d, k, m])


@njit(cache=True, inline="always")
def _add_to_parent(value, d, width):  # type: ignore[no-untyped-def]
    for k in range(value.shape[1]):
        for m in range(width):
            value[d - 1, k, m] += value[d, k, m]
