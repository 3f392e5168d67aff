"""Base class of all trainers: iterations, random generators, evaluation, checkpoints, registry.

A concrete trainer defines its job section, `train_iteration`, `model` and `evaluate_model`, and is
registered by `@register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from numpy.random import Generator

from overtrick.config.job_file import Job
from overtrick.core import Array
from overtrick.core.checkpoints import Checkpointed
from overtrick.distributed.workers import RngStream, WorkerPool, generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Metrics = dict[str, float]
Row = dict[str, Any]
"""Row of a run's results table: its values by column name."""
Rows = list[Row]
History = Sequence[tuple[int, Mapping[str, float]]]
"""Metrics of a run: for each iteration in order its number, counted from 1, and its metrics."""
TableScore = Callable[[Rows], float]
"""Function from a run's results table to its score; larger is better."""
ProgressScore = Callable[[Mapping[str, float]], float | None]
"""Function from the metrics of one iteration to its score, larger is better.

It returns None if the iteration had no evaluation.
"""
JobT = TypeVar("JobT", bound=Job)
TrainerT = TypeVar("TrainerT", bound="type[BaseTrainer[Any]]")


@dataclass(frozen=True)
class Report:
    """Results table and figures of a finished run."""

    rows: Rows
    figures: dict[str, Figure]


class BaseTrainer(Checkpointed, ABC, Generic[JobT]):
    """Base class of trainers; an instance is the training run of one job.

    `iteration` counts finished iterations. A checkpoint holds all that the next iteration depends
    on: the attributes listed in `saved`, which are arrays or numbers, and those listed in
    `stateful`, which have methods `state` and `load`. The name of a `stateful` attribute is the
    prefix of its arrays in the checkpoint.
    """

    saved: ClassVar[tuple[str, ...]] = ("iteration",)
    stateful: ClassVar[tuple[str, ...]] = ("learner",)

    def __init__(self, job: JobT, pool: WorkerPool) -> None:
        self.job = job
        self.pool = pool
        self.iteration = 0

    @property
    def progress(self) -> float:
        """The share of all iterations that are finished, from 0 to 1."""
        return self.iteration / self.job.stop.iterations

    @abstractmethod
    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Train for one iteration and return its metrics.

        `rng`: generator of this iteration, derived from the job's seed and the iteration's number.
        `progress`: share of all iterations that were finished before this one, from 0 to below 1.
        """

    @abstractmethod
    def model(self) -> dict[str, Array]:
        """Return the weights that a finished run stores, by name."""

    @staticmethod
    @abstractmethod
    def evaluate_model(
        job: Any, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate the stored weights of a run and return its results table.

        Raises UserError if the weights do not fit the job.
        """

    @staticmethod
    @abstractmethod
    def validate(job: Any) -> None:
        """Raise UserError for a job that would fail later, such as one with an unsuitable game."""

    def step(self) -> Metrics:
        """Train for one iteration, evaluate if an evaluation is due, and return all metrics.

        An evaluation is due every `evaluation_interval()` iterations and after the last one.
        """
        progress = self.progress
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
        """Return the number of iterations between evaluations; None: training never evaluates."""
        return None if self.job.evaluation is None else self.job.evaluation.every

    def evaluate(self) -> Metrics:
        """Evaluate the current model during training and return the metrics."""
        return {}

    def rows(self) -> Rows:
        """Compute the results table of the current model, as `overtrick evaluate RUN` does."""
        rng = generator(self.job.seed, RngStream.EVALUATE)
        return self.evaluate_model(self.job, self.model(), self.pool, rng)

    def report(self, history: History) -> Report:
        """Compute the results table of a finished run, and draw its figures.

        `history`: the metrics of all iterations.
        """
        rows = self.with_best_responses(
            self.job, self.rows(), self.pool if self.job.workers else None
        )
        return Report(rows, self.figures(history, rows))

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the figures of a finished run; return them by name.

        `history`: the metrics of all iterations. `rows`: the results table.
        """
        return {}

    @staticmethod
    def with_best_responses(job: Any, rows: Rows, pool: WorkerPool | None) -> Rows:
        """Return the results table with payoffs of best responses that take long to compute.

        Tables of finished runs have them, evaluations during training and comparisons do not.
        `pool`: workers; None: this process computes them.
        """
        return rows

    @staticmethod
    def sweep_figures(job: Any, groups: Mapping[str, Sequence[History]]) -> dict[str, Figure]:
        """Draw this trainer's own figures of a sweep; return them by name.

        `groups`: maps the label of each group of runs to the histories of its runs. The runs of a
        group differ only by seed.
        """
        return {}

    def parts(self) -> Mapping[str, Any]:
        """Return the attributes listed in `stateful`, by name."""
        return {name: getattr(self, name) for name in self.stateful}

    def close(self) -> None:
        """Stop the worker pool."""
        self.pool.close()


@dataclass(frozen=True)
class TrainerSpec:
    """Entry of a trainer in the registry.

    `validate`, `evaluate_model`, `with_best_responses` and `sweep_figures` are the trainer's static
    methods. `table_score`
    scores a finished run, and `progress_score` an iteration.
    """

    job: type[Job]
    trainer: Callable[..., BaseTrainer[Any]]  # (job, pool[, share of the data])
    validate: Callable[[Any], None]
    evaluate_model: Callable[[Any, Mapping[str, Array], WorkerPool, Generator], Rows]
    with_best_responses: Callable[[Any, Rows, WorkerPool | None], Rows]
    table_score: TableScore
    progress_score: ProgressScore | None  # None: iterations have no score
    sweep_figures: Callable[[Any, Mapping[str, Sequence[History]]], dict[str, Figure]]


REGISTERED: dict[str, TrainerSpec] = {}


def register(
    name: str, job: type[Job], table_score: TableScore, progress_score: ProgressScore | None = None
) -> Callable[[TrainerT], TrainerT]:
    """Return a class decorator that registers a trainer.

    `name`: the trainer's name in job files. `job`: the class of its job files. `table_score`: the
    score of a run, from its results table. `progress_score`: the score of an iteration, from its
    metrics; without it, iterations cannot be compared. Larger scores are better.
    """

    def add(trainer: TrainerT) -> TrainerT:
        REGISTERED[name] = TrainerSpec(
            job,
            trainer,
            trainer.validate,
            trainer.evaluate_model,
            trainer.with_best_responses,
            table_score,
            progress_score,
            trainer.sweep_figures,
        )
        return trainer

    return add
