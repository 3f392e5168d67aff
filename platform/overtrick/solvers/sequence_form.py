"""An exact equilibrium by linear programming (Koller, Megiddo and von Stengel 1996)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, hstack

from overtrick.core import Array, Failed, Refused
from overtrick.solvers.cfr import normalised
from overtrick.solvers.tree import Tree
from overtrick.solvers.walk import down

TOLERANCE = 1e-10  # of the linear program's constraints, the least that the solver takes


class Solver:
    """The linear program in the form of the iterative solvers: done after its first iteration.

    Raises Refused unless the game has two seats and is zero-sum.
    """

    def __init__(self, tree: Tree) -> None:
        _check(tree)
        self.tree = tree
        self.iteration = 0
        self.sigma = tree.uniform()

    def run(self, iterations: int) -> None:
        """Solve, if that has not been done. Raises Failed if the program cannot be solved."""
        if iterations and not self.iteration:
            self.sigma = equilibrium(self.tree)[1]
        self.iteration += iterations

    def average(self) -> Array:
        """(N, A) the equilibrium."""
        return self.sigma

    def state(self) -> dict[str, Array]:
        return {"sigma": self.sigma, "iteration": np.array(self.iteration)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.sigma, self.iteration = state["sigma"], int(state["iteration"])


def equilibrium(tree: Tree) -> tuple[float, Array]:
    """The value to seat 0 in points, and sigma (N, A): a Nash equilibrium.

    A normal-form game is the case of one information set a seat. Raises Refused unless the game
    has two seats and is zero-sum, Failed if the program cannot be solved.
    """
    _check(tree)
    plans = [_most_secured(tree, seat) for seat in range(2)]
    realised = np.where(tree.turn.seat[tree.owner] == 0, plans[0][1], plans[1][1])
    return plans[0][0], normalised(tree, realised)


def _check(tree: Tree) -> None:
    if tree.seats != 2:
        raise Refused(f"the linear program needs 2 seats: this game has {tree.seats}")
    if np.abs(tree.gain.sum(axis=1)).max() > 1e-9:
        raise Refused("the linear program needs a zero-sum game: here gains do not sum to 0")


def _most_secured(tree: Tree, seat: int) -> tuple[float, Array]:
    """The most that a seat can secure against any play, and (L,) the plan that secures it.

    Unknowns are the seat's realisation plan x, by sequence, and what each of the opponent's
    information sets leaves it, v; v of the opponent's start is maximised, and v of a set is at
    most what each action there leaves: its own points and the sets that follow.
    """
    places, sets = len(tree.owner), tree.infosets
    mine = tree.turn.seat == seat
    own, theirs = np.flatnonzero(mine), np.flatnonzero(~mine)
    points = _points(tree, seat)  # (theirs, own) by sequence
    # v has a column for each information set, of which only theirs are used, and one for the start
    leaves = coo_array(
        (
            np.concatenate([np.ones(places + 1), -np.ones(len(theirs))]),
            (
                np.concatenate([np.arange(places + 1), tree.past[theirs]]),
                np.concatenate([[sets], tree.owner, theirs]),
            ),
        ),
        shape=(places + 1, sets + 1),
    )
    at_most = csr_array(hstack([-points, leaves]))
    used = np.append(True, ~mine[tree.owner])  # the opponent's sequences
    flow = coo_array(
        (
            np.concatenate([[1.0], np.ones(mine[tree.owner].sum()), -np.ones(len(own))]),
            (
                np.concatenate([[sets], tree.owner[mine[tree.owner]], own]),
                np.concatenate([[0], 1 + np.flatnonzero(mine[tree.owner]), tree.past[own]]),
            ),
        ),
        shape=(sets + 1, places + sets + 2),
    )
    start = np.zeros(sets + 1)
    start[sets] = 1
    goal = np.zeros(places + sets + 2)
    goal[-1] = -1
    found = linprog(
        goal,
        A_ub=at_most[used],
        b_ub=np.zeros(int(used.sum())),
        A_eq=csr_array(flow)[np.append(mine, True)],
        b_eq=start[np.append(mine, True)],
        bounds=[(0, None)] * (places + 1) + [(None, None)] * (sets + 1),
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if not found.success:
        raise Failed(f"the linear program failed: {found.message}")
    return -float(found.fun), np.maximum(found.x[1 : places + 1], 0)


def _points(tree: Tree, seat: int) -> csr_array:
    """(1 + L, 1 + L) points of a seat by the opponent's sequence and its own, chance counted."""
    paid = np.flatnonzero(tree.gain[:, seat])
    _, luck = down(tree.parent, tree.seat, tree.chance)
    size = len(tree.owner) + 1
    return csr_array(
        (
            tree.gain[paid, seat] * luck[paid],
            (tree.sequence[paid, 1 - seat], tree.sequence[paid, seat]),
        ),
        shape=(size, size),
    )
