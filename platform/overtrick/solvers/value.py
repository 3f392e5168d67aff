"""What strategies are worth: expected values, best responses, distance from equilibrium.

A strategy sigma is (N, A) float64 for all seats at once: each information set belongs to one
seat, its row sums to 1 and is 0 where illegal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from overtrick.core import Array, Mixed
from overtrick.solvers.tree import Tree


def sigma_of(tree: Tree, policies: Sequence[Mixed]) -> Array:
    """The strategy (N, A) of policies that sit in seats 0, 1, ..."""
    sigma = np.empty(tree.legal.shape)
    for seat, policy in enumerate(policies):
        rows = tree.turn.seat == seat
        sigma[rows] = policy.probs(tree.turn)[rows]
    return sigma


def expected(tree: Tree, sigma: Array) -> Array:
    """(S,) points that each seat wins on average when all play sigma."""
    values = _values(tree.parent, _edge_probability(tree, sigma), tree.gain)
    return values[0]


def reach(tree: Tree, sigma: Array) -> Array:
    """(V, S + 1) probability that each seat's own choices allow a node; chance in the last."""
    return _reach(tree.parent, tree.seat, _edge_probability(tree, sigma), tree.seats)


def best_response(tree: Tree, sigma: Array, seat: int) -> tuple[float, Array]:
    """The most that a seat can win when the others keep to sigma, and how.

    Returns the value in points and sigma with the seat's rows replaced by a pure best reply
    (the first of equals; where the others never let it come, its first legal action). Works
    up from the seat's last decisions to its first, which perfect recall makes sound.
    """
    reply = sigma.copy()
    own = tree.turn.seat == seat
    reply[own] = 0
    reply[np.flatnonzero(own), tree.legal[own].argmax(axis=1)] = 1
    others = _others(reach(tree, sigma), seat)
    for stage in range(int(tree.stage[own].max(initial=-1)), -1, -1):
        gains = action_values(tree, reply, others, seat)
        rows = np.flatnonzero(own & (tree.stage == stage))
        best = np.where(tree.legal[rows], gains[rows], -np.inf).argmax(axis=1)
        reply[rows] = 0
        reply[rows, best] = 1
    return float(expected(tree, reply)[seat]), reply


def action_values(tree: Tree, sigma: Array, others: Array, seat: int) -> Array:
    """(N, A) counterfactual value of each action of a seat, all continuing with sigma.

    others (V,) is the probability that everyone else, chance included, lets a node come.
    """
    values = _values(tree.parent, _edge_probability(tree, sigma), tree.gain)
    above = tree.parent[1:]
    mine = np.flatnonzero(tree.seat[above] == seat) + 1
    cell = tree.infoset[tree.parent[mine]] * tree.legal.shape[1] + tree.edge[mine]
    weight = others[tree.parent[mine]] * values[mine, seat]
    return np.bincount(cell, weight, minlength=tree.legal.size).reshape(tree.legal.shape)


def gradient(tree: Tree, sigma: Array, seat: int) -> tuple[Array, Array]:
    """How a seat's value depends on its own strategy, exactly.

    Returns (N,) the probability of coming to each information set of the seat, and (N, A) the
    advantage of each action there (points above the set's own value), both 0 at other seats'.
    The sum of come x sigma' x advantage over the table is the first-order change of the value
    from sigma to sigma' (the policy gradient theorem, without sampling).
    """
    own_reach = reach(tree, sigma)
    others = _others(own_reach, seat)
    acts = np.flatnonzero(tree.seat == seat)
    arrive = np.bincount(
        tree.infoset[acts], others[acts], minlength=tree.infosets
    )  # by the others' choices alone
    mine = np.zeros(tree.infosets)
    mine[tree.infoset[acts]] = own_reach[acts, seat]
    gains = action_values(tree, sigma, others, seat)
    gains = gains / np.where(arrive > 0, arrive, 1)[:, None]
    advantage = gains - (sigma * gains).sum(axis=1, keepdims=True)
    own = (tree.turn.seat == seat) & (arrive > 0)
    return np.where(own, arrive * mine, 0), np.where(own[:, None] & tree.legal, advantage, 0)


def nash_conv(tree: Tree, sigma: Array) -> float:
    """Sum over the seats of what a best response gains over sigma; 0 at an equilibrium."""
    values = expected(tree, sigma)
    return sum(best_response(tree, sigma, s)[0] - float(values[s]) for s in range(tree.seats))


def exploitability(tree: Tree, sigma: Array) -> float:
    """NashConv a seat, as OpenSpiel has it."""
    return nash_conv(tree, sigma) / tree.seats


def _edge_probability(tree: Tree, sigma: Array) -> Array:
    """(V,) probability of the edge into each node under sigma or chance."""
    probability = tree.chance.copy()
    chosen = np.flatnonzero(tree.seat[tree.parent] >= 0)
    chosen = chosen[chosen > 0]  # nothing leads to the root
    probability[chosen] = sigma[tree.infoset[tree.parent[chosen]], tree.edge[chosen]]
    return probability


def _others(reached: Array, seat: int) -> Array:
    return np.delete(reached, seat, axis=1).prod(axis=1)


@njit(cache=True)
def _values(parent, probability, gain):  # type: ignore[no-untyped-def]
    values = gain.copy()
    for node in range(len(parent) - 1, 0, -1):
        for seat in range(values.shape[1]):
            values[parent[node], seat] += probability[node] * values[node, seat]
    return values


@njit(cache=True)
def _reach(parent, seat, probability, seats):  # type: ignore[no-untyped-def]
    reached = np.ones((len(parent), seats + 1))
    for node in range(1, len(parent)):
        above = parent[node]
        reached[node] = reached[above]
        # chance is -1 and so the last column
        reached[node, seat[above]] *= probability[node]
    return reached
