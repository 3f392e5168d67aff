"""An exact equilibrium by linear programming (Koller, Megiddo and von Stengel 1996)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, hstack

from overtrick.core import Array, RunError, UserError
from overtrick.solvers.cfr import strategy_from_weights
from overtrick.solvers.extensive.traversal import depth_and_chance_reach
from overtrick.solvers.extensive.tree import Tree

TOLERANCE = 1e-10  # of the linear program's constraints, the least that the solver takes


class SequenceFormSolver:
    """The linear program in the form of the iterative solvers: done after its first iteration.

    Raises UserError unless the game has two seats and is zero-sum.
    """

    def __init__(self, tree: Tree) -> None:
        check_two_player_zero_sum(tree)
        self.tree = tree
        self.iteration = 0
        self.sigma = tree.uniform()

    def run(self, iterations: int) -> None:
        """Solve, if that has not been done. Raises RunError if the program cannot be solved."""
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

    A normal-form game is the case of one information set a seat. Raises UserError unless the game
    has two seats and is zero-sum, RunError if the program cannot be solved.
    """
    check_two_player_zero_sum(tree)
    found = [
        solve_program(each, each.secured)
        for each in (seat_program(tree, seat) for seat in range(2))
    ]
    return float(found[0][-1]), strategy_from_solutions(tree, found)


def check_two_player_zero_sum(tree: Tree, what: str = "the linear program") -> None:
    """Raise UserError, naming what needs it, unless the game has two seats and is zero-sum."""
    if tree.seats != 2:
        raise UserError(f"{what} needs 2 seats: this game has {tree.seats}")
    if np.abs(tree.gain.sum(axis=1)).max() > 1e-9:
        raise UserError(f"{what} needs a zero-sum game: here gains do not sum to 0")


class LinearProgram(NamedTuple):
    """What binds the U unknowns of a linear program, here those of one seat.

    They are its realisation plan, by sequence (1 + L,); what each of the opponent's information
    sets leaves it (N,), of which only theirs are used; and last what the opponent's start leaves
    it, which is what the plan secures against any play. A set leaves at most what each action
    there leaves: its own points and the sets that follow.
    """

    points: csr_array  # (1 + L, 1 + L) points by the opponent's sequence and the seat's
    least: Array  # (U,) 0 or -inf
    at_most: csr_array  # (rows, U) times the unknowns is at most
    most: Array  # (rows,)
    flow: csr_array  # (rows, U) times the unknowns is
    start: Array  # (rows,)

    @property
    def secured(self) -> Array:
        """(U,) the goal of an equilibrium: what the plan secures."""
        goal = np.zeros(len(self.least))
        goal[-1] = 1
        return goal


def seat_program(tree: Tree, seat: int) -> LinearProgram:
    """What binds a seat's plan and what it secures."""
    places, sets = len(tree.owner), tree.infosets
    mine = tree.observations.seat == seat
    own, theirs = np.flatnonzero(mine), np.flatnonzero(~mine)
    points = _points(tree, seat)
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
    obeyed = np.append(mine, True)
    return LinearProgram(
        points,
        np.append(np.zeros(places + 1), np.full(sets + 1, -np.inf)),
        csr_array(hstack([-points, leaves]))[used],
        np.zeros(int(used.sum())),
        csr_array(flow)[obeyed],
        start[obeyed],
    )


def solve_program(bound: LinearProgram, goal: Array) -> Array:
    """(U,) the unknowns with the most goal (U,). Raises RunError if there are none."""
    found = linprog(
        -goal,
        A_ub=bound.at_most,
        b_ub=bound.most,
        A_eq=bound.flow,
        b_eq=bound.start,
        bounds=np.stack([bound.least, np.full(len(goal), np.inf)], axis=1),
        method="highs",
        options={
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
        },
    )
    if not found.success:
        raise RunError(f"the linear program failed: {found.message}")
    return np.where(bound.least == 0, np.maximum(found.x, 0), found.x)


def strategy_from_solutions(tree: Tree, found: Sequence[Array]) -> Array:
    """(N, A) what both seats do by unknowns (U,) of each; uniform where no own choice leads."""
    realised = [each[1 : len(tree.owner) + 1] for each in found]
    return strategy_from_weights(tree, np.where(tree.observations.seat[tree.owner] == 0, *realised))


def _points(tree: Tree, seat: int) -> csr_array:
    """Points of a seat by the opponent's sequence and its own, chance counted."""
    paid = np.flatnonzero(tree.gain[:, seat])
    _, luck = depth_and_chance_reach(tree.parent, tree.seat, tree.chance)
    size = len(tree.owner) + 1
    return csr_array(
        (
            tree.gain[paid, seat] * luck[paid],
            (tree.sequence[paid, 1 - seat], tree.sequence[paid, seat]),
        ),
        shape=(size, size),
    )
