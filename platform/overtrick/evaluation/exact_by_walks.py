"""Exact evaluation of players in games whose trees do not fit in memory, by walks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, WalkedGame
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation.sharded_walks import sharded_gradients
from overtrick.policies.batched_networks import NetworkMixture
from overtrick.policies.network import NetworkPolicy
from overtrick.solvers.walks import exact_evaluation
from overtrick.solvers.walks.exact_evaluation import THREADS
from overtrick.solvers.walks.game_walk import GameWalk, Pair
from overtrick.solvers.walks.make_walk import make_walk


def evaluate_players(
    game: WalkedGame,
    policies: Sequence[BehaviouralPolicy],
    progress: Callable[[int], None] = lambda percent: None,
    pool: WorkerPool | None = None,
) -> exact_evaluation.Evaluation:
    """Return the exact values, best responses and NashConv of policies, one for each seat.

    `pool`: workers that compute the parts of the walk; a call with equal policies continues an
    interrupted one. None: threads of this process. `progress`: called with the percentage that is
    done; numbering the information sets is the first half. Raises UserError for a game that is too
    large, and for probabilities that are not a strategy.
    """
    walk = make_walk(game, lambda percent: progress(percent // 2))
    progress(50)
    plans = exact_evaluation.realisation_plans(walk, exact_evaluation.tabulate(walk, policies))
    return _evaluation(walk, plans, pool, lambda percent: progress(50 + percent // 2))


def _evaluation(
    walk: GameWalk,
    plans: Pair,
    pool: WorkerPool | None,
    progress: Callable[[int], None] = lambda percent: None,
) -> exact_evaluation.Evaluation:
    """Evaluate realisation plans (1 + L,) of both seats, on the workers of a pool or on threads."""
    if pool is None:
        points = walk.gradients(plans, THREADS, progress)
    else:
        points = sharded_gradients(walk, plans, pool, progress)
    return exact_evaluation.evaluation_from_gradients(walk, plans, points)


def evaluate_mixtures(
    game: WalkedGame, mixtures: Sequence[NetworkMixture], pool: WorkerPool | None = None
) -> exact_evaluation.Evaluation:
    """Return the exact values, best responses and NashConv of mixtures, one for each seat.

    A mixture plays like the policy whose realisation plan is the mean of its networks' plans
    (Kuhn's theorem). `pool` and errors are those of `evaluate_players`.
    """
    walk = make_walk(game)
    plans = []
    for seat, (views, mixed) in enumerate(zip(walk.views, mixtures, strict=True)):
        plan = np.zeros(1 + views.start[-1])
        for k, share in enumerate(mixed.mixture):
            network = {name: value[k] for name, value in mixed.weights.items()}
            policy = NetworkPolicy(mixed.features, network)
            table = exact_evaluation.tabulate_seat(walk, seat, policy)
            plan += share * exact_evaluation.realisation_plan(views, table)
        plans.append(plan)
    return _evaluation(walk, (plans[0], plans[1]), pool)


def best_responses_to(
    game: WalkedGame, policies: Sequence[BehaviouralPolicy]
) -> tuple[tuple[float, ...], tuple[Array, ...]]:
    """Compute a best response of each seat to policies, one for each seat.

    Returns the points of each response, and for each seat a strategy (L0 + L1,) of both seats in
    which the seat plays its response and the other seat its policy. Errors are those of
    `evaluate_players`.
    """
    walk = make_walk(game)
    strategies = exact_evaluation.tabulate(walk, policies)
    values, (first, second) = exact_evaluation.best_responses(walk, strategies, THREADS)
    replies = (first, strategies[1]), (strategies[0], second)
    return tuple(values.tolist()), tuple(np.concatenate(each) for each in replies)
