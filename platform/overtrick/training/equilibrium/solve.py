"""Trainer `solve`: runs equilibrium solvers on one game and compares their convergence.

The solvers are CFR variants, MCCFR, the linear program, and gradient descent on NashConv.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args
from zlib import crc32

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick.config.job_file import Checkpoints, Job, Stop
from overtrick.config.sections import Count, Positive, Section
from overtrick.core import Array, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.reports import figures, metric_names
from overtrick.solvers import cfr, mccfr, scheduled_cfr, sequence_form
from overtrick.solvers.auto_solver import CHOICES, AutoSolver
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.iterative_solver import IterativeSolver
from overtrick.solvers.magnetic_mirror_descent import (
    LEAST_TEMPERATURE,
    MOST_TEMPERATURE,
    MirrorDescentSolver,
)
from overtrick.solvers.public_tree import cfr_and_descent
from overtrick.solvers.public_tree.values import IndexedGame
from overtrick.solvers.walks.cfr_by_walks import WalkCfrSolver
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Row, Rows, register
from overtrick.training.equilibrium.strategy_evaluator import (
    BucketedEvaluator,
    SolvableEvaluator,
    WalkEvaluator,
    equilibrium_distance,
    solvable_evaluator,
    strategy_name,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SolverName = Literal[
    "auto", "cfr", "cfr+", "linear", "dcfr",
    "cfr-simultaneous", "cfr+-simultaneous", "linear-simultaneous", "dcfr-simultaneous",
    "pcfr+", "pcfr+-5", "sapcfr+", "pdcfr+", "sapdcfr+", "hs-dcfr-15", "hs-dcfr-30", "hs-pcfr+-15",
    "hs-pcfr+-30", "hs-pdcfr+-15", "hs-pdcfr+", "dcfr-discount-first",
    "mmd", "mmd-qre", "external", "outcome", "lp", "descent",
]  # fmt: skip
SOLVERS = get_args(SolverName)
AUTO, MIRROR_DESCENT, QUANTAL_RESPONSE = "auto", "mmd", "mmd-qre"
TREE_SOLVERS = (
    AUTO, *cfr.VARIANTS, *scheduled_cfr.VARIANTS, MIRROR_DESCENT, QUANTAL_RESPONSE,
    *mccfr.VARIANTS, "lp",
)  # fmt: skip
TEMPERATURE = 0.1  # points
BUCKETED_SOLVERS: dict[str, Callable[[IndexedGame], IterativeSolver]] = {
    "cfr+": cfr_and_descent.BucketedCfrPlus,
    "descent": cfr_and_descent.NashConvDescent,
}
GIB = 2**30
MIN_MEMORY, MAX_MEMORY = 0.001, 2.0**20  # GiB


def tree_bytes(memory: float | None) -> int | None:
    """Convert the largest size of a tree from GiB to bytes; None (all free memory) stays None.

    Raises UserError for a number out of range.
    """
    if memory is None:
        return None
    if not MIN_MEMORY <= memory <= MAX_MEMORY:  # also refuses NaN
        raise UserError(f"memory must be {MIN_MEMORY:g} to {MAX_MEMORY:,.0f} GiB, not {memory:g}")
    return int(memory * GIB)


class Solve(Section):
    """Settings of the solvers, and of the intervals between measurements of exploitability."""

    variants: tuple[SolverName, ...] = Field(default=("cfr+",), min_length=1)
    """Solvers to run and compare; the strategy of the first one is the model's policy."""

    measurements_per_decade: Count = 8
    """Measurements per tenfold increase of iterations."""

    temperature: float = Field(default=TEMPERATURE, ge=LEAST_TEMPERATURE, le=MOST_TEMPERATURE)
    """Temperature of mmd-qre in points; at a large one all pure strategies are equally likely."""

    memory_gib: float | None = None
    """Largest size of the tree in GiB; null: the free memory of the machine."""

    max_minutes: Positive | None = None
    """In a game evaluated by walks: the time of all solvers is estimated first, and the job is
    refused if it is above this many minutes; null: no limit.
    """

    @field_validator("memory_gib")
    @classmethod
    def _memory_is_in_range(cls, memory: float | None) -> float | None:
        tree_bytes(memory)
        return memory

    @field_validator("variants")
    @classmethod
    def _named_once(cls, names: tuple[SolverName, ...]) -> tuple[SolverName, ...]:
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{repeated[0]} is named twice")
        return names


ITERATIONS = "iterations"
CHOICE = "auto_choice"  # array of a model: number of the solver that auto has chosen
OTHER_PREFIX = "average"  # prefix in a model of the strategies of all solvers but the first


class SolveStop(Stop):
    """Stopping criterion of a run of equilibrium solvers."""

    iterations: Count = 40
    """Number of measurements. The k-th measurement is after 10^(k / measurements_per_decade)
    iterations of the solvers.
    """


class SolveCheckpoints(Checkpoints):
    """Settings of the checkpoints of a solve run."""

    every: Count = 1
    """Measurements between checkpoints."""

    best: bool = False
    """Also keep the model that scored best; the last measurement is usually the best."""


class SolveJob(Job):
    """Job file of the trainer `solve`: convergence of equilibrium solvers on one game."""

    trainer: Literal["solve"]
    workers: int = Field(default=0, ge=0)
    """Must be 0: all solvers run in one process."""

    stop: SolveStop = SolveStop()
    checkpoints: SolveCheckpoints = SolveCheckpoints()
    solve: Solve = Solve()

    @field_validator("workers")
    @classmethod
    def _workers_are_unused(cls, workers: int) -> int:
        if workers:
            raise ValueError("all solvers run in one process: set 0")
        return workers


@register("solve", SolveJob, scores.table_negative_exploitability, scores.negative_exploitability)
class SolveTrainer(BaseTrainer[SolveJob]):
    """Trainer that runs several equilibrium solvers on one game and compares their exploitability.

    Training iteration k runs each solver up to its own iteration 10^(k / measurements_per_decade),
    and measures the exploitability of its average strategy.
    """

    def __init__(self, job: SolveJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.evaluator = _evaluator(job)
        self.solvers: dict[str, IterativeSolver] = {
            name: make_solver(
                name, self.evaluator, job.seed, _solver_iterations(job), job.solve.temperature
            )
            for name in job.solve.variants
        }

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Run every solver up to the next measurement; return the exploitability of each."""
        reached = _solver_iterations(self.job, self.iteration)
        metrics = {metric_names.ITERATIONS: float(reached)}
        for name, solver in self.solvers.items():
            solver.run(reached - solver.iteration)
            gap = equilibrium_distance(self.evaluator, solver.average())["exploitability"]
            metrics[metric_names.gap_name(name, self.evaluator.game.unit)] = gap
            if name == QUANTAL_RESPONSE:
                assert isinstance(solver, MirrorDescentSolver)
                metrics[metric_names.qre_gap_name(self.evaluator.game.unit)] = solver.qre_gap()
        return metrics

    def parts(self) -> Mapping[str, IterativeSolver]:
        """Return all solvers by name."""
        return self.solvers

    def model(self) -> dict[str, Array]:
        """Return the average strategies (N, A) and the numbers of iterations of all solvers.

        The first solver's strategy has the name `sigma`; in a game evaluated by walks it is an
        array (L,) with another name. The names of the others contain the solver's name.
        """
        first, *others = self.solvers
        auto = self.solvers.get(AUTO)
        return {
            strategy_name(self.evaluator): self.solvers[first].average(),
            ITERATIONS: np.array([solver.iteration for solver in self.solvers.values()]),
            **{f"{OTHER_PREFIX}.{name}": self.solvers[name].average() for name in others},
            **({CHOICE: np.array(auto.choice)} if isinstance(auto, AutoSolver) else {}),
        }

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the exploitability of every solver against its number of iterations."""
        return {"convergence": figures.convergence(history, self.evaluator.game.unit)}

    @staticmethod
    def validate(job: SolveJob) -> None:
        """Raise UserError if the tree is too large or a solver does not support the game.

        Raises it also for a temperature that no solver uses.
        """
        if job.solve.changed_keys(["temperature"]) and QUANTAL_RESPONSE not in job.solve.variants:
            raise UserError(
                f"solve.temperature has no effect without {QUANTAL_RESPONSE} among solve.variants: "
                "leave it out"
            )
        evaluator = _evaluator(job)
        for name in job.solve.variants:
            check_solver(name, evaluator)
            if not isinstance(evaluator, WalkEvaluator):  # it would number all information sets
                make_solver(name, evaluator, job.seed, _solver_iterations(job))
        check_estimated_time(
            evaluator, job.solve.variants, _solver_iterations(job), job.stop.iterations + 1,
            job.solve.max_minutes,
            "solve.max_minutes",
        )  # fmt: skip

    @staticmethod
    def evaluate_model(
        job: SolveJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the exploitability of the stored strategy of each solver.

        Models from before version 0.2 and from `overtrick solve --save` hold only the first
        solver's strategy.
        """
        evaluator, rows = _evaluator(job), []
        counts, choice = weights.get(ITERATIONS), weights.get(CHOICE)
        if counts is not None and counts.shape != (len(job.solve.variants),):
            raise UserError(f"the model is damaged: {ITERATIONS} must have a number a variant")
        if choice is not None and (choice.shape or not -1 <= int(choice) < len(CHOICES)):
            raise UserError(f"the model is damaged: {CHOICE} must be -1 to {len(CHOICES) - 1}")
        for number, name in enumerate(job.solve.variants):
            key = strategy_name(evaluator) if number == 0 else f"{OTHER_PREFIX}.{name}"
            sigma = weights.get(key)
            if sigma is not None:
                evaluator.check_strategy(sigma)
                row: Row = {"plan": name}
                if counts is not None:
                    row["iterations"] = int(counts[number])
                if choice is not None:
                    index = int(choice)
                    chosen = CHOICES[index] if index >= 0 else "not yet"
                    row["chosen"] = chosen if name == AUTO else name
                rows.append({**row, **equilibrium_distance(evaluator, sigma)})
        return rows


def _solver_iterations(job: SolveJob, measurement: int | None = None) -> int:
    """Return the iterations of each solver up to a measurement, from 1; None: up to the last."""
    number = job.stop.iterations if measurement is None else measurement
    exponent = min(number / job.solve.measurements_per_decade, 18)  # no run gets that far
    return math.ceil(10**exponent)


def check_solver(plan: str, evaluator: SolvableEvaluator) -> None:
    """Raise UserError if the solver named `plan` does not support the game of an evaluator."""
    able: tuple[str, ...] = TREE_SOLVERS
    if isinstance(evaluator, BucketedEvaluator):
        able = tuple(BUCKETED_SOLVERS)
    elif isinstance(evaluator, WalkEvaluator):
        able = tuple(cfr.VARIANTS)
    if plan not in able:
        raise UserError(f"plan {plan}: {evaluator.game.name} can be solved by {', '.join(able)}")


def check_estimated_time(
    evaluator: SolvableEvaluator,
    plans: Sequence[str],
    iterations: int,
    measurements: int,
    max_minutes: float | None,
    name: str,
) -> None:
    """Raise UserError if solvers would take longer than a limit in a game evaluated by walks.

    The time is estimated by a part of a walk on this machine, after the information sets are
    numbered. `measurements`: evaluations of each solver. `max_minutes`: the limit, None for no
    limit. `name`: of the limit, for the message.
    Raises UserError also for a limit in a game with a tree, whose time is not estimated.
    """
    if max_minutes is None:
        return
    if not max_minutes > 0:  # also refuses NaN
        raise UserError(f"{name} must be above 0, not {max_minutes:g}")
    if not isinstance(evaluator, WalkEvaluator):
        raise UserError(f"{name} has an effect only in games evaluated by walks: leave it out")
    walks = measurements * len(plans)
    for plan in plans:
        walks += iterations * (2 if cfr.VARIANTS[plan].alternate else 1)
    walk = WalkCfrSolver(evaluator.walk).walk_seconds()
    minutes = walks * walk / 60
    if minutes > max_minutes:
        raise UserError(
            f"{evaluator.game.name}: {iterations:,} iterations of {', '.join(plans)} would take "
            f"about {minutes:,.1f} minutes on this machine, more than {name} {max_minutes:g}: ask "
            "for fewer iterations, or raise the limit"
        )


def make_solver(
    plan: str,
    evaluator: SolvableEvaluator,
    seed: int,
    iterations: int,
    temperature: float = TEMPERATURE,
) -> IterativeSolver:
    """Make the solver named `plan` (one of `SOLVERS`) for the game of an evaluator.

    The random numbers of MCCFR depend on `seed` and on the solver's name. `iterations`: of the
    whole run; the exponents of some CFR variants depend on it. `temperature`: of mmd-qre, in
    points. Raises UserError if the solver does not support the game.
    """
    check_solver(plan, evaluator)
    if isinstance(evaluator, BucketedEvaluator):
        return BUCKETED_SOLVERS[plan](evaluator.view)
    if isinstance(evaluator, WalkEvaluator):
        return WalkCfrSolver(evaluator.walk, cfr.VARIANTS[plan])
    try:
        return _tree_solver(plan, evaluator.tree, seed, iterations, temperature)
    except UserError as error:
        raise UserError(f"plan {plan}: {error}") from None


def _tree_solver(
    plan: str, tree: Tree, seed: int, iterations: int, temperature: float
) -> IterativeSolver:
    if plan in cfr.VARIANTS:
        return cfr.CfrSolver(tree, cfr.VARIANTS[plan])
    if plan in scheduled_cfr.VARIANTS:
        return scheduled_cfr.ScheduledCfrSolver(tree, scheduled_cfr.VARIANTS[plan], iterations)
    if plan in mccfr.VARIANTS:
        rng = generator(seed, RngStream.TRAIN, crc32(plan.encode()))
        return mccfr.MccfrSolver(tree, mccfr.VARIANTS[plan], rng)
    others: dict[str, Callable[[], IterativeSolver]] = {
        AUTO: lambda: AutoSolver(tree, iterations),
        MIRROR_DESCENT: lambda: MirrorDescentSolver(tree),
        QUANTAL_RESPONSE: lambda: MirrorDescentSolver(tree, temperature),
        "lp": lambda: sequence_form.SequenceFormSolver(tree),
    }
    return others[plan]()


def _evaluator(job: SolveJob) -> SolvableEvaluator:
    return solvable_evaluator(job.game, tree_bytes(job.solve.memory_gib))
