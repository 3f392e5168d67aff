"""What strategies are worth: expected values, best responses, distance from equilibrium.

A strategy sigma is (N, A) float64 for all seats at once: each information set belongs to one
seat, its row sums to 1 and is 0 where illegal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from overtrick.core import CHANCE, Array, BehaviouralPolicy, UserError
from overtrick.solvers.extensive.traversal import (
    fill_realisation_plan,
    others_reach,
    realisation_plan,
)
from overtrick.solvers.extensive.tree import Tree


def sigma_of(tree: Tree, policies: Sequence[BehaviouralPolicy]) -> Array:
    """The strategy (N, A) of policies that sit in seats 0, 1, ...

    Raises UserError if what they say of this tree's information sets is no strategy.
    """
    sigma = np.zeros(tree.legal.shape)
    for seat, policy in enumerate(policies):
        probs = policy.probs(tree.observations)
        # a table of a larger game would answer too
        for answer in (probs, getattr(policy, "sigma", probs)):
            tree.demand(answer)
        rows = tree.observations.seat == seat
        sigma[rows] = probs[rows]
    check_strategy(tree, sigma)
    return sigma


def check_policy(tree: Tree, policy: BehaviouralPolicy, name: str) -> None:
    """Raise UserError, naming the policy, unless it is a strategy of this tree in every seat."""
    try:
        sigma_of(tree, [policy] * tree.seats)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def check_strategy(tree: Tree, sigma: Array) -> None:
    """Raise UserError unless sigma is a strategy of this tree: (N, A), rows of probabilities."""
    sums = np.bincount(tree.owner, tree.flat(sigma), minlength=tree.infosets)
    wrong = ~(np.abs(sums - 1) < 1e-5) | ((sigma < 0) | ((sigma != 0) & ~tree.legal)).any(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"row {row} of a strategy must be probabilities of legal actions with sum 1, "
            f"not {sigma[row].tolist()}"
        )


def expected(tree: Tree, sigma: Array) -> Array:
    """(S,) points that each seat wins on average when all play sigma."""
    return _expected(tree.walk, tree.chance, tree.gain, tree.flat(sigma))


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
    up from the seat's last decisions to its first, which perfect recall makes sound. Raises
    UserError if sigma is no strategy of this tree.
    """
    if not 0 <= seat < tree.seats:
        raise UserError(f"there is no seat {seat}: it must be 0 to {tree.seats - 1}")
    check_strategy(tree, sigma)
    flat = tree.flat(sigma)
    worth, best = _best_response(tree, flat, realisation_plan(tree, flat), seat)
    reply = flat.copy()
    reply[tree.observations.seat[tree.owner] == seat] = 0
    reply[best[tree.observations.seat == seat]] = 1
    return worth, tree.table(reply)


def _best_response(tree: Tree, flat: Array, realised: Array, seat: int) -> tuple[float, Array]:
    """A best reply's value, and (N,) the place of the best action of each information set."""
    best = np.arange(len(flat))
    worth = _respond(
        tree.stages[seat], tree.chance, tree.gains[seat], flat, realised, tree.start, seat, best
    )
    return float(worth), best[tree.start[:-1]]


def counterfactual_values(tree: Tree, sigma: Array, others: Array, seat: int) -> Array:
    """(N, A) counterfactual value of each action of a seat, all continuing with sigma.

    others (V,) is the probability that everyone else, chance included, lets a node come.
    """
    probability = edge_probability(tree, sigma)
    return _action_values(
        tree.parent, tree.edge, tree.seat, tree.infoset, probability,
        tree.gains[seat], others, seat, *tree.legal.shape,
    )  # fmt: skip


def policy_gradient(tree: Tree, sigma: Array, seat: int) -> tuple[Array, Array]:
    """How a seat's value depends on its own strategy, exactly.

    Returns (N,) the probability of coming to each information set of the seat, and (N, A) the
    advantage of each action there (points above the set's own value), both 0 at other seats'.
    The sum of come x sigma' x advantage over the table is the first-order change of the value
    from sigma to sigma' (the policy gradient theorem, without sampling).
    """
    acts = np.flatnonzero(tree.seat == seat)
    come = np.bincount(tree.infoset[acts], reach(tree, sigma)[acts], minlength=tree.infosets)
    gains, arrives = conditional_action_values(tree, sigma, seat)
    advantage = gains - (sigma * gains).sum(axis=1, keepdims=True)
    own = (tree.observations.seat == seat) & arrives
    return np.where(own, come, 0), np.where(own[:, None] & tree.legal, advantage, 0)


def conditional_action_values(tree: Tree, sigma: Array, seat: int) -> tuple[Array, Array]:
    """What each action of a seat brings where it has come to, all continuing with sigma.

    Returns (N, A) points from there on, and (N,) bool where the others' choices, chance included,
    let the seat come at all; elsewhere the points are 0.
    """
    others = reach(tree, sigma, without=seat)
    acts = np.flatnonzero(tree.seat == seat)
    arrive = np.bincount(tree.infoset[acts], others[acts], minlength=tree.infosets)
    gains = counterfactual_values(tree, sigma, others, seat)
    return gains / np.where(arrive > 0, arrive, 1)[:, None], arrive > 0


def nash_conv(tree: Tree, sigma: Array) -> float:
    """Sum over the seats of what a best response gains over sigma; 0 at an equilibrium.

    Raises UserError if sigma is no strategy of this tree.
    """
    check_strategy(tree, sigma)
    flat = tree.flat(sigma)
    realised = realisation_plan(tree, flat)
    values = _expected(tree.walk, tree.chance, tree.gain, flat)
    best = [_best_response(tree, flat, realised, seat)[0] for seat in range(tree.seats)]
    return sum(b - float(v) for b, v in zip(best, values, strict=True))


def expected_batch(tree: Tree, sigmas: Array) -> Array:
    """(M, S) points of each seat under each of M strategies (M, N, A)."""
    return _expecteds(tree.walk, tree.chance, tree.gain, tree.flat(sigmas))


def nash_conv_batch(tree: Tree, sigmas: Array) -> Array:
    """(M,) NashConv of M strategies (M, N, A) in one call; what they are is not checked."""
    return _nash_convs(
        tree.walk, tree.stages, tree.chance, tree.gain, tree.gains, tree.flat(sigmas),
        tree.order, tree.start, tree.past,
    )  # fmt: skip


def exploitability(tree: Tree, sigma: Array) -> float:
    """NashConv a seat, as OpenSpiel has it."""
    return nash_conv(tree, sigma) / tree.seats


def edge_probability(tree: Tree, sigma: Array) -> Array:
    """(V,) probability of the edge into each node under sigma or chance; 1 for the root."""
    tree.demand(sigma)
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
def _nash_convs(walk, stages, chance, gain, gains, flats, rows, start, past):  # type: ignore[no-untyped-def]
    gaps = np.zeros(len(flats))
    realised = np.ones(1 + flats.shape[1])
    for m in range(len(flats)):
        fill_realisation_plan(rows, start, past, flats[m], realised)
        values = _expected(walk, chance, gain, flats[m])
        for who in range(len(gains)):
            best = np.arange(flats.shape[1])
            worth = _respond(stages[who], chance, gains[who], flats[m], realised, start, who, best)
            gaps[m] += worth - values[who]
    return gaps


@njit(cache=True)
def _expecteds(walk, chance, gain, flats):  # type: ignore[no-untyped-def]
    values = np.empty((len(flats), gain.shape[1]))
    for m in range(len(flats)):
        values[m] = _expected(walk, chance, gain, flats[m])
    return values


@njit(cache=True)
def _expected(walk, chance, gain, flat):  # type: ignore[no-untyped-def]
    value = gain.copy()
    for i in range(len(walk.node)):
        shift = walk.start[i] - walk.first[i]
        for child in range(walk.first[i], walk.last[i]):
            p = chance[child] if walk.mover[i] == CHANCE else flat[child + shift]
            for seat in range(gain.shape[1]):
                value[walk.node[i], seat] += p * value[child, seat]
    return value[0]


@njit(cache=True)
def _respond(stages, chance, gain, flat, realised, start, who, best):  # type: ignore[no-untyped-def]
    """The value of a best reply; best (L,) names its action at each information set's start."""
    walk = stages.walk
    value = gain.copy()
    worth = np.zeros(len(flat))  # counterfactual value of each action of the seat
    begin, row_begin = 0, 0
    for group in range(len(stages.ends)):
        end = stages.ends[group]
        if group % 2 == 0:
            for i in range(begin, end):
                shift = walk.start[i] - walk.first[i]
                for child in range(walk.first[i], walk.last[i]):
                    p = chance[child] if walk.mover[i] == CHANCE else flat[child + shift]
                    value[walk.node[i]] += p * value[child]
        else:
            for i in range(begin, end):
                others = others_reach(walk, realised, i, who)
                shift = walk.start[i] - walk.first[i]
                for child in range(walk.first[i], walk.last[i]):
                    worth[child + shift] += others * value[child]
            row_end = stages.row_ends[group // 2]
            for row in stages.rows[row_begin:row_end]:
                for place in range(start[row] + 1, start[row + 1]):
                    if worth[place] > worth[best[start[row]]]:
                        best[start[row]] = place
            for i in range(begin, end):
                child = walk.first[i] + best[walk.start[i]] - walk.start[i]
                value[walk.node[i]] += value[child]
            row_begin = row_end
        begin = end
    return value[0]


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
