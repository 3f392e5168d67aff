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
    return _values(tree.parent, edge_probability(tree, sigma), tree.gain)[0]


def reach(tree: Tree, sigma: Array, without: int | None = None) -> Array:
    """(V,) probability of reaching each node, as if one seat always played towards it.

    without: the seat whose own choices are left out; None for the plain probability.
    """
    left_out = tree.seats if without is None else without
    return _reach(tree.parent, tree.seat, edge_probability(tree, sigma), left_out)


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
    others = reach(tree, sigma, without=seat)
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
    probability = edge_probability(tree, sigma)
    return _action_values(
        tree.parent, tree.edge, tree.seat, tree.infoset, probability,
        np.ascontiguousarray(tree.gain[:, seat]), others, seat, *tree.legal.shape,
    )  # fmt: skip


def gradient(tree: Tree, sigma: Array, seat: int) -> tuple[Array, Array]:
    """How a seat's value depends on its own strategy, exactly.

    Returns (N,) the probability of coming to each information set of the seat, and (N, A) the
    advantage of each action there (points above the set's own value), both 0 at other seats'.
    The sum of come x sigma' x advantage over the table is the first-order change of the value
    from sigma to sigma' (the policy gradient theorem, without sampling).
    """
    others = reach(tree, sigma, without=seat)
    acts = np.flatnonzero(tree.seat == seat)
    at = tree.infoset[acts]
    arrive = np.bincount(at, others[acts], minlength=tree.infosets)  # by the others' choices
    come = np.bincount(at, reach(tree, sigma)[acts], minlength=tree.infosets)
    gains = action_values(tree, sigma, others, seat)
    gains = gains / np.where(arrive > 0, arrive, 1)[:, None]
    advantage = gains - (sigma * gains).sum(axis=1, keepdims=True)
    own = (tree.turn.seat == seat) & (arrive > 0)
    return np.where(own, come, 0), np.where(own[:, None] & tree.legal, advantage, 0)


def nash_conv(tree: Tree, sigma: Array) -> float:
    """Sum over the seats of what a best response gains over sigma; 0 at an equilibrium."""
    values = expected(tree, sigma)
    return sum(best_response(tree, sigma, s)[0] - float(values[s]) for s in range(tree.seats))


def exploitability(tree: Tree, sigma: Array) -> float:
    """NashConv a seat, as OpenSpiel has it."""
    return nash_conv(tree, sigma) / tree.seats


def edge_probability(tree: Tree, sigma: Array) -> Array:
    """(V,) probability of the edge into each node under sigma or chance; 1 for the root."""
    return _edge_probability(tree.parent, tree.edge, tree.seat, tree.infoset, tree.chance, sigma)


@njit(cache=True)
def _edge_probability(parent, edge, seat, infoset, chance, sigma):  # type: ignore[no-untyped-def]
    probability = chance.copy()
    for node in range(1, len(parent)):
        above = parent[node]
        if seat[above] >= 0:
            probability[node] = sigma[infoset[above], edge[node]]
    return probability


@njit(cache=True)
def _values(parent, probability, gain):  # type: ignore[no-untyped-def]
    values = gain.copy()
    for node in range(len(parent) - 1, 0, -1):
        for seat in range(values.shape[1]):
            values[parent[node], seat] += probability[node] * values[node, seat]
    return values


@njit(cache=True)
def _reach(parent, seat, probability, without):  # type: ignore[no-untyped-def]
    reached = np.ones(len(parent))
    for node in range(1, len(parent)):
        above = parent[node]
        reached[node] = reached[above]
        if seat[above] != without:
            reached[node] *= probability[node]
    return reached


@njit(cache=True)
def _action_values(  # type: ignore[no-untyped-def]
    parent, edge, seat_of, infoset, probability, gain, others, seat, infosets, actions
):
    value = gain.copy()
    out = np.zeros((infosets, actions))
    for node in range(len(parent) - 1, 0, -1):
        above = parent[node]
        if seat_of[above] == seat:
            out[infoset[above], edge[node]] += others[above] * value[node]
        value[above] += probability[node] * value[node]
    return out
