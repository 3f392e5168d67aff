"""Trainer `coevolve`: evolves strategies that lose little to their best responses.

It is the min-max evolution strategy with cumulative step-size adaptation (CSA-ES) of Samothrakis
and Lucas 2011. A genome is a vector of numbers that encodes a strategy. The score of a genome is
minus NashConv, with exact or approximate best responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import psutil
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import GameChoice, Job
from overtrick.config.sections import Count, Positive, Section, UnusedKeys
from overtrick.core import Array, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, array_chunks, generator
from overtrick.evaluation.evaluate import Row
from overtrick.games import registry
from overtrick.population.evolution_strategy import EvolutionStrategy
from overtrick.population.genomes import DirectEncoding, GenomeEncoding, PerceptronEncoding
from overtrick.reports import figures, metric_names
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.equilibrium.best_response_payoff import Inner, estimate_best_response
from overtrick.training.equilibrium.strategy_evaluator import (
    StrategyEvaluator,
    TreeEvaluator,
    equilibrium_distance,
    evaluator_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARD = 5  # genomes per shard, independent of the number of workers
EXACT_SHARD = 32  # the same with exact best responses, which are computed for many genomes at once

CMA_MATRICES = 3  # square matrices that covariance matrix adaptation needs at once


class Coevolve(Section):
    """Settings of the evolution strategy, and of the genomes: vectors that encode strategies."""

    unused_keys = (UnusedKeys({"genome": ("direct",)}, ("hidden",)),)

    genome: Literal["direct", "network"] = "direct"
    """Encoding. direct: one gene for each action of each information set. network: weights of a
    network.
    """

    hidden: Count = 4
    """Hidden units of the network."""

    strategy: Literal["csa", "cma"] = "csa"
    """Evolution strategy. csa: adapts the step size. cma: adapts the covariances too."""

    population: int = Field(default=10, ge=4)
    """Genomes per generation (lambda)."""

    step_size: Positive = 0.5
    """Initial step size."""

    seat: int | None = Field(default=None, ge=0)
    """Seat that evolves; null: one genome holds the strategies of all seats."""

    generations: Count = 20
    """Generations per training iteration."""


class CoevolveJob(Job):
    """Job file of the trainer `coevolve`: evolution of strategies against their best responses."""

    trainer: Literal["coevolve"]
    coevolve: Coevolve = Coevolve()
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _seat_exists(self) -> CoevolveJob:
        seats = registry.make(self.game.name, **self.game.options).seats
        seat = self.coevolve.seat
        if seat is not None and (seat >= seats or seats != 2):
            raise ValueError(f"coevolve.seat {seat}: one seat evolves alone only in 2-seat games")
        return self


@register(
    "coevolve", CoevolveJob, scores.table_negative_exploitability, scores.negative_exploitability
)
class CoevolveTrainer(BaseTrainer[CoevolveJob]):
    """Trainer that evolves strategies against their exact or approximate best responses.

    A genome is a vector of numbers that encodes the strategies of all seats, or of one. The
    exploitability of a genome for all seats is NashConv divided by the number of seats. The
    exploitability of a genome for one seat is the payoff of the other seat's best response minus
    the value of the game to that other seat. The value comes from a linear program; the evolution
    does not use it.
    """

    saved = ("iteration", "best", "best_score")
    stateful = ("strategy",)

    def __init__(self, job: CoevolveJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.evaluator = evaluator_of(job.game)
        self.unit: str = self.evaluator.game.unit
        section = job.coevolve
        self.encoding = genome_encoding(job.game, section)
        rng = generator(job.seed, RngStream.INITIAL)
        self.strategy = EvolutionStrategy(
            self.encoding.start, section.step_size, section.population, section.strategy, rng
        )
        start = self.encoding.start(generator(job.seed, RngStream.INITIAL, 1))
        self.best, self.best_score = start, np.inf  # not scored yet
        # (S, P) genomes of the best responses to the best genome: the next evolution of best
        # responses starts from them
        self.warm_starts = np.repeat(start[None], self.evaluator.seats, axis=0)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Evolve some generations; measure the exploitability of the best genome so far."""
        for generation_rng in rng.spawn(self.job.coevolve.generations):
            self._run_generation(generation_rng)
        gap = _row(self.job, self.evaluator, self.sigma())["exploitability"]
        return {
            metric_names.EVALUATIONS: float(self.strategy.size * len(self.strategy.scores)),
            metric_names.gap_name(self.job.coevolve.genome, self.unit): float(gap),
            "step_size": self.strategy.step_size,
            "starts": float(self.strategy.starts),
        }

    def _run_generation(self, rng: Generator) -> None:
        """Run one generation of the evolution strategy, and update the best genome so far.

        A score computed with approximate best responses is an upper bound on the exact score. In
        each generation the best genome is scored again, and the lowest of its scores counts. A new
        genome with a higher score replaces the best genome.
        """
        genomes = self.strategy.ask()
        scored = np.concatenate([genomes, self.best[None]])
        common = (self.job, self.warm_starts, len(self.strategy.scores))
        size = EXACT_SHARD if self.job.inner.kind == "exact" else SHARD
        shards = self.pool.map(_score, common, array_chunks(size, scored), rng)
        scores_, responses = (np.concatenate(each) for each in zip(*shards, strict=True))
        self.strategy.tell(genomes, scores_[:-1])
        self.best_score = min(self.best_score, float(scores_[-1]))
        first = int(scores_[:-1].argmax())
        if scores_[first] > self.best_score:
            self.best, self.best_score = genomes[first], float(scores_[first])
        else:
            first = len(genomes)
        self.warm_starts = responses[first]

    def sigma(self) -> Array:
        """Return the strategy (N, A) of the best genome so far."""
        return self.encoding.strategies(self.best[None])[0]

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint.

        Array `warm` holds the genomes from which the next evolution of best responses starts.
        """
        return {**super().state(), "warm": self.warm_starts}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore a checkpoint: the arrays that `state()` returned."""
        super().load(state)
        self.warm_starts = state["warm"]

    def model(self) -> dict[str, Array]:
        """Return the best genome so far (name `genome`) and its strategy (name `sigma`)."""
        return {"sigma": self.sigma(), "genome": self.best}

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        """Draw the exploitability by number of evaluated genomes, and the best strategy so far.

        The strategy is drawn only if the game is small or has bucketed hands. Returns the figures
        by name.
        """
        progress = {"progress": figures.evolution_progress(history, self.unit)}
        return progress | self.evaluator.figures(self.sigma())

    @staticmethod
    def validate(job: CoevolveJob) -> None:
        """Raise UserError if the game does not support a setting of the job.

        These settings are checked: the encoding of strategies as genomes (`coevolve.genome`), best
        responses by look-ahead (`inner.kind`), the seat that evolves (`coevolve.seat`), and the
        memory for the covariances of genes (`coevolve.strategy`).
        """
        genes = genome_encoding(job.game, job.coevolve).genes
        needed = CMA_MATRICES * genes**2 * np.dtype(float).itemsize
        free = psutil.virtual_memory().available
        if job.coevolve.strategy == "cma" and needed > free:
            raise UserError(
                f"coevolve.strategy: cma needs {needed / 2**30:.1f} GiB of memory for the "
                f"covariances of {genes} genes, and {free / 2**30:.1f} GiB are free: set csa"
            )
        evaluator = evaluator_of(job.game)
        if job.coevolve.seat is not None:
            evaluator.equilibrium_payoff(job.coevolve.seat)
        if job.inner.kind == "searched" and not isinstance(evaluator, TreeEvaluator):
            raise UserError(f"{evaluator.game.name} has no tree to search: set inner.kind to exact")

    @staticmethod
    def evaluate_model(
        job: CoevolveJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the exploitability of a stored strategy; return a results table of one row.

        Raises UserError if the stored strategy and the stored genome differ, or if the genome does
        not fit the job.
        """
        encoding = genome_encoding(job.game, job.coevolve)
        genome = weights.get("genome", np.zeros(0))
        if genome.dtype.kind != "f" or not np.isfinite(genome).all():
            raise UserError("the model is damaged: its genome must be finite numbers")
        sigma = encoding.strategies(genome[None])[0]
        stored = weights.get("sigma", np.zeros(0))
        # processors round a network's outputs differently
        if stored.shape != sigma.shape or not np.allclose(sigma, stored, rtol=1e-6, atol=1e-9):
            raise UserError("the model's strategy differs from its genome's: the file was changed")
        return [_row(job, evaluator_of(job.game), sigma)]


def genome_encoding(choice: GameChoice, section: Coevolve) -> GenomeEncoding:
    """Return the encoding that translates a job's genomes to strategies.

    A genome has one gene for each action of each information set, or is the weights of a network.
    Raises UserError for a network if the game has no inputs for it.
    """
    evaluator = evaluator_of(choice)
    if section.genome == "direct":
        return DirectEncoding(evaluator.legal)
    return PerceptronEncoding(evaluator.inputs, evaluator.legal, section.hidden)


def _row(job: CoevolveJob, evaluator: StrategyEvaluator, sigma: Array) -> Row:
    """Return the row of the results table for a strategy (N, A), with its exploitability.

    If only one seat evolves, the exploitability is the payoff of the other seat's best response,
    minus the other seat's payoff in equilibrium.
    """
    seat = job.coevolve.seat
    row: dict[str, Any] = {"genome": job.coevolve.genome, "inner": job.inner.kind}
    if seat is not None:
        other = 1 - seat
        value = evaluator.equilibrium_payoff(other)
        gap = evaluator.best_response_payoff(sigma, other) - value
        return {**row, "seat": seat, "exploitability": gap}
    return {**row, **equilibrium_distance(evaluator, sigma)}


def _score(rng: Generator, common: Any, genomes: Array) -> tuple[Array, Array]:
    """Score M genomes by their best responses; return the scores and the best responses.

    Returns:

    - scores (M,): minus NashConv. If only one seat evolves, minus the payoff of the other seat's
      best response.
    - best responses (M, S, P): for each genome and each of S seats, a genome of P numbers that
      encodes the seat's best response. If no best response is evolved for a seat, the seat's
      initial genome is returned.

    Arguments:

    - `common`: the tuple (job, initial genomes (S, P), number of the generation). The evolution of
      a seat's best response starts from the seat's initial genome.
    - `genomes` (M, P): the genomes to score.
    """
    job, warm_starts, generation = common
    evaluator = evaluator_of(job.game)
    encoding, seat = genome_encoding(job.game, job.coevolve), job.coevolve.seat
    sigmas = encoding.strategies(genomes)
    responses = np.repeat(warm_starts[None], len(genomes), axis=0)
    if job.inner.kind == "exact" and seat is None:
        return -evaluator.nash_convs(sigmas), responses
    responders = range(evaluator.seats) if seat is None else [1 - seat]
    score = np.zeros(len(genomes))
    if seat is None:
        score += evaluator.expected_payoffs(sigmas).sum(axis=1)
    for m, (sigma, genome_rng) in enumerate(zip(sigmas, rng.spawn(len(genomes)), strict=True)):
        for responder in responders:
            payoff, responses[m, responder] = estimate_best_response(
                job.inner, evaluator, encoding, sigma, responder, warm_starts[responder],
                generation, genome_rng,
            )  # fmt: skip
            score[m] -= payoff
    return score, responses
