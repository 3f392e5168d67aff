"""Solver that chooses an algorithm by looking at the tree, or by a trial run.

A two-player zero-sum game with few information sets is solved by the linear program, which is exact
and takes a few hundredths of a second. In other games, CFR with discounted and predicted regrets
keeps several averages of its strategies and returns the least exploitable one; the best average
depends on the game and on the number of iterations. Of the two variants, sapdcfr+ has the lower
exploitability early in a run. pdcfr+ reaches rounding error earlier, because its exploitability
drops fast once the support of an equilibrium is found.

A run of at least 1,000 iterations begins with a trial of both, each for a twentieth of the run.
pdcfr+ is chosen if it is clearly better, or if the run is long for this game: if sapdcfr+ has
brought the exploitability to at most 2 / N of that of uniform play, where N is the number of
iterations. Shorter runs use pdcfr+: their trial would be too short to tell.

The rule was chosen on leduc, liars_dice with 4 and 5 faces, and OpenSpiel's goofspiel with 4 cards
in random order, kuhn_poker with three and four players, and battleship on 1 x 4 fields. Of the
games of jobs/solver_table.yaml, liars_dice with 5 faces, kuhn_poker with three players, and
battleship, which is the same on 2 x 2 fields, are therefore no test of it. The limit of the linear
program was settled after seeing that job's results, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overtrick.core import Array, UserError
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver
from overtrick.solvers.scheduled_cfr import VARIANTS, BestAverageSolver, check_horizon
from overtrick.solvers.sequence_form import SequenceFormSolver, is_two_player_zero_sum

CHOICES = ("pcfr+", "sapcfr+", "hs-pdcfr+", "lp", "pdcfr+", "sapdcfr+")
"""Algorithms by their number in stored models; the first three are no longer chosen."""
LINEAR_PROGRAM, PDCFR_PLUS, SAPDCFR_PLUS = CHOICES[3:]
MIN_ITERATIONS_WITH_TRIAL = 1000  # shorter runs begin without a trial
MAX_EXACT_INFOSETS = 200  # of a game for the linear program
TRIAL_DIVISOR = 20  # the trial of a variant takes one in so many iterations
CLEARLY_BETTER = 2  # pdcfr+ is chosen if its exploitability is smaller by this factor
CONVERGED = 2  # the bound is this / iterations * exploitability of uniform play


class AutoSolver(IterativeSolver):
    """The linear program, or a variant of CFR chosen by the length of the run or by a trial."""

    saved = ("iteration", "choice", "uniform_gap", "sapdcfr_gap", "pdcfr_gap")

    def __init__(self, tree: Tree, horizon: int) -> None:
        """Choose the linear program or a short run, or set up the trial.

        `horizon`: number of iterations of the whole run, with those of the trial.
        """
        self.tree = tree
        self.horizon = horizon
        self.choice = -1  # index in CHOICES; -1: the trial has not ended
        self.uniform_gap = 0.0  # exploitability of uniform play, if there is a trial
        self.sapdcfr_gap = 0.0  # exploitability of sapdcfr+ after its trial
        self.pdcfr_gap = 0.0  # of pdcfr+
        if tree.infosets <= MAX_EXACT_INFOSETS and is_two_player_zero_sum(tree):
            self.choice = CHOICES.index(LINEAR_PROGRAM)
        elif horizon < MIN_ITERATIONS_WITH_TRIAL:
            self.choice = CHOICES.index(PDCFR_PLUS)
        self.solvers = self._solvers()

    @property
    def trial(self) -> int:
        """Number of iterations of the trial of each variant; 0 without a trial."""
        return self.horizon // TRIAL_DIVISOR if self.horizon >= MIN_ITERATIONS_WITH_TRIAL else 0

    @property
    def chosen(self) -> str | None:
        """Name of the chosen algorithm; None before the end of the trial."""
        return CHOICES[self.choice] if self.choice >= 0 else None

    @property
    def reason(self) -> str:
        """Name of the chosen algorithm and the reason for the choice, in one line."""
        if self.chosen is None:
            return f"the trial of {self.trial:,} iterations of two variants has not ended"
        if self.chosen == LINEAR_PROGRAM:
            return f"lp: the game has only {self.tree.infosets} information sets"
        pdcfr, sapdcfr = f"{self.pdcfr_gap:.2g}", f"{self.sapdcfr_gap:.2g}"
        bound = f"{self.converged_bound:.2g}"
        if not self.trial:
            why = f"the run has fewer than {MIN_ITERATIONS_WITH_TRIAL:,} iterations"
        elif CLEARLY_BETTER * self.pdcfr_gap <= self.sapdcfr_gap:
            why = f"its exploitability {pdcfr} was at most half that of {SAPDCFR_PLUS}, {sapdcfr}"
        elif self.chosen == PDCFR_PLUS:
            why = f"the exploitability {sapdcfr} of {SAPDCFR_PLUS} was at most {bound}"
        else:
            why = (
                f"its exploitability {sapdcfr} was above {bound} and less than twice "
                f"that of {PDCFR_PLUS}, {pdcfr}"
            )
        if self.trial:
            why = f"after {self.trial:,} iterations {why}"
        solver = self._running
        assert isinstance(solver, BestAverageSolver)
        return f"{self.chosen}: {why}; the best average has gamma {solver.best_average()[0]}"

    @property
    def converged_bound(self) -> float:
        """Exploitability of sapdcfr+ after its trial, at or below which pdcfr+ is chosen."""
        return CONVERGED / self.horizon * self.uniform_gap

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint, with the length of the run."""
        return {**super().state(), "horizon": np.array(self.horizon)}

    def run(self, iterations: int) -> None:
        """Run more iterations. Raises UserError beyond the length of the whole run."""
        last = int(self.iteration + iterations)
        if last > self.horizon and self.chosen != LINEAR_PROGRAM:
            raise UserError(
                f"the algorithm was chosen for a run of {self.horizon:,} iterations: "
                f"to do {last:,}, solve again with that number"
            )
        if not iterations:
            self._running.run(0)  # callers compile the kernels thus
        while self.iteration < last:
            ends = self.trial, 2 * self.trial, last
            stop = min(end for end in ends if self.iteration < end <= last)
            self._running.run(stop - self.iteration)
            self.iteration = stop
            if self.choice < 0 and stop == 2 * self.trial:
                self._choose()

    def average(self) -> Array:
        """Return the least exploitable strategy (N, A) of all solvers so far.

        After the trial, it is that of the other variant until the chosen one has become better.
        """
        found = [each for each in self.solvers.values() if isinstance(each, BestAverageSolver)]
        if not found:
            return self._running.average()
        return min((each.best_average()[1:] for each in found), key=lambda pair: pair[1])[0]

    def parts(self) -> Mapping[str, IterativeSolver]:
        """Return the solvers by name; after a trial those of both variants."""
        return self.solvers

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the state; the solvers are made first.

        Raises ValueError for that of a run of another length, by which the algorithm is chosen.
        """
        self.choice = int(state["choice"])
        check_horizon(state, None if self.chosen == LINEAR_PROGRAM else self.horizon)
        self.solvers = self._solvers()
        super().load(state)

    @property
    def _running(self) -> IterativeSolver:
        """The solver of the next iteration."""
        if self.chosen is not None:
            return self.solvers[self.chosen]
        return self.solvers[SAPDCFR_PLUS if self.iteration < self.trial else PDCFR_PLUS]

    def _choose(self) -> None:
        """Choose a variant by the exploitabilities after the trial."""
        gaps = []
        for name in (SAPDCFR_PLUS, PDCFR_PLUS):
            solver = self.solvers[name]
            assert isinstance(solver, BestAverageSolver)
            gaps.append(solver.best_average()[2])
        self.sapdcfr_gap, self.pdcfr_gap = gaps
        self.uniform_gap = best_response.exploitability(self.tree, self.tree.uniform())
        better = CLEARLY_BETTER * self.pdcfr_gap <= self.sapdcfr_gap
        long_run = self.sapdcfr_gap <= self.converged_bound
        chosen = PDCFR_PLUS if better or long_run else SAPDCFR_PLUS
        self.choice = CHOICES.index(chosen)

    def _solvers(self) -> dict[str, IterativeSolver]:
        """Make the solver of the chosen algorithm, or both solvers of the trial."""
        if self.chosen == LINEAR_PROGRAM:
            return {LINEAR_PROGRAM: SequenceFormSolver(self.tree)}
        names = (SAPDCFR_PLUS, PDCFR_PLUS) if self.trial else (PDCFR_PLUS,)
        longest = self.horizon - self.trial  # iterations of the chosen variant
        return {name: BestAverageSolver(self.tree, VARIANTS[name], longest) for name in names}
