"""CFR variants with predicted regrets, and with discounts that change over a run, on tree arrays.

In iteration t = 1, 2, ..., with p = t - 1, the seats are updated in turn. The seat at turn observes
its instantaneous regrets r under the current strategies of all seats. The sum of its strategies is
multiplied by (p / (p + 1))^gamma, and the current strategy, weighted by the seat's own reach, is
added. Then its regrets are

    R = R d + r               with d = p^a / (1 + p^a), a = alpha where R > 0, otherwise beta
    R = max(R d + r, 0)       in predictive variants

The next strategy is proportional to max(R, 0), or to max(R d' + c r, 0) in predictive variants,
where d' is d with p + 1 in place of p. An exponent inf means no discount, d = 1. Exponents may
change linearly with p / n, where n is the number of iterations of the whole run.

cfr.DISCOUNTED adds the new regrets before it discounts; its strategies are equal but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from math import inf, nan

import numpy as np
from numba import njit

from overtrick.core import Array, UserError
from overtrick.solvers.cfr import (
    RegretMinimiser,
    add_regrets,
    discount_factor,
    strategy_from_weights,
)
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.traversal_order import realisation_plan
from overtrick.solvers.extensive.tree import Tree


@dataclass(frozen=True)
class Schedule:
    """Number that changes linearly over a run: start + slope * share of the iterations done."""

    start: float
    slope: float = 0.0


@dataclass(frozen=True)
class ScheduledVariant:
    """CFR variant, given by its exponents and its prediction."""

    alpha: Schedule  # exponent of the discount of positive regrets; inf: none
    beta: Schedule = Schedule(-inf)  # of negative regrets; unused in predictive variants
    gamma: Schedule = Schedule(2)  # the larger, the more weight have later strategies
    prediction: float = nan  # c: weight of the predicted regrets; nan: no prediction


NO_DISCOUNT = Schedule(inf)
FROM_15, FROM_30 = Schedule(15, -5), Schedule(30, -5)

# Farina, Kroer and Sandholm 2021, "Faster game solving via predictive Blackwell approachability"
PCFR_PLUS = ScheduledVariant(NO_DISCOUNT, gamma=Schedule(2), prediction=1)
PCFR_PLUS_5 = ScheduledVariant(NO_DISCOUNT, gamma=Schedule(5), prediction=1)
# Meng et al. 2025, "Asynchronous predictive counterfactual regret minimization+ algorithm in
# solving extensive-form games", also "Faster game solving via asymmetry of step sizes": the simple
# form, whose prediction has the weight 1 / (1 + 2)
SAPCFR_PLUS = ScheduledVariant(NO_DISCOUNT, gamma=Schedule(2), prediction=1 / 3)
# Xu et al. 2024, "Minimizing weighted counterfactual regret with optimistic online mirror descent"
PDCFR_PLUS = ScheduledVariant(Schedule(2.3), gamma=Schedule(5), prediction=1)
# our combination of the prediction of SAPCFR+ and the discount of PDCFR+
SAPDCFR_PLUS = ScheduledVariant(Schedule(2.3), gamma=Schedule(5), prediction=1 / 3)
# Brown and Sandholm 2019, in the order of the paper. cfr.DISCOUNTED adds regrets before it
# discounts them. The strategies are the same but for rounding, which CFR amplifies.
DISCOUNT_FIRST = ScheduledVariant(Schedule(1.5), Schedule(0), Schedule(2))

AVERAGES = {"2": Schedule(2), "5": Schedule(5), "15 to 10": FROM_15, "30 to 25": FROM_30}
"""Exponents gamma of the averages of BestAverageSolver, by their values over a run."""

VARIANTS = {
    "pcfr+": PCFR_PLUS,
    "pcfr+-5": PCFR_PLUS_5,
    "sapcfr+": SAPCFR_PLUS,
    "pdcfr+": PDCFR_PLUS,
    "sapdcfr+": SAPDCFR_PLUS,
    # Zhang, McAleer and Sandholm 2024, "Faster game solving via hyperparameter schedules"
    "hs-dcfr-15": ScheduledVariant(Schedule(1, 3), Schedule(-1, -2), FROM_15),
    "hs-dcfr-30": ScheduledVariant(Schedule(1, 3), Schedule(-1, -2), FROM_30),
    "hs-pcfr+-15": ScheduledVariant(NO_DISCOUNT, gamma=FROM_15, prediction=1),
    "hs-pcfr+-30": ScheduledVariant(NO_DISCOUNT, gamma=FROM_30, prediction=1),
    "hs-pdcfr+-15": ScheduledVariant(Schedule(2.3), gamma=FROM_15, prediction=1),
    "hs-pdcfr+": ScheduledVariant(Schedule(2.3), gamma=FROM_30, prediction=1),
    "dcfr-discount-first": DISCOUNT_FIRST,
}


def check_horizon(state: Mapping[str, Array], horizon: int | None) -> None:
    """Raise ValueError if a checkpoint is of a run of another length than `horizon` iterations.

    `horizon`: None if the length of the run does not matter. Checkpoints of earlier versions do not
    contain it.
    """
    begun = int(state.get("horizon", -1 if horizon is None else horizon))
    if horizon is not None and begun != horizon:
        raise ValueError(f"it is of a run of {begun:,} iterations, not {horizon:,}")


class ScheduledCfrSolver(RegretMinimiser):
    """CFR with a ScheduledVariant on a game tree."""

    def __init__(self, tree: Tree, variant: ScheduledVariant, horizon: int) -> None:
        """Set up the first iteration.

        `horizon`: number of iterations of the whole run, at least 1; only variants whose exponents
        change use it.
        """
        super().__init__(tree)
        self.variant = variant
        self.horizon = horizon

    @property
    def _scheduled(self) -> bool:
        """Whether exponents change over the run."""
        gammas, _ = self.weighted_sums()
        return any(each.slope for each in (self.variant.alpha, self.variant.beta, *gammas))

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint, with the length of the run."""
        return {**super().state(), "horizon": np.array(self.horizon)}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore a state. Raises ValueError if exponents change by another length of the run."""
        check_horizon(state, self.horizon if self._scheduled else None)
        super().load(state)

    def run(self, iterations: int) -> None:
        """Run more iterations; each iteration updates every seat once.

        Raises UserError if exponents that change over the run would go beyond `horizon`.
        """
        variant = self.variant
        gammas, sums = self.weighted_sums()
        if self._scheduled and self.iteration + iterations > self.horizon:
            raise UserError(
                f"the exponents of this variant are set for a run of {self.horizon:,} iterations: "
                f"to do {self.iteration + iterations:,}, solve again with that number"
            )
        exponents = (variant.alpha, variant.beta)
        _run(
            *self.tree_arrays(), self.regret, np.zeros_like(self.regret), sums, self.sigma,
            realisation_plan(self.tree, self.sigma), self.iteration, iterations,
            float(self.horizon), *(tuple(map(float, astuple(each))) for each in exponents),
            np.array([astuple(each) for each in gammas], float), float(variant.prediction),
        )  # fmt: skip
        self.iteration += iterations

    def weighted_sums(self) -> tuple[tuple[Schedule, ...], Array]:
        """Return M exponents gamma, and the weighted sums (M, L) of strategies that they define."""
        return (self.variant.gamma,), self.total[None]


class BestAverageSolver(ScheduledCfrSolver):
    """CFR with a ScheduledVariant and several averages, which returns the least exploitable one.

    The regrets do not depend on the average, so that one run yields an average for each exponent
    gamma in `AVERAGES`, at the cost of one more array each.
    """

    saved = ("iteration", "regret", "totals", "sigma")

    def __init__(self, tree: Tree, variant: ScheduledVariant, horizon: int) -> None:
        super().__init__(tree, variant, horizon)
        self.totals = np.zeros((len(AVERAGES), len(self.total)))  # (M, L), in place of `total`
        del self.total
        self._best: tuple[int, str, Array, float] | None = None  # iteration, result of best_average

    def weighted_sums(self) -> tuple[tuple[Schedule, ...], Array]:
        return tuple(AVERAGES.values()), self.totals

    def best_average(self) -> tuple[str, Array, float]:
        """Return the least exploitable average: its name in AVERAGES, (N, A), exploitability."""
        if self._best is None or self._best[0] != self.iteration:
            averages = [strategy_from_weights(self.tree, total) for total in self.totals]
            gaps = [best_response.exploitability(self.tree, each) for each in averages]
            best = int(np.argmin(gaps))
            self._best = self.iteration, tuple(AVERAGES)[best], averages[best], gaps[best]
        return self._best[1:]

    def average(self) -> Array:
        """Return the least exploitable average (N, A)."""
        return self.best_average()[1]

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the state."""
        super().load(state)
        self._best = None


@njit(cache=True)
def _run(  # type: ignore[no-untyped-def]
    walk, chance, gain, rows, bounds, start, past,
    regret, instant, strategy_sums, sigma, plan,
    first, iterations, horizon, alpha, beta, gammas, prediction,
):  # fmt: skip
    value = gain.copy()  # a terminal node's value is its gain
    for done in range(first, first + iterations):
        share = done / horizon
        positive, negative = (alpha[0] + alpha[1] * share), (beta[0] + beta[1] * share)
        keep = (done / (done + 1.0)) ** (gammas[:, 0] + gammas[:, 1] * share)
        discounts = discount_factor(positive, done), discount_factor(negative, done)
        discount_after = discount_factor(positive, done + 1)
        for seat in range(len(gain)):
            own_rows = rows[bounds[seat] : bounds[seat + 1]]
            for row in own_rows:
                for place in range(start[row], start[row + 1]):
                    instant[place] = 0.0
            add_regrets(walk, chance, gain[seat], sigma, plan, seat, value[seat], instant)
            for row in own_rows:
                places = range(start[row], start[row + 1])
                for k in range(len(keep)):
                    kept = keep[k]
                    for place in places:
                        strategy_sums[k, place] = strategy_sums[k, place] * kept + plan[1 + place]
                if np.isnan(prediction):
                    _update_regrets(places, regret, instant, discounts)
                    _match_predicted_regrets(places, regret, instant, 1.0, 0.0, sigma)
                else:
                    _update_clipped_regrets(places, regret, instant, discounts[0])
                    _match_predicted_regrets(
                        places, regret, instant, discount_after, prediction, sigma
                    )
                for place in places:
                    plan[1 + place] = plan[past[row]] * sigma[place]


@njit(cache=True)
def _update_regrets(places, regret, instant, discounts):  # type: ignore[no-untyped-def]
    """Discount positive and negative regrets by their factors, and add the instantaneous ones."""
    for place in places:
        discount = discounts[0] if regret[place] > 0 else discounts[1]
        regret[place] = regret[place] * discount + instant[place]


@njit(cache=True)
def _update_clipped_regrets(places, regret, instant, discount):  # type: ignore[no-untyped-def]
    """Discount the regrets, add the instantaneous ones, and set negative sums to 0."""
    for place in places:
        regret[place] = max(regret[place] * discount + instant[place], 0.0)


@njit(cache=True)
def _match_predicted_regrets(places, regret, instant, discount, prediction, sigma):  # type: ignore[no-untyped-def]
    """Set the strategy of an information set in proportion to its positive predicted regrets.

    They are regret * discount + prediction * instant. If none is positive, the strategy is uniform.
    """
    positive = 0.0
    for place in places:
        sigma[place] = max(regret[place] * discount + prediction * instant[place], 0.0)
        positive += sigma[place]
    for place in places:
        sigma[place] = sigma[place] / positive if positive > 0 else 1.0 / len(places)
