"""Approach an equilibrium by regret minimisation, one plan or several side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, get_args
from zlib import crc32

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick.config.job_file import Checkpoints, Count, Job, Section, Stop
from overtrick.core import Array, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.reports import figures, metric_names
from overtrick.solvers import cfr, mccfr, sequence_form
from overtrick.solvers.public_tree import cfr_and_descent
from overtrick.solvers.public_tree.values import IndexedGame
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Row, Rows, register
from overtrick.training.equilibrium.strategy_evaluator import (
    BucketedEvaluator,
    StrategyEvaluator,
    TreeEvaluator,
    arena_of,
    closeness,
)

PlanName = Literal[
    "cfr", "cfr+", "linear", "dcfr",
    "cfr-simultaneous", "cfr+-simultaneous", "linear-simultaneous", "dcfr-simultaneous",
    "external", "outcome", "lp", "descent",
]  # fmt: skip
PLANS = get_args(PlanName)
ON_TREES = (*cfr.VARIANTS, *mccfr.VARIANTS, "lp")
ON_CHAINS: dict[str, Callable[[IndexedGame], IterativeSolver]] = {
    "cfr+": cfr_and_descent.BucketedCfrPlus,
    "descent": cfr_and_descent.NashConvDescent,
}
GIB = 2**30
LEAST, MOST = 0.001, 2.0**20  # GiB that may be asked for


def tree_bytes(memory: float | None) -> int | None:
    """What a tree may take, from GiB; None stays None. Raises UserError for no sensible number."""
    if memory is None:
        return None
    if not LEAST <= memory <= MOST:  # nor is nan
        raise UserError(f"memory must be {LEAST:g} to {MOST:,.0f} GiB, not {memory:g}")
    return int(memory * GIB)


class Solve(Section):
    """Which plans, and when to look."""

    variants: tuple[PlanName, ...] = Field(
        default=("cfr+",), min_length=1, description="side by side; the first one becomes the model"
    )
    measurements_per_decade: Count = Field(
        default=8, description="measurements for each factor 10 of iterations"
    )
    memory_gib: float | None = Field(
        default=None, description="GiB that the tree may take; none: what the machine has free"
    )

    @field_validator("memory_gib")
    @classmethod
    def _some_memory(cls, memory: float | None) -> float | None:
        tree_bytes(memory)
        return memory

    @field_validator("variants")
    @classmethod
    def _named_once(cls, plans: tuple[PlanName, ...]) -> tuple[PlanName, ...]:
        twice = sorted({plan for plan in plans if plans.count(plan) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is named twice")
        return plans


ITERATIONS = "iterations"
OTHER = "average"  # prefix of the strategies of all solvers but the first in a model


class SolveStop(Stop):
    iterations: Count = Field(
        default=40, description="measurements in all, the k-th after 10^(k / looks) iterations"
    )


class SolveCheckpoints(Checkpoints):
    every: Count = Field(default=1, description="measurements between checkpoints")


class SolveJob(Job):
    """Everything a solve run needs."""

    trainer: Literal["solve"]
    workers: int = Field(default=0, ge=0, description="0: plans are solved in one process")
    stop: SolveStop = SolveStop()
    checkpoints: SolveCheckpoints = SolveCheckpoints()
    solve: Solve = Solve()

    @field_validator("workers")
    @classmethod
    def _no_plan_uses_one(cls, workers: int) -> int:
        if workers:
            raise ValueError("plans are solved in one process: set 0")
        return workers


@register("solve", SolveJob, scores.table_negative_exploitability, scores.negative_exploitability)
class SolveTrainer(BaseTrainer[SolveJob]):
    """Run solvers side by side; iteration k takes each to its iteration 10^(k / measurements)."""

    def __init__(self, job: SolveJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.arena = _arena(job)
        self.solvers = {name: solver_of(name, self.arena, job.seed) for name in job.solve.variants}

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Run every solver to the next point of measurement, and measure its exploitability."""
        reached = math.ceil(10 ** (self.iteration / self.job.solve.measurements_per_decade))
        metrics = {metric_names.ITERATIONS: float(reached)}
        for name, solver in self.solvers.items():
            solver.run(reached - solver.iteration)
            gap = closeness(self.arena, solver.average())["exploitability"]
            metrics[metric_names.gap_name(name, self.arena.game.unit)] = gap
        return metrics

    def state(self) -> dict[str, Array]:
        state = {"iteration": np.array(self.iteration)}
        for name, solver in self.solvers.items():
            state |= prefixed(name, solver.state())
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        self.iteration = int(state["iteration"])
        for name, solver in self.solvers.items():
            solver.load(unprefixed(name, state))

    def model(self) -> dict[str, Array]:
        """Return the average strategies (N, A), the first solver's as sigma and the others by name,
        and the iterations of every solver."""
        first, *others = self.solvers
        return {
            "sigma": self.solvers[first].average(),
            ITERATIONS: np.array([solver.iteration for solver in self.solvers.values()]),
            **{f"{OTHER}.{name}": self.solvers[name].average() for name in others},
        }

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        return {"convergence": figures.convergence(history, self.arena.game.unit)}

    @staticmethod
    def validate(job: SolveJob) -> None:
        """Raise UserError if the tree would not fit or a variant cannot solve the game."""
        arena = _arena(job)
        for name in job.solve.variants:
            solver_of(name, arena, job.seed)

    @staticmethod
    def evaluate_model(
        job: SolveJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute how close the stored strategy of each solver is to an equilibrium.

        Models of before version 0.2, and those of `overtrick solve --save`, hold the first
        solver's strategy only.
        """
        arena, rows = _arena(job), []
        for number, name in enumerate(job.solve.variants):
            sigma = weights.get("sigma" if number == 0 else f"{OTHER}.{name}")
            if sigma is not None:
                arena.check(sigma)
                row: Row = {"plan": name}
                if ITERATIONS in weights:
                    row["iterations"] = int(weights[ITERATIONS][number])
                rows.append({**row, **closeness(arena, sigma)})
        return rows


class IterativeSolver(Protocol):
    """Goes on from iteration to iteration; average is the strategy (N, A) that counts."""

    iteration: int

    def run(self, iterations: int) -> None: ...
    def average(self) -> Array: ...
    def state(self) -> dict[str, Array]: ...
    def load(self, state: Mapping[str, Array]) -> None: ...


def solver_of(plan: str, arena: StrategyEvaluator, seed: int) -> IterativeSolver:
    """A fresh solver by the name of its plan; what those that sample draw hangs on seed and name.

    Raises UserError if the plan cannot solve such a game.
    """
    able = ON_TREES if isinstance(arena, TreeEvaluator) else tuple(ON_CHAINS)
    if plan not in able:
        raise UserError(f"plan {plan}: {arena.game.name} is solved by {', '.join(able)}")
    if isinstance(arena, BucketedEvaluator):
        return ON_CHAINS[plan](arena.view)
    assert isinstance(arena, TreeEvaluator)
    if plan in cfr.VARIANTS:
        return cfr.CfrSolver(arena.tree, cfr.VARIANTS[plan])
    try:
        if plan == "lp":
            return sequence_form.SequenceFormSolver(arena.tree)
        rng = generator(seed, RngStream.TRAIN, crc32(plan.encode()))
        return mccfr.MccfrSolver(arena.tree, mccfr.VARIANTS[plan], rng)
    except UserError as error:
        raise UserError(f"plan {plan}: {error}") from None


def _arena(job: SolveJob) -> StrategyEvaluator:
    return arena_of(job.game, tree_bytes(job.solve.memory_gib))
