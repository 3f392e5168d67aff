"""Counterfactual regret minimisation on arrays (Zinkevich et al. 2007), variants as plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from math import inf

import numpy as np
from numba import njit

from overtrick.core import CHANCE, Array
from overtrick.solvers.extensive.traversal import others_reach, realisation_plan
from overtrick.solvers.extensive.tree import Tree


@dataclass(frozen=True)
class CfrVariant:
    """One variant, as discounts (Brown and Sandholm 2019, "Discounted regret minimization").

    After iteration t, cumulative regrets above 0 are multiplied by t^a / (t^a + 1), a = positive,
    those below 0 likewise by b = negative; the strategy of iteration t weighs t^average in the
    average. So inf keeps regrets whole, -inf forgets them.
    """

    positive: float
    negative: float
    average: float
    alternate: bool = True  # each seat sees what the seats before it have just learned


CFR = CfrVariant(inf, inf, 0)
"""Zinkevich et al. 2007, with alternating updates."""

CFR_PLUS = CfrVariant(inf, -inf, 1)
"""Tammelin 2014, "Solving large imperfect information games using CFR+"."""

LINEAR = CfrVariant(1, 1, 1)
"""Linear CFR (Brown and Sandholm 2019)."""

DISCOUNTED = CfrVariant(1.5, 0, 2)
"""Discounted CFR with its authors' values."""

VARIANTS = {
    "cfr": CFR,
    "cfr+": CFR_PLUS,
    "linear": LINEAR,
    "dcfr": DISCOUNTED,
}
VARIANTS |= {
    f"{name}-simultaneous": replace(each, alternate=False) for name, each in VARIANTS.items()
}


class CfrSolver:
    """The memory of a run: `run` adds iterations, `average` is the strategy so far.

    Sums run in the order in which a depth-first walk would meet their terms, so that a run can
    be compared with OpenSpiel's to the last digits: CFR+ amplifies rounding after about 100
    iterations.
    """

    def __init__(self, tree: Tree, plan: CfrVariant = CFR_PLUS) -> None:
        self.tree = tree
        self.plan = plan
        self.iteration = 0
        self.regret = np.zeros(tree.start[-1])  # (L,) cumulative
        self.total = np.zeros(tree.start[-1])  # (L,) reach-weighted sum of strategies
        self.sigma = tree.flat(tree.uniform())  # (L,) the strategy of the next iteration

    def run(self, iterations: int) -> None:
        """Add iterations; each updates every seat once."""
        tree = self.tree
        bounds = np.searchsorted(tree.observations.seat[tree.order], np.arange(tree.seats + 1))
        _run(
            tree.walk, tree.chance, tree.gains, tree.order, bounds, tree.start, tree.past,
            self.regret, self.total, self.sigma, realisation_plan(tree, self.sigma),
            self.iteration, iterations, *map(float, astuple(self.plan)[:3]), self.plan.alternate,
        )  # fmt: skip
        self.iteration += iterations

    def average(self) -> Array:
        """(N, A) the average strategy; uniform where no iteration has come."""
        return strategy_from_weights(self.tree, self.total)

    def state(self) -> dict[str, Array]:
        """What the next iteration depends on."""
        iteration = np.array(self.iteration)
        return {
            "regret": self.regret,
            "total": self.total,
            "sigma": self.sigma,
            "iteration": iteration,
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.regret, self.total = state["regret"].copy(), state["total"].copy()
        self.sigma, self.iteration = state["sigma"].copy(), int(state["iteration"])


def solve(tree: Tree, iterations: int, plan: CfrVariant = CFR_PLUS) -> Array:
    """The average strategy (N, A) after some iterations."""
    solver = CfrSolver(tree, plan)
    solver.run(iterations)
    return solver.average()


def strategy_from_weights(tree: Tree, total: Array) -> Array:
    """(N, A) weights (L,) as probabilities; uniform where an information set has none."""
    weight = np.bincount(tree.owner, total, minlength=tree.infosets)[:, None]
    seen = weight > 0
    return np.where(seen, tree.table(total) / np.where(seen, weight, 1), tree.uniform())


@njit(cache=True)
def _run(  # type: ignore[no-untyped-def]
    walk, chance, gain, rows, bounds, start, past,
    regret, total, sigma, realised,
    done, iterations, positive, negative, average, alternate,
):  # fmt: skip
    seats = len(gain)
    value = gain.copy()  # ends keep what they gain
    for t in range(done + 1, done + iterations + 1):
        weight = float(t) ** average
        keep_above, keep_below = _kept(positive, t), _kept(negative, t)
        for who in range(seats):
            _regrets(walk, chance, gain[who], sigma, realised, who, value[who], regret)
            mine = rows[bounds[who] : bounds[who + 1]]
            for row in mine:
                for place in range(start[row], start[row + 1]):
                    total[place] += weight * realised[1 + place]
            if alternate:
                _match(mine, start, past, regret, sigma, realised, keep_above, keep_below)
        if not alternate:
            _match(rows, start, past, regret, sigma, realised, keep_above, keep_below)


@njit(cache=True)
def _kept(power, t):  # type: ignore[no-untyped-def]
    """t^power / (t^power + 1), in a form that cannot overflow; inf and -inf from the start."""
    if np.isinf(power):
        return 1.0 if power > 0 else 0.0
    return 1 / (1 + float(t) ** -power)


@njit(cache=True)
def _regrets(walk, chance, gain, sigma, realised, who, value, regret):  # type: ignore[no-untyped-def]
    """Add a seat's instantaneous counterfactual regrets; value (V,) is filled on the way."""
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
            if mover == who:
                others = others_reach(walk, realised, i, who)
                for child in range(first, walk.last[i]):
                    regret[child + shift] += others * (value[child] - here)
        value[walk.node[i]] = here + gain[walk.node[i]]


@njit(cache=True)
def _match(rows, start, past, regret, sigma, realised, keep_above, keep_below):  # type: ignore[no-untyped-def]
    """Discount regrets; play each action in proportion to its positive one (Hart and Mas-Colell
    2000). rows: a seat's earlier information sets stand before its later ones."""
    for row in rows:
        positive = 0.0
        for place in range(start[row], start[row + 1]):
            regret[place] *= keep_above if regret[place] > 0 else keep_below
            positive += max(regret[place], 0.0)
        for place in range(start[row], start[row + 1]):
            if positive > 0:
                sigma[place] = max(regret[place], 0.0) / positive
            else:
                sigma[place] = 1.0 / (start[row + 1] - start[row])
            realised[1 + place] = realised[past[row]] * sigma[place]
