"""Counterfactual regret minimisation on arrays (Zinkevich et al. 2007), variants as plans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.solvers.tree import CHANCE, Tree


@dataclass(frozen=True)
class Plan:
    """One variant of counterfactual regret minimisation."""

    clip: bool  # keep cumulative regrets at or above 0 (regret matching+)
    linear: bool  # weigh the strategy of iteration t by t in the average, else by 1
    alternate: bool  # each seat sees what the seats before it have just learned


CFR = Plan(clip=False, linear=False, alternate=True)
"""Zinkevich et al. 2007, with alternating updates."""

CFR_PLUS = Plan(clip=True, linear=True, alternate=True)
"""Tammelin 2014, "Solving large imperfect information games using CFR+"."""

PLANS = {"cfr": CFR, "cfr+": CFR_PLUS}


class Solver:
    """The memory of a run: `run` adds iterations, `average` is the strategy so far.

    Sums run in the order in which a depth-first walk would meet their terms, so that a run can
    be compared with OpenSpiel's to the last digits: CFR+ amplifies rounding after about 100
    iterations.
    """

    def __init__(self, tree: Tree, plan: Plan = CFR_PLUS) -> None:
        self.tree = tree
        self.plan = plan
        self.iteration = 0
        self.regret = np.zeros(tree.legal.shape)  # (N, A) cumulative
        self.total = np.zeros(tree.legal.shape)  # (N, A) reach-weighted sum of strategies
        self.sigma = tree.uniform()  # (N, A) the strategy of the next iteration

    def run(self, iterations: int) -> None:
        """Add iterations; each updates every seat once."""
        tree, plan = self.tree, self.plan
        _run(
            tree.parent, tree.first, tree.children, tree.edge, tree.seat, tree.infoset,
            tree.chance, tree.gain, tree.turn.seat, tree.legal,
            self.regret, self.total, self.sigma,
            self.iteration, iterations, plan.clip, plan.linear, plan.alternate,
        )  # fmt: skip
        self.iteration += iterations

    def average(self) -> Array:
        """(N, A) the average strategy; uniform where no iteration has come."""
        weight = self.total.sum(axis=1, keepdims=True)
        seen = weight > 0
        return np.where(seen, self.total / np.where(seen, weight, 1), self.tree.uniform())


def solve(tree: Tree, iterations: int, plan: Plan = CFR_PLUS) -> Array:
    """The average strategy (N, A) after some iterations."""
    solver = Solver(tree, plan)
    solver.run(iterations)
    return solver.average()


@njit(cache=True)
def _run(  # type: ignore[no-untyped-def]  # noqa: PLR0912
    parent, first, children, edge, seat, infoset, chance, gain, owner, legal,
    regret, total, sigma,
    start, iterations, clip, linear, alternate,
):  # fmt: skip
    nodes, seats = gain.shape
    probability = np.ones(nodes)
    reach = np.ones((nodes, seats + 1))  # by each seat's own choices; chance in the last column
    value = np.empty(nodes)
    for t in range(start + 1, start + iterations + 1):
        weight = float(t) if linear else 1.0
        for who in range(seats):
            for node in range(1, nodes):
                above = parent[node]
                mover = seat[above]
                p = chance[node] if mover == CHANCE else sigma[infoset[above], edge[node]]
                probability[node] = p
                for other in range(seats + 1):
                    reach[node, other] = reach[above, other]
                reach[node, mover] *= p  # CHANCE is -1, the last column
            for node in range(nodes - 1, -1, -1):
                total_here = 0.0
                for child in range(first[node], first[node] + children[node]):
                    total_here += probability[child] * value[child]
                value[node] = total_here + gain[node, who]
            for node in range(1, nodes):
                above = parent[node]
                if seat[above] == who:
                    others = 1.0
                    for other in range(seats + 1):
                        if other != who:
                            others *= reach[above, other]
                    # the value of `above` holds its own gain, which no action can change
                    better = value[node] - (value[above] - gain[above, who])
                    row = infoset[above]
                    regret[row, edge[node]] += others * better
                    total[row, edge[node]] += weight * reach[above, who] * probability[node]
            if alternate:
                _match(regret, legal, owner, sigma, who, clip)
        if not alternate:
            for who in range(seats):
                _match(regret, legal, owner, sigma, who, clip)


@njit(cache=True)
def _match(regret, legal, owner, sigma, who, clip):  # type: ignore[no-untyped-def]
    """Play each action in proportion to its positive regret (Hart and Mas-Colell 2000)."""
    for row in range(len(regret)):
        if owner[row] != who:
            continue
        positive = 0.0
        choices = 0
        for a in range(regret.shape[1]):
            if clip and regret[row, a] < 0:
                regret[row, a] = 0.0
            positive += max(regret[row, a], 0.0)
            choices += legal[row, a]
        for a in range(regret.shape[1]):
            if not legal[row, a]:
                sigma[row, a] = 0.0
            elif positive > 0:
                sigma[row, a] = max(regret[row, a], 0.0) / positive
            else:
                sigma[row, a] = 1.0 / choices
