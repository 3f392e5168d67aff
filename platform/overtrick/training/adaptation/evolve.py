"""A population evolves by its own games alone: evolution without a meta-model ("EA" in Wu et al.
2022, tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, GameChoice, Job, Positive, Section, Share
from overtrick.core import Array, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import Evaluate, Row, evaluate, metrics_of
from overtrick.evaluation.game_cache import two_seats
from overtrick.games import registry
from overtrick.learners.initialisation import MOVE_STD
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.policies.batched_networks import Crowd
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import inputs, outputs
from overtrick.population.genetic import Evolution
from overtrick.population.population import Population
from overtrick.reports import figures
from overtrick.training.adaptation.held_out_evaluation import Start, adapted, check_estimator
from overtrick.training.adaptation.opponent_population import check_spread, newcomers
from overtrick.training.adaptation.rollouts import ON_TREE, GradientEstimator, fitness
from overtrick.training.trainer import History, Report

SHARD = 50  # pairs of members of one shard, whatever the number of workers


class Evolve(Section):
    """The population (Table 1, column Leduc), and how its champion adapts."""

    hidden: tuple[Count, ...] = Field(default=(64, 64), description="units of each ReLU layer")
    size: int = Field(default=10, ge=2, description="members")
    elite_share: Share = Field(default=0.2, description="share that is kept unchanged")
    mutation_rate: Share = Field(default=0.3, description="probability that a member mutates")
    mutation_strength: float = Field(
        default=0.1, ge=0, description="noise as a multiple of a layer's root mean square"
    )
    games: Count = Field(default=50, description="games of each pair of members a generation")
    head_init_scale: Positive = Field(
        default=1.0, description="largest scale of a first member's last layer"
    )
    logit_bias_std: float = Field(
        default=0.0,
        ge=0,
        description="largest spread of its action preferences, logits, or mean moves",
    )
    action_std_scale: Positive = Field(
        default=1.0, description="where one moves: factor on their standard deviations"
    )
    gradient_estimator: GradientEstimator = Field(
        default="critic", description="of the champion's steps at test: as meta.gradient_estimator"
    )
    discount: Share = Field(default=0.99, description="gamma, a decision, of those steps")


class EvolveJob(Job):
    """Everything an evolve run needs."""

    trainer: Literal["evolve"]
    evolve: Evolve = Evolve()
    evaluate: Evaluate = Evaluate()


class EvolveTrainer:
    """Everybody plays everybody; the elite stays, the rest cross over with it and mutate.

    A member's fitness is its mean payoff against all the others, as many games against each, in
    a zero-sum game: no pair is played twice, and no stranger is ever met. The model is the best
    member of the last generation that was scored. At test it takes one gradient a step from
    the same games as a meta-model, for the tables compare what methods win after the same
    interaction; its baseline is 0, since nothing here learns one.
    """

    def __init__(self, job: EvolveJob, crew: WorkerPool) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.game, _ = two_seats(job.game)
        plan = job.evolve
        sizes = (inputs(self.game), *plan.hidden, outputs(self.game))
        rng = generator(job.seed, RngStream.INITIAL)
        spread = np.full(sizes[-1], np.log(MOVE_STD * plan.action_std_scale), np.float32)
        log_std = spread if self.game.actions is None else None
        first = newcomers(sizes, plan.size, plan.head_init_scale, plan.logit_bias_std, rng, log_std)
        operators = Evolution(plan.elite_share, plan.mutation_rate, plan.mutation_strength)
        self.host = crew.host(Population(first, operators))

    def step(self) -> dict[str, float]:
        """One generation."""
        self.iteration += 1
        rng = generator(self.job.seed, RngStream.TRAIN, self.iteration)
        play_rng, breed_rng = rng.spawn(2)
        members, plan = self.host.state(), self.job.evolve
        scores = round_robin(self.job.game, members, plan.games, self.crew, play_rng)
        metrics: dict[str, float] = self.host.call("breed", scores, breed_rng)
        last = self.iteration == self.job.stop.iterations
        if last or self.iteration % self.job.evaluate.every == 0:
            metrics |= metrics_of(self._rows(), registry.scored(self.game).unit)
        return metrics

    def model(self) -> dict[str, Array]:
        """The champion's weights."""
        return prefixed("policy", {n: v[0] for n, v in self.host.state().items()})

    def state(self) -> dict[str, Array]:
        return {**prefixed("population", self.host.state()), "iteration": np.array(self.iteration)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.host.load(unprefixed("population", state))
        self.iteration = int(state["iteration"])

    def report(self, history: History) -> Report:
        """How the champion adapts, and how champions did on the way."""
        rows, unit = self._rows(), registry.scored(self.game).unit
        drawn = {
            "learning_curve": figures.learning_curve(history, unit),
            "adaptation": figures.adaptation(rows, unit),
        }
        return Report(rows, drawn)

    def _rows(self) -> list[Row]:
        """Adaptation to every stranger, with the same luck every time."""
        rng = generator(self.job.seed, RngStream.JUDGE)
        return judge(self.job, self.model(), self.crew, rng)

    def close(self) -> None:
        self.crew.close()


def round_robin(
    choice: GameChoice, members: Weights, games: int, crew: WorkerPool, rng: Generator
) -> Array:
    """(M,) mean points a game of each member against all the others; their sum is 0."""
    size = len(members["w0"])
    one, other = np.triu_indices(size, 1)
    shards = [(one[k : k + SHARD], other[k : k + SHARD]) for k in range(0, len(one), SHARD)]
    won = np.concatenate(crew.map(_pairs, (choice, members, games), shards, rng))
    return (np.bincount(one, won, size) - np.bincount(other, won, size)) / (size - 1)


def _pairs(rng: Generator, common: Any, one: Array, other: Array) -> Array:
    """Mean points a game of some members against as many others, all in one call."""
    choice, members, games = common
    game, _ = two_seats(choice)
    ours, theirs = ({n: v[side] for n, v in members.items()} for side in (one, other))
    return fitness(game, ours, Crowd(game.features, theirs), games, rng)


def check(job: EvolveJob) -> None:
    """Raise UserError for a game that two do not play or that is not zero-sum, opponents that do
    not exist, or steps that need a tree where there is none."""
    game, tree = two_seats(job.game)
    registry.check_zero_sum(game)
    check_spread("evolve.action_std_scale", job.evolve.action_std_scale, game)
    if job.evolve.gradient_estimator == "privileged_critic":
        raise UserError(
            "evolve.gradient_estimator: privileged_critic needs a critic, and evolution trains "
            "none: set "
            "critic"
        )
    check_estimator("evolve.gradient_estimator", job.evolve.gradient_estimator, game, tree)
    if (
        tree is not None
        and job.evolve.gradient_estimator in ON_TREE
        and job.evolve.given(["discount"])
    ):
        raise UserError(
            f"evolve.gradient_estimator: {job.evolve.gradient_estimator} has no use for "
            "evolve.discount: leave that out"
        )
    evaluate_page.check(job.game, job.evaluate)


def judge(
    job: EvolveJob, weights: Mapping[str, Array], crew: WorkerPool, rng: Generator
) -> list[Row]:
    """How well a champion of this job adapts to the job's strangers."""
    theta = unprefixed("policy", weights)
    nothing = {"w0": np.zeros((len(theta["w0"]), 1), np.float32), "b0": np.zeros(1, np.float32)}
    start = Start(theta, nothing, False, job.evolve.discount, job.evolve.gradient_estimator)
    return evaluate(job.game, adapted, start, job.evaluate, crew, rng)
