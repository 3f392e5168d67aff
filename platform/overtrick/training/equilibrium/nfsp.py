"""Self-play towards an equilibrium: neural fictitious self-play (Heinrich and Silver 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Fraction, Job, Positive, Section
from overtrick.core import Array, Trajectories, concatenate_trajectories
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import (
    FixedPolicyEvaluation,
    evaluate,
    flat_metrics,
    without_adaptation,
)
from overtrick.evaluation.game_cache import check_discrete_actions, two_seat_game
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based import dqn
from overtrick.learners.value_based import nfsp as learner
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play
from overtrick.reports import figures, metric_names
from overtrick.solvers.extensive import best_response
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.shared_sections import BatchSize, GradientSteps, HiddenLayers, QLearning

SHARD = 500  # games of one shard, whatever the number of workers
AVERAGE = "average"  # what the average policy is called in the metric of exploitability


class Nfsp(Section):
    """Self-play between the average and the best reply to it."""

    anticipatory: Fraction = Field(
        default=0.1, description="eta: share of games in which a seat plays the best reply"
    )
    games: Count = Field(default=1000, description="games an iteration")
    hidden: HiddenLayers = (64, 64)
    learning_rate: Positive = Field(
        default=0.001, description="Adam's rate of the average; 0 at the end"
    )
    gradient_steps: GradientSteps = 32
    batch_size: BatchSize = 256
    reservoir_capacity: Count = Field(default=2_000_000, description="decisions in the reservoir")


class NfspJob(Job):
    """Everything a run of neural fictitious self-play needs."""

    trainer: Literal["nfsp"]
    nfsp: Nfsp = Nfsp()
    values: QLearning = QLearning()
    evaluate: FixedPolicyEvaluation = FixedPolicyEvaluation()


@register("nfsp", NfspJob, scores.table_payoff, scores.payoff)
class NfspTrainer(BaseTrainer[NfspJob]):
    """Neural fictitious self-play: learn best responses and their average from self-play."""

    def __init__(self, job: NfspJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game, self.tree = two_seat_game(job.game)
        rng = generator(job.seed, RngStream.INITIAL)
        section = job.nfsp
        sizes = (input_size(self.game), *section.hidden, self.game.actions)
        values = dqn.Dqn(self.game.features, initial_weights(sizes, rng, 0.1), job.values.config())
        self.learner = learner.Nfsp(
            self.game.features,
            values,
            initial_weights(sizes, rng, 0.1),
            learner.NfspConfig(
                section.learning_rate,
                section.gradient_steps,
                section.batch_size,
                section.reservoir_capacity,
            ),
        )

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the games of an iteration, each seat by one of both policies, and learn."""
        play_rng, learn_rng = rng.spawn(2)
        section, values = self.job.nfsp, self.job.values
        common = (
            self.job.game, self.learner.average(), self.learner.best.weights(),
            values.epsilon_at(progress), section.anticipatory,
        )  # fmt: skip
        batches = self.pool.map(_play, common, chunks(section.games, SHARD), play_rng)
        self.learner.adam.pace(section.learning_rate * (1 - progress))
        self.learner.best.adam.pace(values.learning_rate * (1 - progress))
        return self.learner.learn(concatenate_trajectories(batches), learn_rng)

    def evaluate(self) -> Metrics:
        return self._exploitability() | flat_metrics(self.rows(), self.game.unit)

    def _exploitability(self) -> Metrics:
        """Compute the exploitability of the average policy, where there is a tree."""
        if self.tree is None:
            return {}
        sigma = best_response.sigma_of(self.tree, [self.learner.policy()] * 2)
        name = metric_names.gap_name(AVERAGE, self.game.unit)
        return {name: best_response.exploitability(self.tree, sigma)}

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        unit = self.game.unit
        return figures.of_unadapted(history, AVERAGE, unit, unit, self.tree is not None)

    def model(self) -> dict[str, Array]:
        """Return the average policy."""
        return prefixed("policy", self.learner.average())

    @staticmethod
    def validate(job: NfspJob) -> None:
        """Raise UserError for a game that is not for two, or unknown opponents."""
        check_discrete_actions(two_seat_game(job.game)[0])
        evaluate_page.check_evaluation(job.game, job.evaluate)

    @staticmethod
    def evaluate_model(
        job: NfspJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate an average policy, which never adapts, against the held-out opponents."""
        game, _ = two_seat_game(job.game)
        policy = NetworkPolicy(game.features, unprefixed("policy", weights))
        return evaluate(job.game, without_adaptation, policy, job.evaluate, pool, rng)


def _play(rng: Generator, common: Any, games: int) -> Trajectories:
    """All decisions of so many games, and which of them the best reply made."""
    choice, average, values, epsilon, anticipatory = common
    game, _ = two_seat_game(choice)
    seat_rng, play_rng = rng.spawn(2)
    both = (NetworkPolicy(game.features, average), dqn.GreedyPolicy(game.features, values, epsilon))
    seating = (seat_rng.random((games, game.seats)) < anticipatory).astype(np.int64)
    batch = play(game, both, games, play_rng, seating).batch
    return replace(batch, extras={learner.BEST_RESPONSE_NOTE: seating[batch.game, batch.seat] == 1})
