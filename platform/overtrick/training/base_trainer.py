"""The base of all trainers: counter, generators, evaluation schedule, table, checkpoint, register.

A trainer is its job section, `train_iteration`, `model`, `evaluate_model` and `@register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator

from overtrick.config.job_file import Job
from overtrick.core import Array
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.learners.state_keys import prefixed, unprefixed

Metrics = dict[str, float]
Row = dict[str, Any]
"""One row of a table: what was evaluated and its figures, by column."""
Rows = list[Row]
History = Sequence[tuple[int, Metrics]]
"""Every iteration, counted from 1, and its metrics, in order."""
TableScore = Callable[[Rows], float]
"""The score of a finished run from its table; larger is better."""
ProgressScore = Callable[[Mapping[str, float]], float | None]
"""The score of one iteration's metrics; None if nothing was evaluated in it."""
JobT = TypeVar("JobT", bound=Job)
TrainerT = TypeVar("TrainerT", bound="type[BaseTrainer[Any]]")


@dataclass(frozen=True)
class Report:
    """The table and the figures of a finished run."""

    rows: Rows
    figures: dict[str, Figure]


class BaseTrainer(ABC, Generic[JobT]):
    """A training run of one job.

    `iteration` counts the iterations done. Attributes named in `stateful` have `state()` and
    `load()`; a checkpoint holds their arrays under their names.
    """

    stateful: ClassVar[tuple[str, ...]] = ("learner",)

    def __init__(self, job: JobT, pool: WorkerPool) -> None:
        self.job = job
        self.pool = pool
        self.iteration = 0

    @abstractmethod
    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Train for one iteration and return its metrics.

        rng: the generator of this iteration, named by the job's seed and the iteration.
        progress: the share of all iterations done before this one, from 0 to below 1.
        """

    @abstractmethod
    def model(self) -> dict[str, Array]:
        """Return the weights that a finished run stores, by name."""

    @staticmethod
    @abstractmethod
    def evaluate_model(
        job: Any, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the final table of a stored model. Raises UserError for a foreign model."""

    @staticmethod
    @abstractmethod
    def validate(job: Any) -> None:
        """Raise UserError for a job that would only fail later."""

    def step(self) -> Metrics:
        """Train for one iteration; evaluate if the schedule says so, and always after the last."""
        progress = self.iteration / self.job.stop.iterations
        self.iteration += 1
        metrics = self.train_iteration(
            generator(self.job.seed, RngStream.TRAIN, self.iteration), progress
        )
        interval = self.evaluation_interval()
        last = self.iteration == self.job.stop.iterations
        if interval is not None and (last or self.iteration % interval == 0):
            metrics |= self.evaluate()
        return metrics

    def evaluation_interval(self) -> int | None:
        """Return the iterations between evaluations; None if iterations are never evaluated."""
        return None if self.job.evaluation is None else self.job.evaluation.every

    def evaluate(self) -> Metrics:
        """Return the metrics of an evaluation during training."""
        return {}

    def rows(self) -> Rows:
        """Compute the final table, as `overtrick evaluate RUN` does from the stored model."""
        rng = generator(self.job.seed, RngStream.JUDGE)
        return self.evaluate_model(self.job, self.model(), self.pool, rng)

    def report(self, history: History) -> Report:
        """Return the final table and the figures of a run with this history."""
        rows = self.rows()
        return Report(rows, self.figures(history, rows))

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the figures of a run, by name."""
        return {}

    def state(self) -> dict[str, Array]:
        """Return all arrays that the next iteration depends on."""
        state = {"iteration": np.array(self.iteration)}
        for name in self.stateful:
            state |= prefixed(name, getattr(self, name).state())
        return state

    def load(self, state: Mapping[str, Array]) -> None:
        """Continue from a state as if nothing had happened in between."""
        self.iteration = int(state["iteration"])
        for name in self.stateful:
            getattr(self, name).load(unprefixed(name, state))

    def close(self) -> None:
        """Stop the worker pool."""
        self.pool.close()


@dataclass(frozen=True)
class TrainerSpec:
    """A registered trainer: its job class, its class, and the scores that sweeps compare."""

    job: type[Job]
    trainer: Callable[..., BaseTrainer[Any]]  # (job, pool), and a share if learners are several
    validate: Callable[[Any], None]
    evaluate_model: Callable[[Any, Mapping[str, Array], WorkerPool, Generator], Rows]
    table_score: TableScore
    progress_score: ProgressScore | None  # None: iterations have no score


REGISTERED: dict[str, TrainerSpec] = {}


def register(
    name: str,
    job: type[Job],
    table_score: TableScore,
    progress_score: ProgressScore | None = None,
) -> Callable[[TrainerT], TrainerT]:
    """Register a trainer class under the name that job files use for it."""

    def add(trainer: TrainerT) -> TrainerT:
        REGISTERED[name] = TrainerSpec(
            job, trainer, trainer.validate, trainer.evaluate_model, table_score, progress_score
        )
        return trainer

    return add
