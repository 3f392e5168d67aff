"""Counterfactual regret minimisation by walks over games whose trees do not fit in memory.

One walk gives the counterfactual values of both seats (see game_walk.py). An
iteration with simultaneous updates is one walk; with alternating updates it is a walk for each
seat.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.solvers.cfr import CFR_PLUS, CfrVariant, discount_factor
from overtrick.solvers.iterative_solver import IterativeSolver
from overtrick.solvers.walks.exact_evaluation import (
    THREADS,
    realisation_plans,
    seat_values,
    uniform,
)
from overtrick.solvers.walks.game_walk import GameWalk, Pair, Views


class WalkCfrSolver(IterativeSolver):
    """CFR by walks over a game.

    Strategies are arrays (L0 + L1,): the sequences of seat 0, then those of seat 1. An entry is the
    probability of the last action of a sequence, in the view in which it is taken.
    """

    saved = ("iteration", "regret", "total", "sigma")

    def __init__(self, walk: GameWalk, variant: CfrVariant = CFR_PLUS) -> None:
        self.walk, self.variant = walk, variant
        self.sigma = np.concatenate([uniform(views) for views in walk.views])
        self.regret = np.zeros_like(self.sigma)  # cumulative
        self.total = np.zeros_like(self.sigma)  # reach-weighted sum of strategies

    def walk_seconds(self) -> float:
        """Estimate the seconds of a walk and an update on this machine.

        One part of a walk is measured, and an update without a walk.
        """
        twin = WalkCfrSolver(self.walk, self.variant)
        first, second = (np.zeros(1 + int(views.start[-1])) for views in self.walk.views)
        update = 0.0
        for _ in range(2):  # the first may compile
            began = perf_counter()
            plans = realisation_plans(self.walk, by_seat(self.walk, twin.sigma))
            twin._match([0, 1], plans, (first, second))
            update = perf_counter() - began
        return update + self.walk.seconds(THREADS)

    def run(self, iterations: int) -> None:
        """Run more iterations; each updates both seats once."""
        for _ in range(iterations):
            self.iteration += 1
            if self.variant.alternate:
                for seat in range(2):
                    self._update([seat])
            else:
                self._update([0, 1])

    def _update(self, seats: list[int]) -> None:
        """Walk over the game once, and update the regrets and strategies of some seats."""
        plans = realisation_plans(self.walk, by_seat(self.walk, self.sigma))
        self._match(seats, plans, self.walk.gradients(plans, THREADS))

    def _match(self, seats: list[int], plans: Pair, gradients: Pair) -> None:
        """Add regrets and plans of some seats to their sums, and set the next strategies.

        `plans`, `gradients`: (1 + L,) for each seat, see GameWalk.
        """
        t, variant = self.iteration, self.variant
        discounts = discount_factor(variant.positive, t), discount_factor(variant.negative, t)
        weight = float(t) ** variant.average
        for seat in seats:
            regret, total, sigma = (
                by_seat(self.walk, each)[seat] for each in (self.regret, self.total, self.sigma)
            )
            total += weight * plans[seat][1:]
            _match_regrets(self.walk.views[seat], gradients[seat], regret, sigma, discounts)

    def average(self) -> Array:
        """Return the average strategy (L,); uniform in views never reached."""
        parts = zip(self.walk.views, by_seat(self.walk, self.total), strict=True)
        return np.concatenate([_normalised(views, total) for views, total in parts])


def by_seat(walk: GameWalk, values: Array) -> Pair:
    """Split an array (L0 + L1,) into the parts of seat 0 and of seat 1, without a copy."""
    first = walk.views[0].start[-1]
    return values[:first], values[first:]


@njit(cache=True)
def _match_regrets(views, gradient, regret, sigma, discounts):  # type: ignore[no-untyped-def]
    """Add instantaneous regrets, discount, and set the next strategy by regret matching, in place.

    - `views`: Views of the seat
    - `gradient` (1 + L,): gradient of the seat's points in its realisation plan
    - `regret`, `sigma` (L,): cumulative regrets and strategy
    - `discounts`: factor of positive regrets, and factor of negative regrets
    """
    after = seat_values(views, gradient, sigma)
    for view in range(len(views.parent)):
        begin, end = views.start[view], views.start[view + 1]
        here, positive = 0.0, 0.0
        for place in range(begin, end):
            here += sigma[place] * after[1 + place]
        for place in range(begin, end):
            regret[place] += after[1 + place] - here
            regret[place] *= discounts[0] if regret[place] > 0 else discounts[1]
            positive += max(regret[place], 0.0)
        for place in range(begin, end):
            if positive > 0:
                sigma[place] = max(regret[place], 0.0) / positive
            else:
                sigma[place] = 1.0 / (end - begin)


@njit(cache=True)
def _normalised(views: Views, total: Array) -> Array:
    """Divide a seat's sums (L,) by their sum in each view; uniform where that is 0."""
    strategy = np.empty_like(total)
    for view in range(len(views.parent)):
        begin, end = views.start[view], views.start[view + 1]
        whole = total[begin:end].sum()
        for place in range(begin, end):
            strategy[place] = total[place] / whole if whole > 0 else 1.0 / (end - begin)
    return strategy
