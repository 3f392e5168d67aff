"""Exact evaluation of players in phantom games, whose trees do not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from overtrick.core import Array, BehaviouralPolicy, PhantomGame
from overtrick.solvers.phantom import exact_evaluation
from overtrick.solvers.phantom.exact_evaluation import THREADS
from overtrick.solvers.phantom.numbering_cache import stored_numbering


def evaluate_players(
    game: PhantomGame,
    policies: Sequence[BehaviouralPolicy],
    progress: Callable[[int], None] = lambda percent: None,
) -> exact_evaluation.Evaluation:
    """Return the exact values, best responses and NashConv of policies, one for each seat.

    `progress`: called with the percentage of the numbering of information sets that is done; not
    called if the cache folder has the numbers. Raises UserError for a board that is too large, and
    for probabilities that are not a strategy.
    """
    numbering = stored_numbering(game, progress)
    strategies = exact_evaluation.tabulate(game, numbering, policies)
    return exact_evaluation.evaluate(game, numbering, strategies, THREADS)


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
