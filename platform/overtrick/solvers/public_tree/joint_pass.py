"""The pass over the public moves of Chains whose buckets chance moves jointly.

Its own buckets so far tell a seat of the other's, so tables have an entry for each own history:
the latest bucket, and a number of the earlier ones, `past`. The other's choices within a round
only scale the columns of the table with which the round began.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def evaluate_joint(lay, sigma, who, best, first, reply):  # type: ignore[no-untyped-def]
    """What a seat wins under one strategy (N / K, A, K), or by its best reply to it.

    reply takes the best reply, at first (B,) of a node + own history; an empty one is left alone.
    """
    deep, buckets = lay.depth.max() + 1, lay.pay.shape[1]
    rounds = lay.moves.shape[1] + 1
    most = buckets ** (rounds - 1)
    table = np.zeros((rounds, buckets, buckets, most))  # the other's bucket, own, past
    chosen = np.ones((deep, buckets))  # the other's choices in this round, by its bucket
    value = np.zeros((deep, buckets, most))  # counterfactual
    here, stage = np.zeros(deep, np.int32), np.zeros(deep, np.int32)
    table[0, :, :, 0] = lay.start[who].T
    for i in range(len(lay.node)):
        d = lay.depth[i]
        here[d] = i
        if d > 0:
            above, stage[d], chosen[d] = here[d - 1], stage[d - 1], chosen[d - 1]
            if lay.seat[above] == 1 - who:
                chosen[d] *= sigma[lay.row[above], lay.edge[i]]
        if lay.move[i] >= 0:
            _deal(table, stage[d], chosen[d], lay.moves[who, lay.move[i]])
            chosen[d] = 1
            stage[d] += 1
        if lay.seat[i] >= 0:
            value[d] = -np.inf if best and lay.seat[i] == who else 0.0
            continue
        gain = lay.gain[i] if who == 0 else -lay.gain[i]
        _pay(table[stage[d]], (gain + lay.stake[i] * lay.pay[who]) * chosen[d], value[d],
             buckets ** stage[d])  # fmt: skip
        after = lay.depth[i + 1] if i + 1 < len(lay.node) else 1
        for d in range(lay.depth[i], after - 1, -1):  # these nodes have no more children
            above, child = here[d - 1], here[d]
            size = buckets ** stage[d - 1]
            if lay.move[child] >= 0:
                _forget(value[d], size)
            if lay.seat[above] == who and best:
                spot = reply[first[lay.node[above]] :]
                _most(value[d - 1], value[d], size, spot, lay.edge[child])
            elif lay.seat[above] == who:
                _add(value[d - 1], value[d], size, sigma[lay.row[above], lay.edge[child]])
            else:
                _add(value[d - 1], value[d], size, np.ones(buckets))
    return value[0, :, 0].sum()


@njit(cache=True)
def _deal(table, stage, chosen, move):  # type: ignore[no-untyped-def]
    """The table with which the next round begins; move is (own, other, own after, other after)."""
    buckets = len(chosen)
    size = buckets**stage
    table[stage + 1] = 0
    for k in range(buckets):
        for j in range(buckets):
            for own in range(buckets):
                for other in range(buckets):
                    p = chosen[j] * move[k, j, own, other]
                    for past in range(size):
                        table[stage + 1, other, own, k * size + past] += (
                            p * table[stage, j, k, past]
                        )


@njit(cache=True)
def _pay(table, paid, value, size):  # type: ignore[no-untyped-def]
    """The value of an end that pays (K, K), own bucket first."""
    for k in range(len(paid)):
        value[k, :size] = 0
        for j in range(len(paid)):
            p = paid[k, j]
            for past in range(size):
                value[k, past] += p * table[j, k, past]


@njit(cache=True)
def _forget(value, size):  # type: ignore[no-untyped-def]
    """Sum over the latest bucket: the one before it becomes the latest."""
    buckets = len(value)
    summed = np.zeros(buckets * size)
    for own in range(buckets):
        for q in range(buckets * size):
            summed[q] += value[own, q]
    for k in range(buckets):
        for past in range(size):
            value[k, past] = summed[k * size + past]


@njit(cache=True)
def _most(above, value, size, reply, action):  # type: ignore[no-untyped-def]
    for k in range(len(value)):
        for past in range(size if len(reply) else 0):
            if value[k, past] > above[k, past]:
                reply[k * size + past] = action
        for past in range(size):
            above[k, past] = max(above[k, past], value[k, past])


@njit(cache=True)
def _add(above, value, size, weight):  # type: ignore[no-untyped-def]
    for k in range(len(value)):
        p = weight[k]
        for past in range(size):
            above[k, past] += p * value[k, past]
