"""Strategies that evolve to be beaten as little as possible (Samothrakis and Lucas 2011)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import Count, GameChoice, Job, Positive, Section
from overtrick.core import Array, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.evaluate import Row
from overtrick.games import registry
from overtrick.population.evolution_strategy import EvolutionStrategy
from overtrick.population.genomes import DirectEncoding, GenomeEncoding, PerceptronEncoding
from overtrick.reports import figures, metric_names
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.equilibrium.coevolve_inner import Inner, reply_won
from overtrick.training.equilibrium.strategy_evaluator import (
    StrategyEvaluator,
    TreeEvaluator,
    arena_of,
    closeness,
)

SHARD = 5  # genomes of one shard, whatever the number of workers
EXACT_SHARD = 32  # where a pass judges many at once


class Coevolve(Section):
    """What evolves, and how."""

    genome: Literal["direct", "network"] = Field(
        default="direct", description="a gene for each action, or the weights of a network"
    )
    hidden: Count = Field(default=4, description="hidden units of the network")
    strategy: Literal["csa", "cma"] = Field(
        default="csa", description="adapt the step size alone, or the covariances too"
    )
    population: int = Field(default=10, ge=4, description="lambda: genomes of a generation")
    step_size: Positive = Field(default=0.5, description="initial step size")
    seat: int | None = Field(
        default=None, ge=0, description="the seat that evolves; none: all of them as one genome"
    )
    generations: Count = Field(default=20, description="generations of a training iteration")


class CoevolveJob(Job):
    """Everything a coevolution run needs."""

    trainer: Literal["coevolve"]
    coevolve: Coevolve = Coevolve()
    inner: Inner = Inner()

    @model_validator(mode="after")
    def _seat_exists(self) -> CoevolveJob:
        seats = registry.make(self.game.name, **self.game.options).seats
        seat = self.coevolve.seat
        if seat is not None and (seat >= seats or seats != 2):
            raise ValueError(f"coevolve.seat {seat}: one seat evolves alone only in games of 2")
        return self


@register(
    "coevolve", CoevolveJob, scores.table_negative_exploitability, scores.negative_exploitability
)
class CoevolveTrainer(BaseTrainer[CoevolveJob]):
    """Evolve strategies that are beaten as little as possible (min-max CSA-ES).

    An evolution strategy asks for genomes; the inner evaluation says how badly each is beaten.
    The gap of a genome is NashConv; of one seat's genome, what the other seat wins more than the
    game's value (by linear programming, which the search itself never uses).
    """

    stateful = ("strategy",)

    def __init__(self, job: CoevolveJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.arena = arena_of(job.game)
        self.unit: str = self.arena.game.unit
        section = job.coevolve
        self.genome = genome_of(job.game, section)
        rng = generator(job.seed, RngStream.INITIAL)
        self.strategy = EvolutionStrategy(
            self.genome.start, section.step_size, section.population, section.strategy, rng
        )
        start = self.genome.start(generator(job.seed, RngStream.INITIAL, 1))
        self.best, self.best_score = start, np.inf  # not scored yet
        self.warm = np.repeat(start[None], self.arena.seats, axis=0)  # (S, P) best replies so far

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Run the generations of an iteration and measure the best genome."""
        for generation_rng in rng.spawn(self.job.coevolve.generations):
            self._generation(generation_rng)
        return {
            metric_names.EVALUATIONS: float(self.strategy.size * len(self.strategy.scores)),
            metric_names.gap_name(self.job.coevolve.genome, self.unit): self._gap(),
            "step_size": self.strategy.step_size,
            "starts": float(self.strategy.starts),
        }

    def _generation(self, rng: Generator) -> None:
        """Score a generation, and the best so far again: what beats it may only be found later."""
        genomes = self.strategy.ask()
        scored = np.concatenate([genomes, self.best[None]])
        common = (self.job, self.warm, len(self.strategy.scores))
        size = EXACT_SHARD if self.job.inner.kind == "exact" else SHARD
        shards = [(scored[k : k + size],) for k in range(0, len(scored), size)]
        scores, replies = zip(*self.pool.map(_score, common, shards, rng), strict=True)
        score = np.concatenate(scores)
        self.strategy.tell(genomes, score[:-1])
        self.best_score = min(self.best_score, float(score[-1]))
        first = int(score[:-1].argmax())
        if score[first] > self.best_score:
            self.best, self.best_score = genomes[first], float(score[first])
        else:
            first = len(genomes)
        self.warm = np.concatenate(replies)[first]

    def sigma(self) -> Array:
        """(N, A) what the best genome so far does."""
        return self.genome.strategies(self.best[None])[0]

    def _gap(self) -> float:
        """Exploitability of the best genome, exactly."""
        return float(_row(self.job, self.arena, self.sigma())["exploitability"])

    def state(self) -> dict[str, Array]:
        best_score = np.array(self.best_score)
        return {**super().state(), "best": self.best, "best_score": best_score, "warm": self.warm}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self.best, self.best_score = state["best"], float(state["best_score"])
        self.warm = state["warm"]

    def model(self) -> dict[str, Array]:
        return {"sigma": self.sigma(), "genome": self.best}

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        progress = {"progress": figures.progress(history, self.unit)}
        return progress | self.arena.pictures(self.sigma())

    @staticmethod
    def validate(job: CoevolveJob) -> None:
        """Raise UserError for what the game cannot do: a network, a search, one seat alone."""
        genome_of(job.game, job.coevolve)
        arena = arena_of(job.game)
        if job.coevolve.seat is not None:
            arena.worth(job.coevolve.seat)
        if job.inner.kind == "searched" and not isinstance(arena, TreeEvaluator):
            raise UserError(f"{arena.game.name} has no tree to search: set inner.kind to exact")

    @staticmethod
    def evaluate_model(
        job: CoevolveJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute how close a stored strategy is to an equilibrium."""
        sigma = genome_of(job.game, job.coevolve).strategies(weights["genome"][None])[0]
        if not np.array_equal(sigma, weights["sigma"]):
            raise UserError("the model's strategy is not that of its genome: the file was changed")
        return [_row(job, arena_of(job.game), sigma)]


def genome_of(choice: GameChoice, plan: Coevolve) -> GenomeEncoding:
    """How this job's genes become strategies. Raises UserError."""
    arena = arena_of(choice)
    if plan.genome == "direct":
        return DirectEncoding(arena.legal)
    return PerceptronEncoding(arena.inputs, arena.legal, plan.hidden)


def _row(job: CoevolveJob, arena: StrategyEvaluator, sigma: Array) -> Row:
    """The table of one strategy: how far from an equilibrium, in points a game."""
    seat = job.coevolve.seat
    row: dict[str, Any] = {"genome": job.coevolve.genome, "inner": job.inner.kind}
    if seat is not None:
        gap = arena.reply_worth(sigma, 1 - seat) - arena.worth(1 - seat)
        return {**row, "seat": seat, "exploitability": gap}
    return {**row, **closeness(arena, sigma)}


def _score(rng: Generator, common: Any, genomes: Array) -> tuple[Array, Array]:
    """(M,) scores of genomes, larger is better, and (M, S, P) the best replies to each."""
    job, warm, generation = common
    arena = arena_of(job.game)
    genome, seat = genome_of(job.game, job.coevolve), job.coevolve.seat
    sigmas = genome.strategies(genomes)
    replies = np.repeat(warm[None], len(genomes), axis=0)
    if job.inner.kind == "exact" and seat is None:
        return -arena.nash_convs(sigmas), replies
    against = range(arena.seats) if seat is None else [1 - seat]
    score = np.zeros(len(genomes))
    if seat is None:
        score += arena.expecteds(sigmas).sum(axis=1)
    for m, (sigma, luck) in enumerate(zip(sigmas, rng.spawn(len(genomes)), strict=True)):
        for who in against:
            won, replies[m, who] = reply_won(
                job.inner, arena, genome, sigma, who, warm[who], generation, luck
            )
            score[m] -= won
    return score, replies
