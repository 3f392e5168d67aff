"""A population evolves by its own games alone: evolution without a meta-model ("EA" in Wu et al.
2022, tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, GameChoice, Job
from overtrick.core import Array, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import AdaptationEvaluation, evaluate, flat_metrics
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.games import registry
from overtrick.learners.initialisation import INITIAL_ACTION_STD
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import input_size, output_size
from overtrick.population.genetic import EvolutionConfig
from overtrick.population.population import Population
from overtrick.reports import figures
from overtrick.training import scores
from overtrick.training.adaptation.held_out_evaluation import Start, adapted, check_estimator
from overtrick.training.adaptation.opponent_population import check_spread, newcomers
from overtrick.training.adaptation.rollouts import ON_TREE, GradientEstimator, fitness
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.shared_sections import (
    Discount,
    GeneticOperators,
    HiddenLayers,
    RandomMembers,
)

SHARD = 50  # pairs of members of one shard, whatever the number of workers


class Evolve(GeneticOperators, RandomMembers):
    """Population and its evolution, and the adaptation of its best member."""

    hidden: HiddenLayers = (64, 64)
    size: int = Field(default=10, ge=2, description="members of the population")
    games: Count = Field(default=50, description="games of each pair of members per generation")
    gradient_estimator: GradientEstimator = Field(
        default="critic",
        description="how the gradient of adaptation is estimated in evaluation, as "
        "meta.gradient_estimator",
    )
    discount: Discount = 0.99


class EvolveJob(Job):
    """Everything an evolve run needs."""

    trainer: Literal["evolve"]
    evolve: Evolve = Evolve()
    evaluate: AdaptationEvaluation = AdaptationEvaluation()


@register("evolve", EvolveJob, scores.table_payoff, scores.payoff)
class EvolveTrainer(BaseTrainer[EvolveJob]):
    """Evolve a population by a round robin: the elite stays, the rest cross over and mutate.

    A member's fitness is its mean payoff against all others, as many games against each, in a
    zero-sum game: no pair is played twice, and no held-out opponent is ever met. The model is the
    best member of the last generation that was scored. In evaluation it takes one gradient a step
    from the same games as a meta-model, for the tables compare methods after the same
    interaction; its baseline is 0, since no critic is trained here.
    """

    stateful = ("population",)

    def __init__(self, job: EvolveJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game, _ = two_seat_game(job.game)
        section = job.evolve
        sizes = (input_size(self.game), *section.hidden, output_size(self.game))
        rng = generator(job.seed, RngStream.INITIAL)
        log_std = None
        if self.game.actions is None:
            std = INITIAL_ACTION_STD * section.action_std_scale
            log_std = np.full(sizes[-1], np.log(std), np.float32)
        first = newcomers(
            sizes, section.size, section.head_init_scale, section.logit_bias_std, rng, log_std
        )
        operators = EvolutionConfig(
            section.elite_share, section.mutation_rate, section.mutation_strength
        )
        self.population = pool.host(Population(first, operators))

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Score and breed one generation."""
        play_rng, breed_rng = rng.spawn(2)
        members, games = self.population.state(), self.job.evolve.games
        fitnesses = round_robin(self.job.game, members, games, self.pool, play_rng)
        metrics: Metrics = self.population.call("breed", fitnesses, breed_rng)
        return metrics

    def evaluate(self) -> Metrics:
        return flat_metrics(self.rows(), registry.evaluation_game(self.game).unit)

    def model(self) -> dict[str, Array]:
        """Return the weights of the best member."""
        return prefixed("policy", {n: v[0] for n, v in self.population.state().items()})

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        return figures.of_adaptation(history, rows, registry.evaluation_game(self.game).unit)

    @staticmethod
    def validate(job: EvolveJob) -> None:
        """Raise UserError for a game that is not for two or not zero-sum, unknown opponents, or a
        gradient estimator that needs a tree where there is none."""
        game, tree = two_seat_game(job.game)
        registry.check_zero_sum(game)
        section, estimator = job.evolve, job.evolve.gradient_estimator
        check_spread("evolve.action_std_scale", section.action_std_scale, game)
        if estimator == "privileged_critic":
            raise UserError(
                "evolve.gradient_estimator: privileged_critic needs a critic, and evolution trains "
                "none: set critic"
            )
        check_estimator("evolve.gradient_estimator", estimator, game, tree)
        if tree is not None and estimator in ON_TREE and section.changed_keys(["discount"]):
            raise UserError(
                f"evolve.gradient_estimator: {estimator} has no use for evolve.discount: leave "
                "that out"
            )
        evaluate_page.check_evaluation(job.game, job.evaluate)

    @staticmethod
    def evaluate_model(
        job: EvolveJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate the adaptation of the best member to the held-out opponents."""
        theta = unprefixed("policy", weights)
        no_critic = {
            "w0": np.zeros((len(theta["w0"]), 1), np.float32), "b0": np.zeros(1, np.float32),
        }  # fmt: skip
        section = job.evolve
        start = Start(theta, no_critic, False, section.discount, section.gradient_estimator)
        return evaluate(job.game, adapted, start, job.evaluate, pool, rng)


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
    game, _ = two_seat_game(choice)
    ours, theirs = ({n: v[side] for n, v in members.items()} for side in (one, other))
    return fitness(game, ours, BatchedNetworks(game.features, theirs), games, rng)
