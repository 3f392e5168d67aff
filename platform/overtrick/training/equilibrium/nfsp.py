"""Trainer `nfsp`: neural fictitious self-play in a two-seat game (Heinrich and Silver 2016).

| | Heinrich and Silver 2016 | here |
|---|---|---|
| networks | a pair for each seat | one pair for both seats |
| optimiser | SGD | Adam, with a learning rate that falls linearly to 0 |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GpuJob
from overtrick.config.sections import Count, Fraction, Positive, Section
from overtrick.core import Array, Trajectories, concatenate_trajectories
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation.evaluate import FixedPolicyEvaluation
from overtrick.evaluation.game_cache import check_discrete_actions, two_seat_game
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.value_based import dqn
from overtrick.learners.value_based import nfsp as learner
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play
from overtrick.reports.metric_names import DECISIONS
from overtrick.training import scores
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import HeldOutTrainer, UnadaptedTrainer
from overtrick.training.shared_sections import BatchSize, GradientSteps, HiddenLayers, QLearning

SHARD = 500  # games per shard, independent of the number of workers


class NfspSection(Section):
    """Settings of self-play, and of the average policy's supervised training."""

    anticipatory: Fraction = 0.1
    """Probability that a seat follows the best response in a game (eta in the paper)."""

    games: Count = 1000
    """Games per iteration."""

    hidden: HiddenLayers = (64, 64)
    learning_rate: Positive = 0.001
    """Adam's learning rate of the average policy at the start; it falls linearly to 0."""

    gradient_steps: GradientSteps = 32
    batch_size: BatchSize = 256
    reservoir_capacity: Count = 2_000_000
    """Capacity of the reservoir, in decisions."""

    def config(self) -> learner.NfspConfig:
        """Return the configuration of the average policy's learner."""
        return learner.NfspConfig(
            self.learning_rate, self.gradient_steps, self.batch_size, self.reservoir_capacity
        )


class NfspJob(GpuJob):
    """Job file of the trainer `nfsp`: neural fictitious self-play."""

    trainer: Literal["nfsp"]
    nfsp: NfspSection = NfspSection()
    values: QLearning = QLearning()
    evaluate: FixedPolicyEvaluation = FixedPolicyEvaluation()


@register("nfsp", NfspJob, scores.table_payoff, scores.payoff)
class NfspTrainer(UnadaptedTrainer[NfspJob]):
    """Trainer of two networks by self-play: a best response and an average policy.

    Q-learning trains the best response. Supervised learning on the best response's past decisions
    trains the average policy.
    """

    policy_name = "average"

    def __init__(self, job: NfspJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        rng = generator(job.seed, RngStream.INITIAL)
        section = job.nfsp
        sizes = (input_size(self.game), *section.hidden, self.game.actions)
        values = initial_weights(sizes, rng, 0.1)
        best = dqn.Dqn(self.game.features, values, job.values.config())
        average = initial_weights(sizes, rng, 0.1)
        self.learner = learner.Nfsp(self.game.features, best, average, section.config())

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the games of an iteration, and train both networks.

        In each game a seat follows the best response with probability `anticipatory`, else the
        average policy.
        """
        play_rng, learn_rng = rng.spawn(2)
        section, values = self.job.nfsp, self.job.values
        common = (
            self.job.game, self.learner.average(), self.learner.best.weights(),
            values.epsilon_at(progress), section.anticipatory,
        )  # fmt: skip
        batches = self.pool.map(_play, common, chunks(section.games, SHARD), play_rng)
        self.learner.adam.set_learning_rate(section.learning_rate * (1 - progress))
        self.learner.best.adam.set_learning_rate(values.learning_rate * (1 - progress))
        batch = concatenate_trajectories(batches)
        return {**self.learner.learn(batch, learn_rng), DECISIONS: float(len(batch))}

    def model(self) -> dict[str, Array]:
        """Return the weights of the average policy."""
        return prefixed("policy", self.learner.average())

    @staticmethod
    def validate(job: NfspJob) -> None:
        """Raise UserError for an unsuitable game or unknown opponents.

        The game must have two seats and discrete actions.
        """
        check_discrete_actions(two_seat_game(job.game)[0])
        HeldOutTrainer.validate(job)

    @staticmethod
    def rebuild_model(job: NfspJob, weights: Mapping[str, Array]) -> NetworkPolicy:
        """Return the average policy of a stored model."""
        game, _ = two_seat_game(job.game)
        return NetworkPolicy(game.features, unprefixed("policy", weights))


def _play(rng: Generator, common: Any, games: int) -> Trajectories:
    """Play a shard of self-play games; return the decisions of both seats.

    Their extra array BEST_RESPONSE_NOTE (D,) is True where the best response acted. `common`: the
    tuple (game, weights of the average policy, weights of the Q-network, epsilon, probability of
    the best response). In each game a seat follows the best response with this probability.
    """
    choice, average, values, epsilon, anticipatory = common
    game, _ = two_seat_game(choice)
    seat_rng, play_rng = rng.spawn(2)
    both = (NetworkPolicy(game.features, average), dqn.GreedyPolicy(game.features, values, epsilon))
    seating = (seat_rng.random((games, game.seats)) < anticipatory).astype(np.int64)
    batch = play(game, both, games, play_rng, seating).batch
    return replace(batch, extras={learner.BEST_RESPONSE_NOTE: seating[batch.game, batch.seat] == 1})
