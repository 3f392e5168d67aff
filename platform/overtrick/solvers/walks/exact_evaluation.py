"""Expected points, best responses and NashConv of policies, by walks over a game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, BehaviouralPolicy, UserError
from overtrick.solvers.strategy_check import check_rows
from overtrick.solvers.walks.game_walk import GameWalk, Pair, Views

CHUNK = 2**18  # views for which a policy is asked at once
THREADS = 2  # of a walk; more would need more memory: each has the gradients of a seat


class Evaluation(NamedTuple):
    """Exact evaluation of a strategy of both seats, in points per game."""

    values: Array  # (2,) expected points of each seat
    best_response_values: Array  # (2,) points of each seat's best response to the other seat
    nash_conv: float  # sum over seats of best-response value minus expected points

    @property
    def exploitability(self) -> float:
        """Return NashConv divided by the number of seats."""
        return self.nash_conv / len(self.values)


def uniform(views: Views) -> Array:
    """Return (L,) the uniform strategy of a seat: a probability for each of its sequences."""
    actions = np.diff(views.start)
    return np.repeat(1 / actions, actions)


def tabulate(walk: GameWalk, policies: Sequence[BehaviouralPolicy]) -> Pair:
    """Ask a policy of each seat for its probabilities in all views; return (L,) for each seat.

    Raises UserError for probabilities that are not a strategy.
    """
    first, second = (tabulate_seat(walk, seat, policy) for seat, policy in enumerate(policies))
    return first, second


def tabulate_seat(walk: GameWalk, seat: int, policy: BehaviouralPolicy) -> Array:
    """Ask the policy of one seat for its probabilities in all views; return them, (L,).

    Raises UserError for probabilities that are not a strategy.
    """
    views = walk.views[seat]
    table = np.empty(views.start[-1])
    for begin in range(0, len(views.parent), CHUNK):
        end = min(begin + CHUNK, len(views.parent))
        observations = walk.observations(seat, begin, end)
        probs, legal = policy.probs(observations), observations.legal
        assert legal is not None
        if probs.shape != legal.shape:
            raise UserError(f"a policy has probabilities of shape {probs.shape}, not {legal.shape}")
        check_rows(probs, legal)
        table[views.start[begin] : views.start[end]] = probs[legal]
    return table


def evaluate(walk: GameWalk, strategies: Pair, threads: int = 1) -> Evaluation:
    """Return the exact evaluation of strategies (L,) of both seats, by one walk."""
    plans = realisation_plans(walk, strategies)
    return evaluation_from_gradients(walk, plans, walk.gradients(plans, threads))


def evaluation_from_gradients(walk: GameWalk, plans: Pair, gradients: Pair) -> Evaluation:
    """Return the exact evaluation of realisation plans (1 + L,) from the result of their walk.

    `gradients` (1 + L,) for each seat: see GameWalk.
    """
    values = np.array([plan @ each for plan, each in zip(plans, gradients, strict=True)])
    best = np.array(
        [_best(views, each)[0] for views, each in zip(walk.views, gradients, strict=True)]
    )
    return Evaluation(values, best, float((best - values).sum()))


def best_responses(walk: GameWalk, strategies: Pair, threads: int = 1) -> tuple[Array, Pair]:
    """Compute a best response of each seat to the strategy (L,) of the other seat.

    Returns their points (2,), and the pure strategies (L,) of both seats. Ties go to the first
    action.
    """
    gradients = walk.gradients(realisation_plans(walk, strategies), threads)
    pairs = zip(walk.views, gradients, strict=True)
    (first, reply), (second, other_reply) = (_best(views, each) for views, each in pairs)
    return np.array([first, second]), (reply, other_reply)


def action_values(walk: GameWalk, strategies: Pair, threads: int = 1) -> Pair:
    """Return for each seat (L,) the counterfactual values of its actions under the strategies.

    A value is the seat's expected points after the action when it then follows its strategy. The
    weight is the reach of the view by chance and the other seat.
    """
    gradients = walk.gradients(realisation_plans(walk, strategies), threads)
    pairs = zip(walk.views, gradients, strategies, strict=True)
    first, second = (seat_values(views, each, strategy)[1:] for views, each, strategy in pairs)
    return first, second


def realisation_plans(walk: GameWalk, strategies: Pair) -> Pair:
    """Return the realisation plan (1 + L,) of each seat, see GameWalk."""
    pairs = zip(walk.views, strategies, strict=True)
    first, second = (realisation_plan(views, strategy) for views, strategy in pairs)
    return first, second


@njit(cache=True)
def realisation_plan(views, strategy):  # type: ignore[no-untyped-def]
    """Return (1 + L,) the realisation plan of a seat's strategy (L,)."""
    plan = np.ones(1 + len(strategy))
    for view in range(len(views.parent)):
        for place in range(views.start[view], views.start[view + 1]):
            plan[1 + place] = plan[views.parent[view]] * strategy[place]
    return plan


@njit(cache=True)
def _best(views, gradient):  # type: ignore[no-untyped-def]
    """Return the points of a seat's best response, and the response (L,) as a pure strategy.

    `gradient` (1 + L,): the seat's points by sequence, see GameWalk.
    """
    after = gradient.copy()  # later: with the best points of the views after the sequence
    reply = np.zeros(len(gradient) - 1)
    for view in range(len(views.parent) - 1, -1, -1):
        best = views.start[view]
        for place in range(views.start[view], views.start[view + 1]):
            if after[1 + place] > after[1 + best]:
                best = place
        reply[best] = 1
        after[views.parent[view]] += after[1 + best]
    return after[0], reply


@njit(cache=True)
def seat_values(views, gradient, strategy):  # type: ignore[no-untyped-def]
    """Return (1 + L,) the counterfactual value of each sequence of a seat.

    Entry 0 is the seat's expected points under both strategies.

    - `views`: Views of the seat
    - `gradient` (1 + L,): gradient of its points in its realisation plan
    - `strategy` (L,): the strategy that it follows
    """
    after = gradient.copy()
    for view in range(len(views.parent) - 1, -1, -1):
        value = 0.0
        for place in range(views.start[view], views.start[view + 1]):
            value += strategy[place] * after[1 + place]
        after[views.parent[view]] += value
    return after
