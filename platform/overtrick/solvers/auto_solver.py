"""Solver that chooses an algorithm by looking at the tree, or by a trial run.

A two-player zero-sum game with few information sets is solved by the linear program, which is exact
and takes a few hundredths of a second. In other games, a trial takes a tenth of the run. It runs
pcfr+ if the whole run is shorter than 1,000 iterations, otherwise sapcfr+. Then hs-pdcfr+ starts
anew if the exploitability has become a small share of the largest one in the trial, or has fallen
at least as fast as 1 / T^2 in its second half: the average of hs-pdcfr+ forgets early strategies,
and in the long run its exploitability falls faster. Otherwise, and in runs of fewer than 100
iterations, the trial goes on, because its variants make good use of few iterations.

The bounds were chosen on games other than those of jobs/solver_table.yaml: leduc, one_card,
liars_dice with 3 and 4 faces, and OpenSpiel's goofspiel with 3 cards and with 4 in random order,
oshi_zumo, first_sealed_auction, sheriff, kuhn_poker with four players, and battleship on 1 x 4
fields. The results of that job are no untouched test: the rule's form, the least share and the
limit of the linear program were settled after seeing some of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from overtrick.core import Array, UserError
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver
from overtrick.solvers.scheduled_cfr import VARIANTS, ScheduledCfrSolver
from overtrick.solvers.sequence_form import SequenceFormSolver, is_two_player_zero_sum

SHORT_TRIAL, LONG_TRIAL, RESTART, EXACT = CHOICES = ("pcfr+", "sapcfr+", "hs-pdcfr+", "lp")
SHORT_RUN = 100  # shorter runs stay with the trial
LONG_RUN = 1000  # iterations of a run whose trial runs sapcfr+
MAX_EXACT_INFOSETS = 200  # of a game for the linear program
TRIAL_DIVISOR = 10  # the trial takes one in so many iterations
FAST_DECREASE = 4  # 1 / T^2 falls by this factor while T doubles
# the share is at most max(least, at 100 * (iterations / 100)^power)
BOUND_AT_100, BOUND_POWER, LEAST_BOUND = 0.13, -1.7, 1e-3


class AutoSolver(IterativeSolver):
    """The linear program, or CFR that begins with a trial run and then may change its variant."""

    saved = ("iteration", "choice", "largest_gap", "half_gap", "gap")

    def __init__(self, tree: Tree, horizon: int) -> None:
        """Choose the linear program, or set up the trial.

        `horizon`: number of iterations of the whole run, with those of the trial.
        """
        self.tree = tree
        self.horizon = horizon
        self.choice = -1  # index in CHOICES; -1: the trial has not ended
        self.largest_gap = 0.0  # largest exploitability measured in the trial
        self.half_gap = 0.0  # exploitability after half of the trial
        self.gap = 0.0  # exploitability at the end of the trial
        if tree.infosets <= MAX_EXACT_INFOSETS and is_two_player_zero_sum(tree):
            self.choice = CHOICES.index(EXACT)
        self.solver = self._solver()
        self.trial_solver = self.solver

    @property
    def trial_plan(self) -> str:
        """Name of the CFR variant of the trial."""
        return LONG_TRIAL if self.horizon >= LONG_RUN else SHORT_TRIAL

    @property
    def trial(self) -> int:
        """Number of iterations of the trial."""
        return -(-self.horizon // TRIAL_DIVISOR)

    @property
    def bound(self) -> float:
        """Largest share of the largest exploitability with which hs-pdcfr+ is chosen."""
        return max(LEAST_BOUND, BOUND_AT_100 * (self.horizon / 100) ** BOUND_POWER)

    @property
    def chosen(self) -> str | None:
        """Name of the chosen algorithm; None before the end of the trial."""
        return CHOICES[self.choice] if self.choice >= 0 else None

    @property
    def reason(self) -> str:
        """Name of the chosen algorithm and the reason for the choice, in one line."""
        if self.chosen is None:
            return f"the trial of {self.trial:,} iterations has not ended"
        if self.chosen == EXACT:
            return f"lp: the game has only {self.tree.infosets} information sets"
        half = (
            f", by a factor of {self.half_gap / self.gap:.2g} in its second half"
            if (self.half_gap and self.gap)
            else ""
        )
        return (
            f"{self.chosen}: in a trial of {self.trial:,} iterations of {self.trial_plan} the "
            f"exploitability fell from {self.largest_gap:.2g} to {self.gap:.2g}{half}; {RESTART} "
            f"needs at most {self.bound * self.largest_gap:.2g}, or a factor of at least "
            f"{FAST_DECREASE}"
        )

    def run(self, iterations: int) -> None:
        """Run more iterations. Raises UserError beyond the length of the whole run."""
        last = int(self.iteration + iterations)
        if last > self.horizon and self.chosen != EXACT:
            raise UserError(
                f"the algorithm was chosen for a run of {self.horizon:,} iterations: "
                f"to do {last:,}, solve again with that number"
            )
        while self.choice < 0 and self.iteration < last:
            power, half = 2 ** self.iteration.bit_length(), self.trial // 2
            stops = (power, half, self.trial)
            self._run_to(min(stop for stop in (*stops, last) if stop > self.iteration))
            if self.iteration in stops:
                self.gap = best_response.exploitability(self.tree, self.solver.average())
                self.largest_gap = max(self.largest_gap, self.gap)
            if self.iteration == half:
                self.half_gap = self.gap
            if self.iteration == self.trial:
                self._choose()
        self._run_to(last)

    def average(self) -> Array:
        """Return the strategy (N, A) that the running algorithm has found.

        Until hs-pdcfr+ has done as many iterations as the trial, it is that of the trial.
        """
        behind = self.solver.iteration < self.trial_solver.iteration
        return (self.trial_solver if behind else self.solver).average()

    def parts(self) -> Mapping[str, IterativeSolver]:
        """Return the solver of the running algorithm, and that of the trial if it is another."""
        trial = {"trial": self.trial_solver} if self.chosen == RESTART else {}
        return {"solver": self.solver, **trial}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the state; the solver of the running algorithm is made first."""
        self.choice = int(state["choice"])
        self.solver = self.trial_solver = self._solver()
        if self.chosen == RESTART:
            self.trial_solver = self._trial_solver()
        super().load(state)

    def _run_to(self, iteration: int) -> None:
        self.solver.run(iteration - self.iteration)  # hs-pdcfr+ counts from its own start
        self.iteration = iteration

    def _choose(self) -> None:
        """Continue the trial, or start hs-pdcfr+ for the remaining iterations."""
        small = self.gap <= self.bound * self.largest_gap
        fast = self.half_gap >= FAST_DECREASE * self.gap
        if self.horizon >= SHORT_RUN and self.gap > 0 and (small or fast):
            self.choice = CHOICES.index(RESTART)
            self.solver = self._solver()
        else:
            self.choice = CHOICES.index(self.trial_plan)

    def _solver(self) -> IterativeSolver:
        if self.chosen == EXACT:
            return SequenceFormSolver(self.tree)
        if self.chosen == RESTART:
            remaining = max(1, self.horizon - self.trial)
            return ScheduledCfrSolver(self.tree, VARIANTS[RESTART], remaining)
        return self._trial_solver()

    def _trial_solver(self) -> ScheduledCfrSolver:
        return ScheduledCfrSolver(self.tree, VARIANTS[self.trial_plan], self.horizon)
