"""Policy that looks its probabilities up by information set, for games evaluated by walks."""

from __future__ import annotations

from typing import Any

import numpy as np

from overtrick.core import Array, Observations, UserError, WalkedGame, select_rows
from overtrick.policies import model_kinds
from overtrick.policies.memoryless import MemorylessPolicy
from overtrick.policies.model_kinds import ModelKind, StoredWeights
from overtrick.solvers.strategy_check import TOLERANCE
from overtrick.solvers.walks.cfr_by_walks import by_seat
from overtrick.solvers.walks.game_walk import GameWalk
from overtrick.solvers.walks.make_walk import make_walk

PROBABILITIES = "view_probabilities"
"""Name of the array (L0 + L1,) of a stored strategy of a game evaluated by walks."""


class ViewPolicy(MemorylessPolicy):
    """Policy with a probability for each legal action of each view.

    `strategy` (L0 + L1,): the probabilities of seat 0, then of seat 1, in the order of `walk`.
    """

    def __init__(self, walk: GameWalk, strategy: Array) -> None:
        self.walk = walk
        self.strategy = strategy

    def probs(self, observations: Observations) -> Array:
        """Look up the action probabilities (R, A) in the view of each observation."""
        assert observations.legal is not None
        probs = np.zeros(observations.legal.shape)
        for seat, own in enumerate(by_seat(self.walk, self.strategy)):
            rows = np.flatnonzero(observations.seat == seat)
            probs[rows] = self.walk.probabilities(own, select_rows(observations, rows))
        return probs


def check_strategy(walk: GameWalk, strategy: Array) -> None:
    """Raise UserError unless an array (L0 + L1,) is a strategy: probabilities with sum 1."""
    wanted = sum(int(views.start[-1]) for views in walk.views)
    if strategy.shape != (wanted,):
        raise UserError(
            f"the strategy has shape {strategy.shape}, but this game needs {wanted:,} "
            "probabilities, one for each legal action of each information set"
        )
    for seat, (views, own) in enumerate(zip(walk.views, by_seat(walk, strategy), strict=True)):
        sums = np.add.reduceat(own, views.start[:-1])
        least = np.minimum.reduceat(own, views.start[:-1])
        wrong = np.flatnonzero(~(np.abs(sums - 1) < TOLERANCE) | (least < 0))
        if len(wrong):
            raise UserError(
                f"not a strategy: information set {wrong[0]} of seat {seat} must have "
                "probabilities with sum 1"
            )


def of_array(game: WalkedGame, strategy: Array) -> ViewPolicy:
    """Return a strategy (L0 + L1,) of a game evaluated by walks as a policy.

    Raises UserError for an array that is not a strategy of this game.
    """
    walk = make_walk(game)
    check_strategy(walk, strategy)
    return ViewPolicy(walk, strategy)


def _load(weights: StoredWeights, game: Any) -> ViewPolicy:
    """Build the policy of a stored strategy. Raises UserError for a damaged one or another game."""
    if not isinstance(game, WalkedGame):
        raise UserError(f"the strategy in {weights.source} is not one of {game.name}")
    try:
        return of_array(game, weights.arrays[PROBABILITIES])
    except UserError as error:
        raise UserError(f"cannot use the strategy in {weights.source}: {error}") from None


model_kinds.register(ModelKind(lambda weights: PROBABILITIES in weights.arrays, _load))
