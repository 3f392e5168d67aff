"""Exact evaluation of players in phantom games, whose trees do not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, PhantomGame
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation.phantom_walks import sharded_gradients
from overtrick.policies.batched_networks import NetworkMixture
from overtrick.policies.network import NetworkPolicy
from overtrick.solvers.phantom import exact_evaluation
from overtrick.solvers.phantom.exact_evaluation import THREADS
from overtrick.solvers.phantom.information_sets import Numbering, sequence_gradients
from overtrick.solvers.phantom.numbering_cache import stored_numbering


def evaluate_players(
    game: PhantomGame,
    policies: Sequence[BehaviouralPolicy],
    progress: Callable[[int], None] = lambda percent: None,
    pool: WorkerPool | None = None,
) -> exact_evaluation.Evaluation:
    """Return the exact values, best responses and NashConv of policies, one for each seat.

    `pool`: workers that walk over the lines after each first move; a call with equal policies
    continues an interrupted one. None: threads of this process. `progress`: called with the
    percentage that is done; numbering the information sets is the first half. Raises UserError for
    a board that is too large, and for probabilities that are not a strategy.
    """
    numbering = stored_numbering(game, lambda percent: progress(percent // 2))
    progress(50)
    strategies = exact_evaluation.tabulate(game, numbering, policies)
    plans = exact_evaluation.realisation_plans(numbering, strategies)

    return _evaluation(game, numbering, plans, pool, lambda percent: progress(50 + percent // 2))


def _evaluation(
    game: PhantomGame,
    numbering: Numbering,
    plans: tuple[Array, Array],
    pool: WorkerPool | None,
    progress: Callable[[int], None] = lambda percent: None,
) -> exact_evaluation.Evaluation:
    """Evaluate realisation plans (1 + L,) of both seats, on the workers of a pool or on threads."""
    if pool is None:
        points = sequence_gradients(game, numbering, plans, THREADS, progress)
    else:
        points = sharded_gradients(game, plans, pool, progress)
    return exact_evaluation.evaluation_from_gradients(numbering, plans, points)


def evaluate_mixtures(
    game: PhantomGame, mixtures: Sequence[NetworkMixture], pool: WorkerPool | None = None
) -> exact_evaluation.Evaluation:
    """Return the exact values, best responses and NashConv of mixtures, one for each seat.

    A mixture plays like the policy whose realisation plan is the mean of its networks' plans
    (Kuhn's theorem). `pool` and errors are those of `evaluate_players`.
    """
    numbering = stored_numbering(game)
    plans = []
    for seat, (views, mixed) in enumerate(zip(numbering.seats, mixtures, strict=True)):
        plan = np.zeros(1 + views.start[-1])
        for k, share in enumerate(mixed.mixture):
            network = {name: value[k] for name, value in mixed.weights.items()}
            policy = NetworkPolicy(mixed.features, network)
            table = exact_evaluation.tabulate_seat(game, numbering, seat, policy)
            plan += share * exact_evaluation.realisation_plan(views, table)
        plans.append(plan)
    return _evaluation(game, numbering, (plans[0], plans[1]), pool)


def best_responses_to(
    game: PhantomGame, policies: Sequence[BehaviouralPolicy]
) -> tuple[tuple[float, ...], tuple[Array, ...]]:
    """Compute a best response of each seat to policies, one for each seat.

    Returns the points of each response, and for each seat a strategy (L0 + L1,) of both seats in
    which the seat plays its response and the other seat its policy. Errors are those of
    `evaluate_players`.
    """
    numbering = stored_numbering(game)
    strategies = exact_evaluation.tabulate(game, numbering, policies)
    values, (first, second) = exact_evaluation.best_responses(game, numbering, strategies, THREADS)
    replies = (first, strategies[1]), (strategies[0], second)
    return tuple(values.tolist()), tuple(np.concatenate(each) for each in replies)
