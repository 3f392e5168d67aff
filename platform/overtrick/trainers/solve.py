"""Approach an equilibrium by regret minimisation, one plan or several side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick import figures, games
from overtrick.config import Count, Job, Positive, Section
from overtrick.core import Array
from overtrick.learners.networks import prefixed, unprefixed
from overtrick.solvers import cfr, mccfr, sequence_form, value
from overtrick.solvers.tree import Tree, build
from overtrick.trainers.evaluate import Row
from overtrick.trainers.report import History, Report
from overtrick.workers import Crew, Part, generator

PlanName = Literal[
    "cfr", "cfr+", "linear", "dcfr",
    "cfr-simultaneous", "cfr+-simultaneous", "linear-simultaneous", "dcfr-simultaneous",
    "external", "outcome", "lp",
]  # fmt: skip
PLANS = get_args(PlanName)
GIB = 2**30


class Solve(Section):
    """Which plans, and when to look."""

    plans: tuple[PlanName, ...] = Field(
        default=("cfr+",), min_length=1, description="side by side; the first one becomes the model"
    )
    looks: Count = Field(default=8, description="measurements for each factor 10 of iterations")
    memory: Positive | None = Field(
        default=None, description="GiB that the tree may take; none: what the machine has free"
    )

    @field_validator("plans")
    @classmethod
    def _named_once(cls, plans: tuple[PlanName, ...]) -> tuple[PlanName, ...]:
        twice = sorted({plan for plan in plans if plans.count(plan) > 1})
        if twice:
            raise ValueError(f"{twice[0]} is named twice")
        return plans


class SolveJob(Job):
    """Everything a solve run needs."""

    trainer: Literal["solve"]
    solve: Solve = Solve()


class SolveTrainer:
    """Step k runs every plan up to iteration 10^(k / looks) and measures how far it has come."""

    def __init__(self, job: SolveJob, crew: Crew) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.game, self.tree = _game_and_tree(job)
        rngs = generator(job.seed, Part.TRAIN).spawn(len(job.solve.plans))
        self.solvers = {
            plan: solver_of(plan, self.tree, rng)
            for plan, rng in zip(job.solve.plans, rngs, strict=True)
        }

    def step(self) -> dict[str, float]:
        self.iteration += 1
        reached = math.ceil(10 ** (self.iteration / self.job.solve.looks))
        metrics = {figures.ITERATIONS: float(reached)}
        for plan, solver in self.solvers.items():
            solver.run(reached - solver.iteration)
            gap = value.exploitability(self.tree, solver.average())
            metrics[figures.gap_name(plan, self.game.unit)] = gap
        return metrics

    def state(self) -> dict[str, Array]:
        state = {"iteration": np.array(self.iteration)}
        for plan, solver in self.solvers.items():
            state |= prefixed(plan, solver.state())
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        self.iteration = int(state["iteration"])
        for plan, solver in self.solvers.items():
            solver.load(unprefixed(plan, state))

    def model(self) -> dict[str, Array]:
        """The average strategy (N, A) of the first plan."""
        return {"sigma": next(iter(self.solvers.values())).average()}

    def report(self, history: History) -> Report:
        """How close each plan came, and its curve."""
        rows = [
            {"plan": plan, "iterations": solver.iteration, **closeness(self.tree, solver.average())}
            for plan, solver in self.solvers.items()
        ]
        return Report(rows, {"convergence": figures.convergence(history, self.game.unit)})

    def close(self) -> None:
        self.crew.close()


def check(job: SolveJob) -> None:
    """Raise Refused if the tree would not fit, before any work."""
    _game_and_tree(job)


def judge(job: SolveJob, weights: Mapping[str, Array], crew: Crew, rng: Generator) -> list[Row]:
    """How close a stored strategy is to an equilibrium."""
    _, tree = _game_and_tree(job)
    return [{"plan": job.solve.plans[0], **closeness(tree, weights["sigma"])}]


def solver_of(
    plan: str, tree: Tree, rng: Generator
) -> cfr.Solver | mccfr.Solver | sequence_form.Solver:
    """A fresh solver by the name of its plan; rng is for those that sample."""
    if plan == "lp":
        return sequence_form.Solver(tree)
    if plan in mccfr.PLANS:
        return mccfr.Solver(tree, mccfr.PLANS[plan], rng)
    return cfr.Solver(tree, cfr.PLANS[plan])


def closeness(tree: Tree, sigma: Array) -> dict[str, Any]:
    """How far a strategy is from an equilibrium, and what it is worth to each seat."""
    gap = value.nash_conv(tree, sigma)
    return {
        "exploitability": gap / tree.seats,
        "nash_conv": gap,
        "values": value.expected(tree, sigma).tolist(),
    }


def _game_and_tree(job: SolveJob) -> tuple[Any, Tree]:
    game = games.make(job.game.name, **job.game.options)
    memory = job.solve.memory
    return game, build(game, None if memory is None else int(memory * GIB))
