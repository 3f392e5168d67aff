"""Expected values, best responses and NashConv of strategies on a game tree.

A strategy sigma is (N, A) float64: action probabilities at N information sets. It holds the
strategies of all seats, because each information set belongs to one seat. A row sums to 1 and is 0
at illegal actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numba import njit

from overtrick.core import CHANCE, Array, BehaviouralPolicy, UserError
from overtrick.solvers.extensive.traversal_order import fill_plan, others_reach, realisation_plan
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.strategy_check import check_rows


@runtime_checkable
class TablePolicy(Protocol):
    """Policy stored as a strategy table: action probabilities by information set."""

    sigma: Array  # (N, A)


def sigma_of(tree: Tree, policies: Sequence[BehaviouralPolicy]) -> Array:
    """Tabulate the policies of seats 0, 1, ... as one strategy (N, A).

    Raises UserError if the policies' probabilities are not a strategy of this tree.
    """
    sigma = np.zeros(tree.legal.shape)
    for seat, policy in enumerate(policies):
        probs = policy.probs(tree.observations)
        # a strategy table of a larger game would also return probabilities
        for table in (probs, policy.sigma if isinstance(policy, TablePolicy) else probs):
            tree.check_shape(table)
        rows = tree.observations.seat == seat
        sigma[rows] = probs[rows]
    check_strategy(tree, sigma)
    return sigma


def check_policy(tree: Tree, policy: BehaviouralPolicy, name: str) -> None:
    """Raise UserError unless a policy has valid probabilities at all information sets of a tree.

    `name`: the policy's name in the message.
    """
    try:
        sigma_of(tree, [policy] * tree.seats)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None


def check_strategy(tree: Tree, sigma: Array) -> None:
    """Raise UserError unless sigma (N, A) is a strategy of this tree.

    Each row must be probabilities of legal actions with sum 1.
    """
    if sigma.ndim != 2:
        raise UserError(f"a strategy has 2 axes, not {sigma.ndim}")
    tree.check_shape(sigma)
    check_rows(sigma, tree.legal)


def expected(tree: Tree, sigma: Array) -> Array:
    """Return (S,) expected points of each seat when all seats play sigma (N, A)."""
    return _expected(tree.walk, tree.chance, tree.gain, tree.flat(sigma))


def reach(tree: Tree, sigma: Array, without: int | None = None) -> Array:
    """Return (V,) the probability of reaching each node when all seats play sigma (N, A).

    `without`: a seat whose own actions count as if their probability were 1, for the counterfactual
    reach. With None the result is the plain reach probability.
    """
    excluded = tree.seats if without is None else without
    return _reach(tree.parent, tree.seat, edge_probability(tree, sigma), excluded)


def best_response(tree: Tree, sigma: Array, seat: int) -> tuple[float, Array]:
    """Compute a best response of one seat to the other seats' strategies in sigma (N, A).

    Returns the value of the best response in points, and sigma with the seat's rows replaced by the
    pure best response. Ties go to the first action; at information sets that the other seats and
    chance never reach, all actions tie. The computation goes from the seat's last decisions to its
    first, which needs perfect recall. Raises UserError if sigma is not a strategy of this tree.
    """
    if not 0 <= seat < tree.seats:
        raise UserError(f"there is no seat {seat}: it must be 0 to {tree.seats - 1}")
    check_strategy(tree, sigma)
    reply = tree.flat(sigma)
    best = np.arange(len(reply))
    order, gain, plan = tree.response_orders[seat], tree.gains[seat], realisation_plan(tree, reply)
    value = _best_response(order, tree.chance, gain, reply, plan, tree.start, seat, best)
    reply[tree.observations.seat[tree.action_infoset] == seat] = 0
    reply[best[tree.start[:-1]][tree.observations.seat == seat]] = 1
    return float(value), tree.table(reply)


def best_responses(tree: Tree, sigma: Array) -> Array:
    """Return a strategy (N, A) in which every seat best-responds to the others' in sigma (N, A)."""
    found = sigma.copy()
    for seat in range(tree.seats):
        own = tree.observations.seat == seat
        found[own] = best_response(tree, sigma, seat)[1][own]
    return found


def counterfactual_values(tree: Tree, sigma: Array, others: Array, seat: int) -> Array:
    """Return (N, A) counterfactual values of a seat's actions, if the seat then follows sigma.

    `others` (V,) is the counterfactual reach of each node: the probability that chance and the
    other seats lead to it. The values are 0 at the other seats' information sets.
    """
    probability = edge_probability(tree, sigma)
    return _action_values(
        tree.parent, tree.edge, tree.seat, tree.infoset, probability,
        tree.gains[seat], others, seat, *tree.legal.shape,
    )  # fmt: skip


def policy_gradient(tree: Tree, sigma: Array, seat: int) -> tuple[Array, Array]:
    """Compute the exact policy gradient of one seat's value with respect to its own strategy.

    Returns two arrays: (N,) the probability of reaching each information set of the seat, and (N,
    A) the advantage of each action there in points. Both are 0 at other seats' information sets.
    For another strategy sigma', the sum of reach x sigma' x advantage over all entries is the
    first-order change of the value from sigma to sigma' (policy gradient theorem, without
    sampling).
    """
    acts = np.flatnonzero(tree.seat == seat)
    reach_sum = np.bincount(tree.infoset[acts], reach(tree, sigma)[acts], minlength=tree.infosets)
    gains, reached = conditional_action_values(tree, sigma, seat)
    advantage = gains - (sigma * gains).sum(axis=1, keepdims=True)
    own_rows = (tree.observations.seat == seat) & reached
    return np.where(own_rows, reach_sum, 0), np.where(own_rows[:, None] & tree.legal, advantage, 0)


def conditional_action_values(tree: Tree, sigma: Array, seat: int) -> tuple[Array, Array]:
    """Return the expected points of a seat's actions, given that their information set is reached.

    The seat follows sigma (N, A) after the action. Returns (N, A) points, and (N,) bool: whether
    the information set is the seat's own and the other seats and chance can lead to it. Where they
    cannot, the points are 0.
    """
    gains, reach_sum = seat_counterfactual_values(tree, sigma, seat)
    return gains / np.where(reach_sum > 0, reach_sum, 1)[:, None], reach_sum > 0


def seat_counterfactual_values(tree: Tree, sigma: Array, seat: int) -> tuple[Array, Array]:
    """Return the counterfactual values (N, A) of a seat's actions if all seats play sigma (N, A).

    Also returns the counterfactual reach (N,) of the seat's information sets. Both are 0 at those
    of other seats.
    """
    others = reach(tree, sigma, without=seat)
    acts = np.flatnonzero(tree.seat == seat)
    reach_sum = np.bincount(tree.infoset[acts], others[acts], minlength=tree.infosets)
    return counterfactual_values(tree, sigma, others, seat), reach_sum


def nash_conv(tree: Tree, sigma: Array) -> float:
    """Return NashConv in points: the sum over seats of best-response value minus value under sigma.

    NashConv is 0 at an equilibrium. Raises UserError if sigma is not a strategy of this tree.
    """
    check_strategy(tree, sigma)
    return float(nash_conv_batch(tree, sigma[None])[0])


def expected_batch(tree: Tree, sigmas: Array) -> Array:
    """Return (M, S) each seat's expected points under M strategy profiles (M, N, A)."""
    return _expecteds(tree.walk, tree.chance, tree.gain, tree.flat(sigmas))


def nash_conv_batch(tree: Tree, sigmas: Array) -> Array:
    """Return (M,) the NashConv of M strategy profiles (M, N, A), in points.

    The strategies are not validated.
    """
    return _nash_convs(
        tree.walk, tree.response_orders, tree.chance, tree.gain, tree.gains, tree.flat(sigmas),
        tree.order, tree.start, tree.parent_sequence,
    )  # fmt: skip


def exploitability(tree: Tree, sigma: Array) -> float:
    """Return NashConv divided by the number of seats, in points (OpenSpiel's definition)."""
    return nash_conv(tree, sigma) / tree.seats


def edge_probability(tree: Tree, sigma: Array) -> Array:
    """Return (V,) the probability of the edge into each node, by sigma (N, A) or by chance.

    The entry of the root, which has no such edge, is 1.
    """
    tree.check_shape(sigma)
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
def _nash_convs(walk, orders, chance, node_gains, gains, flats, rows, start, past):  # type: ignore[no-untyped-def]
    gaps = np.zeros(len(flats))
    realised = np.ones(1 + flats.shape[1])
    for m in range(len(flats)):
        fill_plan(rows, start, past, flats[m], realised)
        values = _expected(walk, chance, node_gains, flats[m])
        for seat in range(len(gains)):
            best = np.arange(flats.shape[1])
            gain = gains[seat]
            worth = _best_response(
                orders[seat], chance, gain, flats[m], realised, start, seat, best
            )
            gaps[m] += worth - values[seat]
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
def _best_response(order, chance, gain, flat, realised, start, seat, best):  # type: ignore[no-untyped-def]
    """Return the value of a seat's best response, and write its best actions to `best` (L,).

    The arrays (L,) have one entry for each legal action of each of the N information sets.

    - `best` (L,): output. At each information set n of the seat, best[start[n]] becomes the index
      in arrays (L,) of the best action. Ties go to the first action. Before the call `best` must
      hold 0, 1, ..., L - 1.
    - `order`: ResponseOrder of the seat
    - `chance` (V,): probability of the chance outcome that leads to each node; 1 after actions
    - `gain` (V,): the seat's points on the edge into each node
    - `flat` (L,): behaviour strategy of all seats
    - `realised` (1 + L,): realisation plan of `flat`; entry 0 is the empty sequence
    - `start` (N + 1,): index in arrays (L,) of each information set's first legal action
    """
    walk = order.walk
    value = gain.copy()
    action_value = np.zeros(len(flat))  # counterfactual, of the seat's actions
    begin, row_begin = 0, 0
    for group in range(len(order.ends)):
        end = order.ends[group]
        if group % 2 == 0:
            for i in range(begin, end):
                shift = walk.start[i] - walk.first[i]
                for child in range(walk.first[i], walk.last[i]):
                    p = chance[child] if walk.mover[i] == CHANCE else flat[child + shift]
                    value[walk.node[i]] += p * value[child]
        else:
            for i in range(begin, end):
                others = others_reach(walk, realised, i, seat)
                shift = walk.start[i] - walk.first[i]
                for child in range(walk.first[i], walk.last[i]):
                    action_value[child + shift] += others * value[child]
            row_end = order.row_ends[group // 2]
            for row in order.rows[row_begin:row_end]:
                for place in range(start[row] + 1, start[row + 1]):
                    if action_value[place] > action_value[best[start[row]]]:
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
