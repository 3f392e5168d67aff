"""Trainer `dagger`: a network learns to act as a teacher does (DAgger, Ross et al. 2011).

Errors lead a cloned policy to states that the teacher never visits, where it has no training data.
DAgger therefore lets the student play, and labels each of its decisions with the teacher's action.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from numpy.random import Generator

from overtrick.config.job_file import GpuJob
from overtrick.config.sections import Count, Opponent, Positive, Section
from overtrick.core import Array, Trajectories, concatenate_trajectories
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.evaluate import FixedPolicyEvaluation
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.learners.initialisation import initial_policy_weights
from overtrick.learners.supervised.dagger import Dagger
from overtrick.policies.dagger import DaggerPolicy
from overtrick.policies.network import network_policy
from overtrick.policies.rollout import play, random_seating
from overtrick.training import scores
from overtrick.training.adaptation.gradient_samples import diverged_games_metric
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import HeldOutTrainer, UnadaptedTrainer
from overtrick.training.shared_sections import HEAD_SCALE, BatchSize, GradientSteps, HiddenLayers

SHARD = 20  # games per shard, independent of the number of workers


class DaggerSection(Section):
    """Settings of the teacher, the games and the network."""

    teacher: Opponent
    """Name of a reference opponent or of a run, or folder of a model."""

    opponent: Opponent | None = None
    """Opponent in the games of training, named like the teacher. None: the teacher itself."""

    hidden: HiddenLayers = (64, 64)
    games: Count = 40
    """Games per iteration."""

    teacher_iterations: Count = 10
    """Iterations over which the share of games that the teacher plays falls linearly from 1 to 0;
    the student plays the others.
    """

    learning_rate: Positive = 0.001
    """Adam's learning rate at the start; it falls linearly to 0."""

    gradient_steps: GradientSteps = 200
    batch_size: BatchSize = 512
    replay_capacity: Count = 500_000
    """Capacity of the buffer, in decisions."""


class DaggerJob(GpuJob):
    """Job file of the trainer `dagger`: a network learns to act as a teacher does."""

    trainer: Literal["dagger"]
    dagger: DaggerSection
    evaluate: FixedPolicyEvaluation = FixedPolicyEvaluation()


@register(
    "dagger",
    DaggerJob,
    scores.final_negative_exploitability,
    scores.negative_exploitability_or_payoff,
)
class DaggerTrainer(UnadaptedTrainer[DaggerJob]):
    """Trainer of a policy network that imitates a teacher in a two-seat game."""

    policy_name = "student"

    def __init__(self, job: DaggerJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        section = job.dagger
        rng = generator(job.seed, RngStream.INITIAL)
        self.learner = Dagger(
            self.game.features,
            initial_policy_weights(self.game, section.hidden, rng, HEAD_SCALE),
            section.learning_rate,
            section.replay_capacity,
            section.gradient_steps,
            section.batch_size,
        )

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play games that the teacher labels, and train the network."""
        play_rng, learn_rng = rng.spawn(2)
        section = self.job.dagger
        share = max(0.0, 1 - (self.iteration - 1) / section.teacher_iterations)
        common = (self.job.game, section, self.learner.weights(), share)
        played = self.pool.map(_play, common, chunks(section.games, SHARD), play_rng)
        batches, diverged = zip(*played, strict=True)
        self.learner.adam.set_learning_rate(section.learning_rate * (1 - progress))
        # in a small shard the student may not have to act at all
        labelled = [batch for batch in batches if len(batch)]
        metrics = {}
        if labelled:
            metrics = self.learner.learn(concatenate_trajectories(labelled), learn_rng)
        return {
            **metrics,
            "teacher_share": share,
            **diverged_games_metric(self.game, sum(diverged)),
        }

    def model(self) -> dict[str, Array]:
        """Return the weights of the policy network."""
        return prefixed("policy", self.learner.weights())

    @staticmethod
    def validate(job: DaggerJob) -> None:
        """Raise UserError for a game without two seats, or an unknown teacher or opponent."""
        game, tree = two_seat_game(job.game)
        for name in (job.dagger.teacher, job.dagger.opponent):
            if name is not None:
                reference_opponents.check_opponent(name, game, tree)
        HeldOutTrainer.validate(job)

    @staticmethod
    def rebuild_model(job: DaggerJob, weights: Mapping[str, Array]) -> Any:
        """Return the policy of a stored model."""
        game, _ = two_seat_game(job.game)
        return network_policy(game.features, unprefixed("policy", weights))


def _play(rng: Generator, common: Any, games: int) -> tuple[Trajectories, int]:
    """Play a shard of games; return the decisions of the student's seat, labelled by the teacher.

    Also returns the number of games whose simulation diverged. `common`: the tuple (game, section
    `dagger`, weights of the student's policy, share of games that the teacher plays).
    """
    choice, section, theta, share = common
    game, _ = two_seat_game(choice)
    seat_rng, play_rng = rng.spawn(2)
    teacher = cached_opponent(choice, section.teacher)
    opponent = cached_opponent(choice, section.opponent or section.teacher)
    both = (DaggerPolicy(network_policy(game.features, theta), teacher, share), opponent)
    played = play(game, both, games, play_rng, random_seating(games, seat_rng), [0])
    return played.batch, played.diverged_games
