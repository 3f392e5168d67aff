"""Trainer `evolve`: evolves policy networks; a round robin among them determines their fitness.

It is the baseline "EA" (evolutionary algorithm) in Wu et al. 2022, tables 2 and 3, with the genetic
operators of their algorithm 2.

In the paper fitness is the payoff against the meta-model. Here there is no meta-model;
fitness is the mean payoff in the round robin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice, GpuJob
from overtrick.config.sections import Count
from overtrick.core import Array, UserError, select_rows
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.core.devices import gpu_in_use
from overtrick.distributed.workers import (
    LocalPool,
    RngStream,
    WorkerPool,
    array_chunks,
    generator,
)
from overtrick.evaluation.evaluate import AdaptationEvaluation
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.games import registry
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import input_size, output_size
from overtrick.population.population import Population
from overtrick.training import scores, shared_sections
from overtrick.training.adaptation import gradient_adaptation
from overtrick.training.adaptation.gradient_samples import ON_TREE, GradientEstimator, mean_payoffs
from overtrick.training.adaptation.opponent_population import check_action_std_scale
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import HeldOutTrainer

SHARD = 50  # pairs of members per shard, independent of the number of workers


class Evolve(shared_sections.GeneticOperators, shared_sections.RandomMembers):
    """Settings of the population, its evolution, and the adaptation of its best member."""

    hidden: shared_sections.HiddenLayers = (64, 64)
    size: int = Field(default=10, ge=2)
    """Number of members of the population."""

    games: Count = 50
    """Games of each pair of members per generation."""

    gradient_estimator: GradientEstimator = "critic"
    """Estimator of the adaptation gradient in evaluation, as in meta.gradient_estimator."""

    discount: shared_sections.Discount = 0.99


class EvolveJob(GpuJob):
    """Job file of the trainer `evolve`: evolution of a population in a round robin."""

    trainer: Literal["evolve"]
    evolve: Evolve = Evolve()
    evaluate: AdaptationEvaluation = AdaptationEvaluation()


@register("evolve", EvolveJob, scores.table_payoff, scores.payoff)
class EvolveTrainer(HeldOutTrainer[EvolveJob]):
    """Trainer that evolves a population of policy networks by elite, crossover and mutation.

    The game is zero-sum. The fitness of a member is its mean payoff in a round robin: it plays the
    same number of games against every other member. The model is the fittest member of the last
    scored generation. In evaluation the model adapts to an opponent by policy gradient, with one
    gradient step after every `evaluate.games` games. No critic is trained.

    With a GPU, this process plays the round robin and computes the members' networks on the GPU;
    the workers then only play in evaluations.
    """

    stateful = ("population",)
    adapt = staticmethod(gradient_adaptation.adapt_by_gradients)

    def __init__(self, job: EvolveJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        section = job.evolve
        sizes = (input_size(self.game), *section.hidden, output_size(self.game))
        rng = generator(job.seed, RngStream.INITIAL)
        log_std = section.action_log_std(self.game)
        members = section.random_networks(sizes, section.size, rng, log_std)
        self.population = pool.host(Population(members, section.operators()))

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Score a generation by a round robin and breed the next generation."""
        play_rng, breed_rng = rng.spawn(2)
        members, games = self.population.state(), self.job.evolve.games
        pool = LocalPool(on_learner_device=True) if gpu_in_use() else self.pool
        fitness = round_robin(self.job.game, members, games, pool, play_rng)
        return self.population.call("next_generation", fitness, breed_rng)

    def model(self) -> dict[str, Array]:
        """Return the weights of the fittest member of the last scored generation."""
        return prefixed("policy", {n: v[0] for n, v in self.population.state().items()})

    @staticmethod
    def validate(job: EvolveJob) -> None:
        """Raise UserError for an unsuitable game, unknown opponents, or settings that do not fit.

        The game must have two seats and be zero-sum.
        """
        game, tree = two_seat_game(job.game)
        registry.check_zero_sum(game)
        section, estimator = job.evolve, job.evolve.gradient_estimator
        check_action_std_scale("evolve.action_std_scale", section.action_std_scale, game)
        if estimator == "privileged_critic":
            raise UserError(
                "evolve.gradient_estimator: privileged_critic needs a critic, and evolution trains "
                "none: set critic"
            )
        gradient_adaptation.check_estimator("evolve.gradient_estimator", estimator, game, tree)
        if tree is not None and estimator in ON_TREE and section.changed_keys(["discount"]):
            raise UserError(
                f"evolve.discount has no effect with evolve.gradient_estimator {estimator}: leave "
                "it out, or set evolve.gradient_estimator to critic"
            )
        HeldOutTrainer.validate(job)

    @staticmethod
    def rebuild_model(
        job: EvolveJob, weights: Mapping[str, Array]
    ) -> gradient_adaptation.AdaptingModel:
        """Return the stored network as an AdaptingModel, with a critic that always predicts 0."""
        theta = unprefixed("policy", weights)
        zero_critic = {
            "w0": np.zeros((len(theta["w0"]), 1), np.float32), "b0": np.zeros(1, np.float32),
        }  # fmt: skip
        section = job.evolve
        return gradient_adaptation.AdaptingModel(
            theta, zero_critic, False, section.discount, section.gradient_estimator
        )


def round_robin(
    choice: GameChoice, members: Weights, games: int, pool: WorkerPool, rng: Generator
) -> Array:
    """Play a round robin of M networks; return (M,) each network's mean points per game.

    `members`: weights of the networks. `games`: games of each pair. The results sum to 0, because
    the game is zero-sum.
    """
    size = len(members["w0"])
    one, other = np.triu_indices(size, 1)
    shards = array_chunks(SHARD, one, other)
    payoff = np.concatenate(pool.map(_play_pairs, (choice, members, games), shards, rng))
    return (np.bincount(one, payoff, size) - np.bincount(other, payoff, size)) / (size - 1)


def _play_pairs(rng: Generator, common: Any, one: Array, other: Array) -> Array:
    """Play pairs of networks; return (pairs,) the mean points per game of each first network.

    `common`: the tuple (game, weights of the population's networks, number of games per pair).
    `one`, `other` (pairs,): indices of the first and of the second network of each pair.
    """
    choice, members, games = common
    game, _ = two_seat_game(choice)
    ours, theirs = (select_rows(members, side) for side in (one, other))
    return mean_payoffs(game, ours, BatchedNetworks(game.features, theirs), games, rng)
