"""Magnetic mirror descent with dilated entropy, for two-player zero-sum games.

Source: Sokota et al. 2023, "A unified approach to reinforcement learning, quantal response
equilibria, and two-player zero-sum games". In the sequence form, with step size eta and temperature
alpha, the realisation plan x of a seat, whose payoff has the gradient g, becomes

    argmax over x' of  <g, x'> - alpha psi(x') - B(x', x) / eta

Here psi is the dilated entropy: the sum over information sets of the reach by the seat's own
actions times the negative entropy of the strategy there. B is its Bregman divergence. The last
strategy, not the average, converges.

At a fixed temperature, eta = alpha / L^2, where L is the largest absolute entry of the payoff
matrix, and both seats are updated at once. The limit is the quantal response equilibrium (QRE) of
the reduced normal form, not the agent QRE: psi is the negative entropy over reduced pure
strategies.

| here | the paper |
|---|---|
| magnet: the strategy of smallest psi, all reduced pure strategies alike | any strategy |
| annealed: alpha = 5 L / t, eta = 1 / L, the seats in turn | alpha, eta of the order 1 / sqrt(t) |
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, UserError
from overtrick.solvers import sequence_form
from overtrick.solvers.extensive.traversal_order import realisation_plan
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver

LEAST_TEMPERATURE, MOST_TEMPERATURE = 1e-6, 1e6  # points
ANNEALED = 5.0  # temperature in iteration 1, in units of the largest entry of the payoff matrix


class MirrorDescentSolver(IterativeSolver):
    """Magnetic mirror descent on a game tree, at a fixed temperature or annealed.

    At a fixed temperature it converges to the quantal response equilibrium of that temperature. The
    annealed temperature falls to 0, and the strategy approaches a Nash equilibrium.
    """

    saved = ("iteration", "log_sigma")

    def __init__(self, tree: Tree, temperature: float | None = None) -> None:
        """Set up the uniform strategy.

        `temperature`: alpha in points; None: annealed. Raises UserError unless the game has two
        seats and is zero-sum, and for a temperature out of range.
        """
        sequence_form.check_two_player_zero_sum(tree, "magnetic mirror descent")
        if temperature is not None and not LEAST_TEMPERATURE <= temperature <= MOST_TEMPERATURE:
            raise UserError(
                f"the temperature must be {LEAST_TEMPERATURE:g} to {MOST_TEMPERATURE:g}, "
                f"not {temperature:g}"
            )
        self.tree = tree
        self.temperature = temperature
        self.log_sigma = np.log(tree.flat(tree.uniform()))  # (L,)
        points = sequence_form.payoff_matrix(tree, 0)
        self.gradients = points.T.tocsr(), -points  # (1 + L, 1 + L) by own, others' sequence
        self.largest = float(abs(points).max()) or 1.0
        bounds = np.searchsorted(tree.observations.seat[tree.order], np.arange(3))
        self.rows = [tree.order[bounds[seat] : bounds[seat + 1]] for seat in range(2)]

    def run(self, iterations: int) -> None:
        """Run more iterations; each iteration updates both seats once. With 0, only compile."""
        if not iterations:
            self.qre_gap()
        for _ in range(iterations):
            self.iteration += 1
            annealed = self.temperature is None
            temperature = self._temperature()
            step = 1 / self.largest if annealed else temperature / self.largest**2
            plan = self._plan()
            for seat in range(2):
                if annealed:
                    plan = self._plan()
                self._update_seat(seat, plan, self.log_sigma, 1 / step, temperature)

    def average(self) -> Array:
        """Return the strategy (N, A) after the last iteration.

        The name is that of the common interface: most solvers return an average strategy here.
        """
        return self.tree.table(np.exp(self.log_sigma))

    def qre_gap(self) -> float:
        """Return the NashConv of the game whose payoffs are points - temperature * psi, in points.

        It is summed over both seats, and 0 at the quantal response equilibrium. Annealed, the
        temperature is that of the last iteration.
        """
        temperature, plan, best = self._temperature(), self._plan(), self.log_sigma.copy()
        values = [self._update_seat(seat, plan, best, 0, temperature) for seat in range(2)]
        regularised = (
            temperature * (plan[1:] * self.log_sigma).sum()
        )  # points of the seats sum to 0
        return max(0.0, float(sum(values) + regularised))  # below 0 only by rounding

    def _temperature(self) -> float:
        return self.temperature or ANNEALED * self.largest / max(1, self.iteration)

    def _plan(self) -> Array:
        return realisation_plan(self.tree, np.exp(self.log_sigma))

    def _update_seat(
        self, seat: int, plan: Array, log_sigma: Array, proximity: float, temperature: float
    ) -> float:
        """Move a seat's part of log_sigma (L,) by one step; return the value of its maximum.

        `plan` (1 + L,): realisation plan of both seats. `proximity`: 1 / eta; 0 for the best
        response of the regularised game.
        """
        tree = self.tree
        gradient = self.gradients[seat] @ plan
        _solve_step(
            self.rows[seat], tree.start, tree.parent_sequence, gradient, log_sigma,
            float(proximity), float(temperature),
        )  # fmt: skip
        return float(gradient[0])


@njit(cache=True)
def _solve_step(rows, start, past, gradient, log_sigma, proximity, temperature):  # type: ignore[no-untyped-def]
    """Maximise <gradient, x> - temperature psi(x) - proximity B(x, x_old) over realisation plans x.

    The module's docstring defines psi and B. The maximum has a closed form at each information set,
    computed from the last decisions to the first: the strategy is the softmax of (gradient +
    proximity log_old) / (proximity + temperature), and its value is added to the gradient of the
    parent sequence. Afterwards gradient[0] is the value of the maximum.

    - `rows`: the seat's information sets, earlier decisions before later ones
    - `start` (N + 1,), `past` (N,): first legal action and parent sequence of information sets
    - `gradient` (1 + L,): points by sequence; changed in place
    - `log_sigma` (L,): logarithms of the old strategy; afterwards of the new one
    - `proximity`, `temperature`: numbers of at least 0, not both 0
    """
    scale = proximity + temperature
    for row in rows[::-1]:
        places = range(start[row], start[row + 1])
        top = -np.inf
        for place in places:
            log_sigma[place] = (gradient[1 + place] + proximity * log_sigma[place]) / scale
            top = max(top, log_sigma[place])
        total = 0.0
        for place in places:
            total += np.exp(log_sigma[place] - top)
        log_total = top + np.log(total)
        for place in places:
            log_sigma[place] -= log_total
        gradient[past[row]] += scale * log_total
