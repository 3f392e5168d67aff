"""Solver that chooses an algorithm by looking at the tree, or by a trial run.

A two-player zero-sum game with few information sets is solved by the linear program, which is exact
and takes a few hundredths of a second. In other games, a
trial runs pcfr+ or, from 1,000 iterations on, sapcfr+ for a tenth of the iterations. Then
hs-pdcfr+ starts anew if the exploitability has become a small share of the first ones, or has
fallen faster than 1 / T^2 in the second half of the trial: its average forgets early strategies,
and in the long run its exploitability falls faster. Otherwise the run is short for the game, and
the trial goes on, because its variants make good use of few iterations.

The bounds were chosen on games other than those of jobs/solver_table.yaml: leduc, one_card,
liars_dice with 3 and 4 faces, and OpenSpiel's goofspiel with 3 cards and with 4 in random order,
oshi_zumo, first_sealed_auction, sheriff, kuhn_poker with four players, and battleship on 1 x 4
fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from overtrick.core import Array
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver
from overtrick.solvers.scheduled_cfr import VARIANTS, ScheduledCfrSolver
from overtrick.solvers.sequence_form import SequenceFormSolver, is_two_player_zero_sum

FEW, MANY, LONG, EXACT = CHOICES = ("pcfr+", "sapcfr+", "hs-pdcfr+", "lp")
MANY_ITERATIONS = 1000  # from so many on, the trial runs sapcfr+
MAX_EXACT_INFOSETS = 200  # of a game for the linear program
TRIAL_SHARE = 10  # the trial takes one in so many iterations
SQUARE = 4  # 1 / T^2 falls by this factor while T doubles
BOUND_AT_100, BOUND_POWER, LEAST_BOUND = 0.13, -1.7, 1e-3


class AutoSolver(IterativeSolver):
    """The linear program, or CFR that begins with a trial run and then may change its variant."""

    saved = ("iteration", "choice", "first_gap", "half_gap", "gap")

    def __init__(self, tree: Tree, horizon: int) -> None:
        """Choose the linear program, or set up the trial.

        `horizon`: number of iterations of the whole run, with those of the trial.
        """
        self.tree = tree
        self.horizon = horizon
        self.choice = -1  # index in CHOICES; -1: the trial has not ended
        self.first_gap = 0.0  # largest exploitability after 1, 2, 4, ... iterations of the trial
        self.half_gap = 0.0  # exploitability after half of the trial
        self.gap = 0.0  # exploitability at the end of the trial
        if tree.infosets <= MAX_EXACT_INFOSETS and is_two_player_zero_sum(tree):
            self.choice = CHOICES.index(EXACT)
        self.solver = self._solver()

    @property
    def trial_plan(self) -> str:
        """Name of the CFR variant of the trial."""
        return MANY if self.horizon >= MANY_ITERATIONS else FEW

    @property
    def trial(self) -> int:
        """Number of iterations of the trial."""
        return -(-self.horizon // TRIAL_SHARE)

    @property
    def bound(self) -> float:
        """Share of the first exploitability below which hs-pdcfr+ is chosen."""
        return max(LEAST_BOUND, BOUND_AT_100 * (self.horizon / 100) ** BOUND_POWER)

    @property
    def chosen(self) -> str | None:
        """Name of the chosen algorithm; None before the end of the trial."""
        return CHOICES[self.choice] if self.choice >= 0 else None

    @property
    def reason(self) -> str:
        """Which algorithm was chosen and why, in a few words."""
        if self.chosen is None:
            return f"the trial of {self.trial:,} iterations has not ended"
        if self.chosen == EXACT:
            return f"lp, because the game has only {self.tree.infosets} information sets"
        return (
            f"{self.chosen}, because {self.trial:,} iterations of {self.trial_plan} lowered the "
            f"exploitability from {self.first_gap:.2g} to {self.gap:.2g}, and the second half "
            f"of them by a factor of {self.half_gap / max(self.gap, 1e-300):.2g}; {LONG} is chosen "
            f"below {self.bound * self.first_gap:.2g}, or above {SQUARE}"
        )

    def run(self, iterations: int) -> None:
        """Run more iterations. Raises UserError beyond the length of a run of hs-pdcfr+."""
        last = self.iteration + iterations
        while self.choice < 0 and self.iteration < last:
            power, half = 2 ** self.iteration.bit_length(), self.trial // 2
            stops = (power, half, self.trial)
            self._run_to(min(stop for stop in (*stops, last) if stop > self.iteration))
            if self.iteration in stops:
                self.gap = best_response.exploitability(self.tree, self.solver.average())
                self.first_gap = max(self.first_gap, self.gap)
            if self.iteration == half:
                self.half_gap = self.gap
            if self.iteration == self.trial:
                self._choose()
        self._run_to(last)

    def average(self) -> Array:
        """Return the strategy (N, A) that the running algorithm has found."""
        return self.solver.average()

    def parts(self) -> Mapping[str, IterativeSolver]:
        """Return the solver of the running algorithm."""
        return {"solver": self.solver}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the state; the solver of the running algorithm is made first."""
        self.choice = int(state["choice"])
        self.solver = self._solver()
        super().load(state)

    def _run_to(self, iteration: int) -> None:
        self.solver.run(iteration - self.iteration)
        self.iteration = iteration

    def _choose(self) -> None:
        """Continue the trial, or start hs-pdcfr+ for the remaining iterations."""
        if self.gap <= self.bound * self.first_gap or self.half_gap >= SQUARE * self.gap:
            self.choice = CHOICES.index(LONG)
            self.solver = self._solver()
        else:
            self.choice = CHOICES.index(self.trial_plan)

    def _solver(self) -> IterativeSolver:
        if self.chosen == EXACT:
            return SequenceFormSolver(self.tree)
        if self.chosen == LONG:
            remaining = max(1, self.horizon - self.trial)
            return ScheduledCfrSolver(self.tree, VARIANTS[LONG], remaining)
        return ScheduledCfrSolver(self.tree, VARIANTS[self.trial_plan], self.horizon)
