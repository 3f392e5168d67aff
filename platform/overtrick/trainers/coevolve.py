"""Strategies that evolve to be beaten as little as possible (Samothrakis and Lucas 2011)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick import figures, games
from overtrick.config import Count, GameChoice, Job, Positive, Section
from overtrick.core import Array, Game, Refused
from overtrick.learners.networks import prefixed, unprefixed
from overtrick.population.genomes import Direct, Genome, Perceptron
from overtrick.population.strategy import Strategy
from overtrick.solvers import sequence_form, value
from overtrick.solvers.tree import Tree
from overtrick.trainers.evaluate import Row, known
from overtrick.trainers.inner import Inner, replies_won
from overtrick.trainers.report import History, Report
from overtrick.workers import Crew, Part, generator

SHARD = 5  # genomes of one shard, whatever the number of workers


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
    step: Positive = Field(default=0.5, description="initial step size")
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
        seats = games.make(self.game.name, **self.game.options).seats
        seat = self.coevolve.seat
        if seat is not None and (seat >= seats or seats != 2):
            raise ValueError(f"coevolve.seat {seat}: one seat evolves alone only in games of 2")
        return self


class CoevolveTrainer:
    """An evolution strategy asks for genomes, the inner evaluation says how badly each is beaten.

    The gap of a genome is NashConv; of one seat's genome, what the other seat wins more than the
    game's value (by linear programming, which the search itself never uses).
    """

    def __init__(self, job: CoevolveJob, crew: Crew) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.game, self.tree = known(job.game)
        plan = job.coevolve
        self.genome = genome_of(job.game, plan)
        rng = generator(job.seed, Part.INITIAL)
        self.strategy = Strategy(self.genome.start, plan.step, plan.population, plan.strategy, rng)
        start = self.genome.start(generator(job.seed, Part.INITIAL, 1))
        self.best, self.best_score = start, np.inf  # not scored yet
        self.warm = np.repeat(start[None], self.tree.seats, axis=0)  # (S, P) best replies so far

    def step(self) -> dict[str, float]:
        """So many generations; the metrics of what was found by then."""
        self.iteration += 1
        rng = generator(self.job.seed, Part.TRAIN, self.iteration)
        for luck in rng.spawn(self.job.coevolve.generations):
            self._generation(luck)
        return {
            figures.EVALUATIONS: float(self.strategy.size * len(self.strategy.told)),
            figures.gap_name(self.job.coevolve.genome, self.game.unit): self._gap(),
            "step_size": self.strategy.spread,
            "starts": float(self.strategy.starts),
        }

    def _generation(self, rng: Generator) -> None:
        """Score a generation, and the best so far again: what beats it may only be found later."""
        genomes = self.strategy.ask()
        scored = np.concatenate([genomes, self.best[None]])
        common = (self.job, self.warm, len(self.strategy.told))
        shards = [(scored[k : k + SHARD],) for k in range(0, len(scored), SHARD)]
        scores, replies = zip(*self.crew.map(_score, common, shards, rng), strict=True)
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
        return _gap(self.job, self.tree, self.sigma()) / (
            self.tree.seats if self.job.coevolve.seat is None else 1
        )

    def state(self) -> dict[str, Array]:
        return {
            **prefixed("strategy", self.strategy.state()),
            "best": self.best,
            "best_score": np.array(self.best_score),
            "warm": self.warm,
            "iteration": np.array(self.iteration),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.strategy.load(unprefixed("strategy", state))
        self.best, self.best_score = state["best"], float(state["best_score"])
        self.warm, self.iteration = state["warm"], int(state["iteration"])

    def model(self) -> dict[str, Array]:
        return {"sigma": self.sigma(), "genome": self.best}

    def report(self, history: History) -> Report:
        """How close the best genome came, the way there, and what it plays."""
        sigma = self.sigma()
        drawn = {"progress": figures.progress(history, self.game.unit)}
        if self.tree.infosets <= figures.FEW_SETS and isinstance(self.game, Game):
            words = [self.game.describe(seen) for seen in self.tree.turn.seen]
            actions = self.game.action_names
            drawn["strategy"] = figures.strategy(sigma, words, actions)
            chosen = value.edge_probability(self.tree, sigma)
            drawn["tree"] = figures.game_tree(self.tree, chosen, actions)
        return Report(_rows(self.job, self.tree, sigma), drawn)

    def close(self) -> None:
        self.crew.close()


def check(job: CoevolveJob) -> None:
    """Raise Refused for a genome that the game has no inputs for."""
    genome_of(job.game, job.coevolve)


def judge(job: CoevolveJob, weights: Mapping[str, Array], crew: Crew, rng: Generator) -> list[Row]:
    """How close a stored strategy is to an equilibrium."""
    return _rows(job, known(job.game)[1], weights["sigma"])


def genome_of(choice: GameChoice, plan: Coevolve) -> Genome:
    """How this job's genes become strategies. Raises Refused."""
    game, tree = known(choice)
    if plan.genome == "direct":
        return Direct(tree.legal)
    if not hasattr(game, "brief"):
        raise Refused(f"{game.name} has no inputs for a network: set coevolve.genome to direct")
    return Perceptron(game.brief(tree.turn), tree.legal, plan.hidden)


def _rows(job: CoevolveJob, tree: Tree, sigma: Array) -> list[Row]:
    gap, seat = _gap(job, tree, sigma), job.coevolve.seat
    row: dict[str, Any] = {"genome": job.coevolve.genome, "inner": job.inner.kind}
    if seat is not None:
        return [{**row, "seat": seat, "exploitability": gap}]
    values = value.expected(tree, sigma).tolist()
    return [{**row, "exploitability": gap / tree.seats, "nash_conv": gap, "values": values}]


def _gap(job: CoevolveJob, tree: Tree, sigma: Array) -> float:
    """NashConv; of one seat's strategy what the other wins above the game's value."""
    seat = job.coevolve.seat
    if seat is None:
        return value.nash_conv(tree, sigma)
    worth = sequence_form.equilibrium(tree)[0]
    return value.best_response(tree, sigma, 1 - seat)[0] - (worth if seat == 1 else -worth)


def _score(rng: Generator, common: Any, genomes: Array) -> tuple[Array, Array]:
    """(M,) scores of genomes, larger is better, and (M, S, P) the best replies to each."""
    job, warm, generation = common
    _, tree = known(job.game)
    genome, seat = genome_of(job.game, job.coevolve), job.coevolve.seat
    sigmas = genome.strategies(genomes)
    replies = np.repeat(warm[None], len(genomes), axis=0)
    if job.inner.kind == "exact" and seat is None:
        return -value.nash_convs(tree, sigmas), replies
    against = range(tree.seats) if seat is None else [1 - seat]
    score = np.zeros(len(genomes))
    if seat is None:
        score += value.expecteds(tree, sigmas).sum(axis=1)
    for m, (sigma, luck) in enumerate(zip(sigmas, rng.spawn(len(genomes)), strict=True)):
        for who in against:
            won, replies[m, who] = replies_won(
                job.inner, tree, genome, sigma, who, warm[who], generation, luck
            )
            score[m] -= won
    return score, replies
