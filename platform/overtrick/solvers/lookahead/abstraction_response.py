"""Best response in an abstraction of a game that is too large for a tree, played in the game.

It is a real player, so its mean payoff is a lower bound on the value of a best response.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy, Game, HandAbstraction
from overtrick.policies.rollout import play_duplicate
from overtrick.solvers.lookahead.local_best_response import ResponsePayoff
from overtrick.solvers.public_tree import values
from overtrick.solvers.public_tree.values import IndexedGame


def abstraction_response(game: IndexedGame, strategy: Array) -> Array:
    """Return best responses (N, A) of both seats to a strategy (N, A) of a bucketed game.

    The game draws each seat's buckets independently.
    """
    _, actions = values.best_responses(game, strategy)
    return np.eye(strategy.shape[1])[actions.astype(np.int64)]


def abstraction_response_payoff(
    game: Game, abstraction: HandAbstraction, policy: BehaviouralPolicy, games: int, rng: Generator
) -> ResponsePayoff:
    """Estimate the payoff of the best response in an abstraction to a policy, by sampled games.

    `games`: even, at least 4; each deal is played in both seats.
    """
    table_rng, play_rng = rng.spawn(2)
    indexed = values.index_game(abstraction.bucketed_game)
    strategy = abstraction_response(indexed, abstraction.tabulate(policy, table_rng))
    by_seat, mean = play_duplicate(game, abstraction.policy(strategy), policy, games // 2, play_rng)
    deals = len(mean)
    first, second = (by_seat.std(axis=0, ddof=1) / math.sqrt(deals)).tolist()
    return ResponsePayoff(
        mean=float(mean.mean()),
        standard_error=float(mean.std(ddof=1)) / math.sqrt(deals),
        values=(float(by_seat[:, 0].mean()), float(by_seat[:, 1].mean())),
        standard_errors=(first, second),
        deals=deals,
    )
