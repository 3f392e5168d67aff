"""Exact equilibria of two-player zero-sum games by linear programming on the sequence form.

Source: Koller, Megiddo and von Stengel 1996, "Efficient computation of equilibria for extensive
two-person games".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from overtrick.core import Array, RunError, UserError
from overtrick.core.lazy_modules import sparse
from overtrick.solvers.cfr import strategy_from_weights
from overtrick.solvers.extensive.traversal_order import depth_and_chance_reach
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver

TOLERANCE = 1e-10  # feasibility tolerance; the smallest that HiGHS accepts
PLAIN_POINTS = (1e-4, 1e4)
"""Sizes of the largest expected points at which a program is solved as it is.

HiGHS neglects coefficients below 1e-9, and its tolerances are absolute. Other programs are solved
in other units.
"""


class SequenceFormSolver(IterativeSolver):
    """Solver of two-player zero-sum games by the sequence-form linear program.

    It has the interface of the iterative solvers: the first iteration solves the program, and later
    iterations change nothing. Raises UserError unless the game has two seats and is zero-sum.
    """

    saved = ("iteration", "sigma")

    def __init__(self, tree: Tree) -> None:
        check_two_player_zero_sum(tree)
        self.tree = tree
        self.sigma = tree.uniform()

    def run(self, iterations: int) -> None:
        """Solve the linear program in the first iteration; later iterations change nothing.

        `iterations`: added to the count of iterations; with 0 nothing is solved. Raises RunError if
        the program cannot be solved.
        """
        if iterations and not self.iteration:
            self.sigma = equilibrium(self.tree)[1]
        self.iteration += iterations

    def average(self) -> Array:
        """Return the equilibrium strategy (N, A) that `run` found; before `run`, the uniform one.

        The name is that of the common interface: most solvers return an average strategy here.
        """
        return self.sigma


def equilibrium(tree: Tree) -> tuple[float, Array]:
    """Return the game's value to seat 0 in points, and a Nash equilibrium sigma (N, A).

    A normal-form game is the special case of one information set for each seat. Raises UserError
    unless the game has two seats and is zero-sum. Raises RunError if the linear program cannot be
    solved.
    """
    check_two_player_zero_sum(tree)
    solutions = [
        solve_program(each, each.secured)
        for each in (seat_program(tree, seat) for seat in range(2))
    ]
    return float(solutions[0][-1]), strategy_from_solutions(tree, solutions)


def check_two_player_zero_sum(tree: Tree, what: str = "the linear program") -> None:
    """Raise UserError unless the game has two seats and is zero-sum.

    `what`: the name of the method that needs this, for the message.
    """
    if tree.seats != 2:
        raise UserError(f"{what} needs 2 seats: this game has {tree.seats}")
    if not is_two_player_zero_sum(tree):
        raise UserError(f"{what} needs a zero-sum game: here gains do not sum to 0")


def is_two_player_zero_sum(tree: Tree) -> bool:
    """Return whether the game has two seats whose points sum to 0."""
    if tree.seats != 2:
        return False
    largest = float(np.abs(tree.gain).max(initial=0))
    return bool((np.abs(tree.gain.sum(axis=1)) <= 1e-9 * largest).all())


class LinearProgram(NamedTuple):
    """Constraints of a linear program over U unknowns: bounds, inequalities and equations.

    The program of one seat (see seat_program) is the sequence-form program of Koller, Megiddo and
    von Stengel. The tree has N information sets with L legal actions in total. The unknowns are, in
    this order:

    - 1 + L entries: the seat's realisation plan. Entries at the opponent's actions are unused.
    - N entries: the dual variables of the opponent's best response. At an information set of the
      opponent the dual variable is the seat's expected points against this best response, weighted
      by the reach probability of chance and the seat. Entries at own information sets are unused.
    - 1 entry: the payoff that the realisation plan guarantees.

    There is one inequality for each sequence of the opponent. The inequality states that the
    opponent minimises: the dual variable of an information set is at most the seat's weighted
    points after the sequence's last action there. The inequality of the empty sequence bounds the
    guaranteed payoff.
    """

    points: sparse.csr_array  # expected points (1 + L, 1 + L) by opponent's and own sequence
    lower: Array  # (U,) lower bounds of the unknowns: 0 or -inf
    inequalities: sparse.csr_array  # (rows, U); inequalities @ unknowns <= limits
    limits: Array  # (rows,)
    equations: sparse.csr_array  # (rows, U); equations @ unknowns = right_side
    right_side: Array  # (rows,)

    @property
    def secured(self) -> Array:
        """(U,) objective for solve_program: maximise the payoff that the seat's plan guarantees.

        The coefficient is 1 for the guaranteed payoff, the last unknown, and 0 for all others. The
        solution holds a maximin strategy of the seat, as a realisation plan.
        """
        goal = np.zeros(len(self.lower))
        goal[-1] = 1
        return goal


def seat_program(tree: Tree, seat: int) -> LinearProgram:
    """Return the sequence-form constraints on a seat's realisation plan and its guaranteed payoff.

    LinearProgram lists the unknowns. For a given plan, the largest feasible guaranteed payoff is
    the plan's payoff against a best response of the opponent.
    """
    actions, infosets = len(tree.action_infoset), tree.infosets
    own = tree.observations.seat == seat
    own_action = own[tree.action_infoset]
    own_infosets, other_infosets = np.flatnonzero(own), np.flatnonzero(~own)
    # row: sequence of the opponent; column: payoff from an information set that it involves
    values_left = _sparse(
        (actions + 1, infosets + 1),
        (1.0, np.arange(actions + 1), np.append(infosets, tree.action_infoset)),
        (-1.0, tree.parent_sequence[other_infosets], other_infosets),
    )
    # row: information set; the probabilities of its actions sum to that of its parent sequence
    flow = _sparse(
        (infosets + 1, actions + infosets + 2),
        (1.0, np.array([infosets]), np.array([0])),
        (1.0, tree.action_infoset[own_action], 1 + np.flatnonzero(own_action)),
        (-1.0, own_infosets, tree.parent_sequence[own_infosets]),
    )
    points = payoff_matrix(tree, seat)
    other_sequences = np.append(True, ~own_action)
    used = np.append(own, True)
    return LinearProgram(
        points,
        np.append(np.zeros(actions + 1), np.full(infosets + 1, -np.inf)),
        sparse.csr_array(sparse.hstack([-points, values_left]))[other_sequences],
        np.zeros(int(other_sequences.sum())),
        sparse.csr_array(flow)[used],
        np.append(np.zeros(infosets), 1.0)[used],
    )


def _sparse(shape: tuple[int, int], *entries: tuple[float, Array, Array]) -> sparse.coo_array:
    """Build a sparse matrix from entries (value, rows, columns).

    Each entry puts its value at all positions (rows[k], columns[k]).
    """
    values, rows, columns = zip(*entries, strict=True)
    repeated = np.repeat(values, [len(each) for each in rows])
    return sparse.coo_array(
        (repeated, (np.concatenate(rows), np.concatenate(columns))), shape=shape
    )


def solve_program(program: LinearProgram, goal: Array) -> Array:
    """Return the unknowns (U,) of a linear program that maximise the objective.

    `goal` (U,): objective coefficient of each unknown. Raises RunError if there is no solution.
    """
    from scipy.optimize import linprog

    unit, scale = np.ones(len(goal)), float(np.abs(program.points.data).max(initial=0))
    if scale and not PLAIN_POINTS[0] <= scale <= PLAIN_POINTS[1]:
        unit[program.lower < 0] = scale
        program, goal = _in_units(program, goal, unit)
    tolerances = dict.fromkeys(
        ("primal_feasibility_tolerance", "dual_feasibility_tolerance"), TOLERANCE
    )
    found = linprog(
        -goal,
        A_ub=program.inequalities,
        b_ub=program.limits,
        A_eq=program.equations,
        b_eq=program.right_side,
        bounds=np.stack([program.lower, np.full(len(goal), np.inf)], axis=1),
        method="highs",
        options=tolerances,
    )
    if not found.success:
        raise RunError(f"the linear program failed: {found.message}")
    return unit * np.where(program.lower == 0, np.maximum(found.x, 0), found.x)


def _in_units(program: LinearProgram, goal: Array, unit: Array) -> tuple[LinearProgram, Array]:
    """Return an equivalent linear program and its objective (U,) for unknowns in other units.

    `unit` (U,): unit of each unknown. Each row, and the objective, is divided by its largest
    coefficient.
    """

    def rows(matrix: sparse.csr_array, side: Array) -> tuple[sparse.csr_array, Array]:
        changed = sparse.csr_array(matrix @ sparse.diags_array(unit))
        largest = abs(changed).max(axis=1).toarray().reshape(-1)
        largest[largest == 0] = 1
        return sparse.csr_array(sparse.diags_array(1 / largest) @ changed), side / largest

    inequalities, limits = rows(program.inequalities, program.limits)
    equations, right_side = rows(program.equations, program.right_side)
    changed = program._replace(
        inequalities=inequalities, limits=limits, equations=equations, right_side=right_side
    )
    return changed, goal * unit / max(float(np.abs(goal * unit).max()), np.finfo(float).tiny)


def strategy_from_solutions(tree: Tree, solutions: Sequence[Array]) -> Array:
    """Return the strategy (N, A) in the solved linear programs of both seats.

    `solutions`: for each seat the unknowns (U,) of its program, from solve_program. The strategy is
    uniform at information sets that the acting seat's own actions never reach.
    """
    plans = [each[1 : len(tree.action_infoset) + 1] for each in solutions]
    return strategy_from_weights(
        tree, np.where(tree.observations.seat[tree.action_infoset] == 0, *plans)
    )


def payoff_matrix(tree: Tree, seat: int) -> sparse.csr_array:
    """Return a seat's payoff matrix (1 + L, 1 + L) of the sequence form.

    Rows are the opponent's sequences, columns the seat's own. Row and column 0 are the empty
    sequences. Row and column 1 + k are the sequence whose last action is legal action k, from 0 to
    L - 1. An entry is the seat's points on all edges to nodes with these two sequences, each
    multiplied by the node's chance reach probability.
    """
    paying = np.flatnonzero(tree.gain[:, seat])
    _, chance_reach = depth_and_chance_reach(tree.parent, tree.seat, tree.chance)
    sequences = len(tree.action_infoset) + 1
    return sparse.csr_array(
        (
            tree.gain[paying, seat] * chance_reach[paying],
            (tree.sequence[paying, 1 - seat], tree.sequence[paying, seat]),
        ),
        shape=(sequences, sequences),
    )
