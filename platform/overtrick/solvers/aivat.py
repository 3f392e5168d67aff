"""AIVAT: advantage estimates from sampled games, with the variance of chance removed.

Games are sampled on the game tree, for one learning seat. Estimated strategies of all seats give
each node an estimated value for the learning seat. This value changes along a game, at chance
events and at actions. After a decision of the seat, the changes at later chance events and at the
seat's later actions have mean 0, whatever the opponents' true strategies are. AIVAT subtracts these
changes from the decision's return as control variates. The variance falls, and the mean changes
only by a number that is the same for all actions of a decision, so that policy gradients stay
unbiased. Changes of value at the opponents' actions are kept, because their mean depends on the
opponents' true strategies.

Source: Burch et al. 2018, "AIVAT: a new variance reduction technique for agent evaluation in
imperfect information games".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array
from overtrick.solvers.extensive.best_response import edge_probability
from overtrick.solvers.extensive.tree import Tree


@dataclass(frozen=True)
class AivatRollouts:
    """Action counts, AIVAT advantages and returns of sampled games, summed by information set."""

    taken: Array  # (N, A) how often each action was taken, by all seats
    credit: Array  # (N, A) sum of the advantages of the learning seat's decisions
    returns: Array  # (N,) sum of the learning seat's points from each of its decisions onwards
    payoff: float  # sum of the learning seat's points


def sample_rollouts(
    tree: Tree, sigma: Array, estimate: Array, seat: int, games: int, rng: Generator
) -> AivatRollouts:
    """Sample games in which all seats play sigma, and sum the AIVAT advantages of `seat`.

    - `sigma` (N, A): strategy of all seats, at N information sets with A actions
    - `estimate` (N, A): opponent models at the opponents' decisions; it must equal sigma at the
      decisions of `seat`

    The value of a tree node is the expected payoff of `seat` if all seats play `estimate` from
    there. Along a game, each action and each chance event changes this value. The advantage of a
    decision of `seat` is the sum of two terms:

    - the change of value by the chosen action
    - the changes of value by all later actions of the opponents

    Changes by later chance events and by later actions of `seat` have mean 0. They are left out, as
    control variates. For every `estimate` the advantages are unbiased up to a number that does not
    depend on the action, so that policy gradients are unbiased. Better opponent models give a
    smaller variance. The values use all hidden cards of the finished game.
    """
    gain = tree.gains[seat]
    value = _node_values(tree.parent, gain, edge_probability(tree, estimate))
    probability = edge_probability(tree, sigma)
    sums = AivatRollouts(np.zeros(sigma.shape), np.zeros(sigma.shape), np.zeros(tree.infosets), 0.0)
    payoff = _sample(
        tree.first, tree.children, tree.edge, tree.seat, tree.infoset, gain, probability, value,
        seat, games, rng, sums.taken, sums.credit, sums.returns,
    )  # fmt: skip
    return AivatRollouts(sums.taken, sums.credit, sums.returns, payoff)


@njit(cache=True)
def _node_values(parent, gain, edge_prob):  # type: ignore[no-untyped-def]
    """Return (V,) a seat's points on the edge into each node plus its expected later points.

    - `parent` (V,): parent of each of the V tree nodes
    - `gain` (V,): the seat's points on the edge into each node
    - `edge_prob` (V,): probability of the edge into each node
    """
    value = gain.copy()
    for node in range(len(parent) - 1, 0, -1):
        value[parent[node]] += edge_prob[node] * value[node]
    return value


@njit(cache=True)
def _sample(  # type: ignore[no-untyped-def]
    first, children, edge, seat, infoset, gain, probability, value, learner, games, rng,
    taken, credit, returns,
):  # fmt: skip
    payoff = 0.0
    path = [0]
    for _ in range(games):
        node = 0
        path.clear()
        path.append(node)
        while children[node] > 0:
            child, last = first[node], first[node] + children[node] - 1
            left = rng.random()
            while child < last and left >= probability[child]:
                left -= probability[child]
                child += 1
            node = child
            path.append(node)
        points, correction = 0.0, 0.0  # after a decision: points, and value changes by others
        for k in range(len(path) - 1, 0, -1):
            child, node = path[k], path[k - 1]
            change = value[child] - (value[node] - gain[node])
            points += gain[child]
            if seat[node] >= 0:
                row = infoset[node]
                taken[row, edge[child]] += 1
                if seat[node] == learner:
                    credit[row, edge[child]] += change + correction
                    returns[row] += points
                else:
                    correction += change
        payoff += points
    return payoff
