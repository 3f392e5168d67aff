"""Values of strategies on a bucketed game in which chance draws both seats' buckets jointly.

A bucketed game has public actions, and each seat privately holds one of K buckets of hands. In each
betting round chance draws a new pair of buckets, given the pair of the previous round. A seat's own
earlier buckets therefore carry information about the other seat's bucket. For this reason
counterfactual values are computed with perfect recall of buckets: one value for each sequence of
the seat's own buckets, from the first round to the current round. These names recur:

- `table[round, other, own, past]`: counterfactual reach probability at the start of a betting
  round. `other` and `own` are the buckets of the other seat and of the seat itself in this round.
- `past`: number of the sequence of own buckets in the earlier rounds. It is the sum of bucket_r x
  K^r over the earlier rounds r.
- `reach[depth, other]`: probability of the other seat's actions since the start of the round, if it
  holds bucket `other`. `depth` is the depth of a node in the public tree.

The counterfactual reach probability of a public node is the product of `table` and `reach`.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def evaluate_joint(lay, sigma, seat, best, first, reply):  # type: ignore[no-untyped-def]
    """Return the expected points of `seat` under sigma, or its best-response value if `best`.

    The function makes one depth-first pass over the public tree of a bucketed game. In each betting
    round chance draws both seats' buckets jointly, given the buckets of the previous round.

    - `lay`: Layout of the game, with B public nodes and K buckets of each seat
    - `sigma` (N / K, A, K): strategy by abstract public state, action and bucket. An abstract
      public state is a set of public nodes that share their information sets.
    - `first` (B,): offset of each public node in `reply`
    - `reply`: output, the actions of the best response. The best response has perfect recall of own
      buckets: its action at public node b is reply[first[b] + h], where h is the number of the
      sequence of own buckets (see IndexedGame.states). The array is not written if it is empty or
      `best` is false.
    """
    levels, buckets = lay.depth.max() + 1, lay.pay.shape[1]
    rounds = lay.moves.shape[1] + 1
    size = buckets ** (rounds - 1)
    table = np.zeros((rounds, buckets, buckets, size))  # other's bucket, own, earlier own buckets
    reach = np.ones((levels, buckets))  # other seat's action probabilities of this round, by bucket
    value = np.zeros((levels, buckets, size))  # counterfactual
    node_at, stage = np.zeros(levels, np.int32), np.zeros(levels, np.int32)
    table[0, :, :, 0] = lay.start[seat].T
    for i in range(len(lay.node)):
        d = lay.depth[i]
        node_at[d] = i
        if d > 0:
            above, stage[d], reach[d] = node_at[d - 1], stage[d - 1], reach[d - 1]
            if lay.seat[above] == 1 - seat:
                reach[d] *= sigma[lay.row[above], lay.edge[i]]
        if lay.move[i] >= 0:
            _next_round(table, stage[d], reach[d], lay.moves[seat, lay.move[i]])
            reach[d] = 1
            stage[d] += 1
        if lay.seat[i] >= 0:
            value[d] = -np.inf if best and lay.seat[i] == seat else 0.0
            continue
        gain = lay.gain[i] if seat == 0 else -lay.gain[i]
        payoff = (gain + lay.stake[i] * lay.pay[seat]) * reach[d]
        _terminal_value(table[stage[d]], payoff, value[d], buckets ** stage[d])
        next_depth = lay.depth[i + 1] if i + 1 < len(lay.node) else 1
        for d in range(lay.depth[i], next_depth - 1, -1):  # all children of these nodes are done
            above, child = node_at[d - 1], node_at[d]
            size = buckets ** stage[d - 1]
            if lay.move[child] >= 0:
                _sum_latest_bucket(value[d], size)
            if lay.seat[above] == seat and best:
                slot = reply[first[lay.node[above]] :]
                _max_into_parent(value[d - 1], value[d], size, slot, lay.edge[child])
            elif lay.seat[above] == seat:
                _add_to_parent(value[d - 1], value[d], size, sigma[lay.row[above], lay.edge[child]])
            else:
                _add_to_parent(value[d - 1], value[d], size, np.ones(buckets))
    return value[0, :, 0].sum()


@njit(cache=True)
def _next_round(table, stage, reach, move):  # type: ignore[no-untyped-def]
    """Compute the counterfactual reach probabilities at the start of the next betting round.

    - `table` (rounds, K, K, n): counterfactual reach probabilities at the start of each round, as
      table[round, other seat's bucket, own bucket, sequence of own earlier buckets]. The output
      is table[stage + 1].
    - `stage`: number of the current round, from 0
    - `reach` (K,): probability of the other seat's actions in the current round, for each of its
      buckets
    - `move` (K, K, K, K): transition probabilities of both buckets, as move[own, other seat's, next
      own, next other seat's]
    """
    buckets = len(reach)
    size = buckets**stage
    table[stage + 1] = 0
    for k in range(buckets):
        for j in range(buckets):
            for own in range(buckets):
                for other in range(buckets):
                    p = reach[j] * move[k, j, own, other]
                    for past in range(size):
                        table[stage + 1, other, own, k * size + past] += (
                            p * table[stage, j, k, past]
                        )


@njit(cache=True)
def _terminal_value(table, payoff, value, size):  # type: ignore[no-untyped-def]
    """Set `value` to counterfactual values at a terminal node, by sequence of own buckets.

    - `table` (K, K, n): counterfactual reach probabilities at the start of the betting round, as
      table[other seat's bucket, own bucket, sequence of own earlier buckets]
    - `payoff` (K, K): payoff x probability of the other seat's actions in this round, as payoff[own
      bucket, other seat's bucket]
    - `value` (K, n): output, as value[own bucket, sequence of own earlier buckets]
    - `size`: number of sequences of own earlier buckets; only the first `size` columns are used
    """
    for k in range(len(payoff)):
        value[k, :size] = 0
        for j in range(len(payoff)):
            p = payoff[k, j]
            for past in range(size):
                value[k, past] += p * table[j, k, past]


@njit(cache=True)
def _sum_latest_bucket(value, size):  # type: ignore[no-untyped-def]
    """Back up counterfactual values from the start of a betting round to the round before.

    The values are summed over the own bucket of the later round, in place.

    - `value` (K, n): counterfactual values, as value[own bucket, sequence of own earlier buckets].
      The own bucket is that of the later round before the call, and that of the earlier round after
      the call.
    - `size`: number of columns of `value` that are used after the call
    """
    buckets = len(value)
    summed = np.zeros(buckets * size)
    for own in range(buckets):
        for q in range(buckets * size):
            summed[q] += value[own, q]
    for k in range(buckets):
        for past in range(size):
            value[k, past] = summed[k * size + past]


@njit(cache=True)
def _max_into_parent(above, value, size, reply, action):  # type: ignore[no-untyped-def]
    for k in range(len(value)):
        for past in range(size if len(reply) else 0):
            if value[k, past] > above[k, past]:
                reply[k * size + past] = action
        for past in range(size):
            above[k, past] = max(above[k, past], value[k, past])


@njit(cache=True)
def _add_to_parent(above, value, size, weight):  # type: ignore[no-untyped-def]
    for k in range(len(value)):
        p = weight[k]
        for past in range(size):
            above[k, past] += p * value[k, past]
