"""Policy of a phantom game that looks its probabilities up by information set, and its model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overtrick.core import Array, Observations, PhantomGame, UserError
from overtrick.policies import model_kinds
from overtrick.policies.memoryless import MemorylessPolicy
from overtrick.policies.model_kinds import ModelKind, StoredWeights
from overtrick.solvers.phantom.cfr_by_walks import by_seat
from overtrick.solvers.phantom.information_sets import POPCOUNT, Numbering
from overtrick.solvers.phantom.numbering_cache import stored_numbering
from overtrick.solvers.strategy_check import TOLERANCE

PROBABILITIES = "view_probabilities"
"""Name of the array (L0 + L1,) of a stored strategy of a phantom game."""


class ViewPolicy(MemorylessPolicy):
    """Policy with a probability for each legal action of each view.

    `strategy` (L0 + L1,): the probabilities of seat 0, then of seat 1, in the order of `numbering`.
    """

    def __init__(self, numbering: Numbering, strategy: Array) -> None:
        self.numbering = numbering
        self.strategy = strategy

    def probs(self, observations: Observations) -> Array:
        """Look up the action probabilities (R, A) in the view of each observation."""
        probs = np.zeros((len(observations), observations.observation.shape[1] - 1))
        for seat, views in enumerate(self.numbering.seats):
            rows = np.flatnonzero(observations.seat == seat)
            attempts = np.ascontiguousarray(observations.observation[rows, 1:], np.int64)
            own = by_seat(self.numbering, self.strategy)[seat]
            probs[rows] = _look_up(views, own, attempts)
        return probs


def check_strategy(numbering: Numbering, strategy: Array) -> None:
    """Raise UserError unless an array (L0 + L1,) is a strategy: probabilities with sum 1."""
    wanted = sum(int(views.start[-1]) for views in numbering.seats)
    if strategy.shape != (wanted,):
        raise UserError(
            f"a strategy for another game: it is {strategy.shape}, this game has {wanted:,} legal "
            "actions in all information sets"
        )
    for seat, (views, own) in enumerate(
        zip(numbering.seats, by_seat(numbering, strategy), strict=True)
    ):
        sums = np.add.reduceat(own, views.start[:-1])
        least = np.minimum.reduceat(own, views.start[:-1])
        wrong = np.flatnonzero(~(np.abs(sums - 1) < TOLERANCE) | (least < 0))
        if len(wrong):
            raise UserError(
                f"not a strategy: information set {wrong[0]} of seat {seat} must have "
                "probabilities with sum 1"
            )


def of_array(game: PhantomGame, strategy: Array) -> ViewPolicy:
    """Return a strategy (L0 + L1,) of a phantom game as a policy.

    Raises UserError for an array that is not a strategy of this game.
    """
    numbering = stored_numbering(game)
    check_strategy(numbering, strategy)
    return ViewPolicy(numbering, strategy)


def _load(weights: StoredWeights, game: Any) -> ViewPolicy:
    """Build the policy of a stored strategy. Raises UserError for another or a damaged one."""
    if not isinstance(game, PhantomGame):
        raise UserError(f"the strategy in {weights.source} is not one of {game.name}")
    try:
        return of_array(game, weights.arrays[PROBABILITIES])
    except UserError as error:
        raise UserError(f"the strategy in {weights.source} is damaged: {error}") from None


model_kinds.register(ModelKind(lambda weights: PROBABILITIES in weights.arrays, _load))


@njit(cache=True)
def _look_up(views, strategy, attempts):  # type: ignore[no-untyped-def]
    """Return (R, A) the probabilities in the views after attempts (R, A), of one seat.

    `attempts`: for each cell 0, or the number of the attempt, negative if it failed.
    """
    cells = attempts.shape[1]
    probs = np.zeros(attempts.shape)
    for row in range(len(attempts)):
        view, known = 0, 0
        for number in range(1, cells + 1):
            for cell in range(cells):
                if abs(attempts[row, cell]) == number:
                    place = views.start[view] + POPCOUNT[~known & ((1 << cell) - 1)]
                    view = views.after[2 * place + (attempts[row, cell] < 0)]
                    known |= 1 << cell
                    break
        place = views.start[view]
        for cell in range(cells):
            if not known >> cell & 1:
                probs[row, cell] = strategy[place]
                place += 1
    return probs
