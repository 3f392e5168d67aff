"""Counterfactual regret minimisation (CFR) on tree arrays; variants differ in their discounts.

Source: Zinkevich et al. 2007, "Regret minimization in games with incomplete information".

| here | the papers |
|---|---|
| alternating updates; simultaneous in the variants `-simultaneous` | CFR of 2007: simultaneous |
| floats are added in the order of a depth-first traversal, as in OpenSpiel | order not specified |
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numba import njit

from overtrick.core import CHANCE, Array
from overtrick.solvers.extensive.traversal_order import others_reach, realisation_plan
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver


@dataclass(frozen=True)
class CfrVariant:
    """CFR variant, given by its discounts.

    After iteration t, positive cumulative regrets are multiplied by t^a / (t^a + 1) with a =
    `positive`. Negative cumulative regrets are multiplied by t^b / (t^b + 1) with b = `negative`.
    The exponent inf means no discount; -inf sets regrets to 0. The strategy of iteration t has
    weight t^`average` in the average strategy. Source: Brown and Sandholm 2019, "Solving
    imperfect-information games via discounted regret minimization".
    """

    positive: float
    negative: float
    average: float
    alternate: bool = True  # update seats in turn, each against the newest strategies of the others


CFR = CfrVariant(inf, inf, 0)
"""CFR of Zinkevich et al. 2007, with alternating updates."""

CFR_PLUS = CfrVariant(inf, -inf, 1)
"""CFR+ (Tammelin 2014, "Solving large imperfect information games using CFR+")."""

LINEAR = CfrVariant(1, 1, 1)
"""Linear CFR (Brown and Sandholm 2019)."""

DISCOUNTED = CfrVariant(1.5, 0, 2)
"""Discounted CFR with the exponents that Brown and Sandholm 2019 recommend."""

VARIANTS = {"cfr": CFR, "cfr+": CFR_PLUS, "linear": LINEAR, "dcfr": DISCOUNTED}
VARIANTS |= {
    f"{name}-simultaneous": replace(each, alternate=False) for name, each in VARIANTS.items()
}


class RegretMinimiser(IterativeSolver):
    """Base class of CFR solvers: cumulative regrets, current strategy and average strategy."""

    saved = ("iteration", "regret", "total", "sigma")

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.regret = np.zeros(tree.start[-1])  # (L,) cumulative
        self.total = np.zeros(tree.start[-1])  # (L,) reach-weighted sum of strategies
        self.sigma = tree.flat(tree.uniform())  # (L,) strategy of the next iteration

    def average(self) -> Array:
        """Return the average strategy (N, A); uniform at information sets never reached."""
        return strategy_from_weights(self.tree, self.total)

    def tree_arrays(self) -> tuple[Any, ...]:
        """Return the arrays of the tree that both kernels take.

        They are the walk, chance's probabilities, the seats' gains, the order of the information
        sets and the bounds of each seat in it, their first actions, and their parent sequences.
        """
        tree = self.tree
        bounds = np.searchsorted(tree.observations.seat[tree.order], np.arange(tree.seats + 1))
        order = tree.order, bounds, tree.start, tree.parent_sequence
        return tree.walk, tree.chance, tree.gains, *order


class CfrSolver(RegretMinimiser):
    """CFR on a game tree.

    Floating-point numbers are added in the order of a depth-first traversal, so that results agree
    with OpenSpiel's to the last digits. The order matters because CFR+ amplifies rounding errors
    after about 100 iterations.
    """

    def __init__(self, tree: Tree, variant: CfrVariant = CFR_PLUS) -> None:
        super().__init__(tree)
        self.variant = variant

    def run(self, iterations: int) -> None:
        """Run more iterations; each iteration updates every seat once."""
        _run(
            *self.tree_arrays(), self.regret, self.total, self.sigma,
            realisation_plan(self.tree, self.sigma), self.iteration, iterations,
            *map(float, astuple(self.variant)[:3]), self.variant.alternate,
        )  # fmt: skip
        self.iteration += iterations


def solve(tree: Tree, iterations: int, variant: CfrVariant = CFR_PLUS) -> Array:
    """Run CFR from the uniform strategy and return the average strategy (N, A)."""
    solver = CfrSolver(tree, variant)
    solver.run(iterations)
    return solver.average()


def strategy_from_weights(tree: Tree, weights: Array) -> Array:
    """Normalise weights (L,) within each information set to a strategy (N, A).

    `weights` has an entry for each of the L legal actions of all N information sets. An information
    set whose weights sum to 0 gets the uniform strategy.
    """
    weight = np.bincount(tree.action_infoset, weights, minlength=tree.infosets)[:, None]
    reached = weight > 0
    return np.where(reached, tree.table(weights) / np.where(reached, weight, 1), tree.uniform())


@njit(cache=True)
def _run(  # type: ignore[no-untyped-def]
    walk, chance, gain, rows, bounds, start, past,
    regret, strategy_sum, sigma, plan,
    first, iterations, positive, negative, average, alternate,
):  # fmt: skip
    seats = len(gain)
    value = gain.copy()  # a terminal node's value is its gain
    for t in range(first + 1, first + iterations + 1):
        weight = float(t) ** average
        discounts = discount_factor(positive, t), discount_factor(negative, t)
        for seat in range(seats):
            add_regrets(walk, chance, gain[seat], sigma, plan, seat, value[seat], regret)
            own_rows = rows[bounds[seat] : bounds[seat + 1]]
            for row in own_rows:
                for place in range(start[row], start[row + 1]):
                    strategy_sum[place] += weight * plan[1 + place]
            if alternate:
                _match_regrets(own_rows, start, past, regret, sigma, plan, discounts)
        if not alternate:
            _match_regrets(rows, start, past, regret, sigma, plan, discounts)


@njit(cache=True)
def discount_factor(power, t):  # type: ignore[no-untyped-def]
    """Return t^power / (t^power + 1), without overflow; 1 if `power` is inf, 0 if it is -inf.

    At t = 0, where all regrets are 0, returns 0 for any finite `power`.
    """
    if np.isinf(power):
        return 1.0 if power > 0 else 0.0
    return 1 / (1 + float(t) ** -power) if t > 0 else 0.0


@njit(cache=True)
def add_regrets(walk, chance, gain, sigma, plan, seat, value, regret):  # type: ignore[no-untyped-def]
    """Add the instantaneous counterfactual regrets of `seat` to `regret` (L,).

    `regret` has one entry for each legal action of each information set. Also fills `value` (V,)
    with the seat's expected points from each node onwards, plus its gain on the edge into the node.

    - `walk`: inner nodes of the tree, children before parents (a PostOrder)
    - `chance` (V,): probability of the chance outcome that leads to each node; 1 after actions
    - `gain` (V,): the seat's points on the edge into each node
    - `sigma` (L,), `plan` (1 + L,): strategy of all seats, and its realisation plan
    """
    for i in range(len(walk.node)):
        here = 0.0
        first, mover, start = walk.first[i], walk.mover[i], walk.start[i]
        shift = start - first
        if mover == CHANCE:
            for child in range(first, walk.last[i]):
                here += chance[child] * value[child]
        else:
            for child in range(first, walk.last[i]):
                here += sigma[child + shift] * value[child]
            if mover == seat:
                others = others_reach(walk, plan, i, seat)
                for child in range(first, walk.last[i]):
                    regret[child + shift] += others * (value[child] - here)
        value[walk.node[i]] = here + gain[walk.node[i]]


@njit(cache=True)
def _match_regrets(rows, start, past, regret, sigma, plan, discounts):  # type: ignore[no-untyped-def]
    """Discount cumulative regrets and set the next strategy by regret matching, both in place.

    The arrays (L,) have one entry for each legal action of each of the N information sets.

    - `rows`: information sets to update, a seat's earlier decisions before its later ones
    - `start` (N + 1,): index in arrays (L,) of each information set's first legal action
    - `past` (N,): index in `plan` of each information set's parent sequence
    - `regret` (L,): cumulative regrets
    - `sigma` (L,): behaviour strategy
    - `plan` (1 + L,): realisation plan of `sigma`; entry 0 is the empty sequence
    - `discounts`: factor of positive regrets, and factor of negative regrets

    Source: Hart and Mas-Colell 2000.
    """
    for row in rows:
        positive = 0.0
        for place in range(start[row], start[row + 1]):
            regret[place] *= discounts[0] if regret[place] > 0 else discounts[1]
            positive += max(regret[place], 0.0)
        for place in range(start[row], start[row + 1]):
            if positive > 0:
                sigma[place] = max(regret[place], 0.0) / positive
            else:
                sigma[place] = 1.0 / (start[row + 1] - start[row])
            plan[1 + place] = plan[past[row]] * sigma[place]
