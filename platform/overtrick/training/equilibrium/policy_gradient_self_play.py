"""Trainer `policy_gradient_self_play`: PPO, magnetic mirror descent or R-NaD in self-play.

Each seat has a policy network of its own.

Source: Rudolph et al. 2025, "Reevaluating policy gradient methods for imperfect-information games".

| here | the paper |
|---|---|
| the entropy coefficient decays exponentially | as a power of the number of steps |
| the coefficient of MMD's penalty is constant | it rises during training |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Job
from overtrick.config.sections import Count, Positive, UnusedKeys
from overtrick.core import (
    Array,
    BehaviouralPolicy,
    Trajectories,
    concatenate_trajectories,
    select_rows,
)
from overtrick.core.checkpoints import prefixed
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation import evaluate as evaluation
from overtrick.evaluation.evaluate import FixedPolicyEvaluation
from overtrick.evaluation.game_cache import check_discrete_actions, two_seat_game
from overtrick.games import registry
from overtrick.learners.policy_gradient.actor_critic import PolicyOptimizer
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.regularised_rewards import RewardRegulariser
from overtrick.policies.forward_pass import Weights
from overtrick.policies.model_kinds import StoredWeights, load_policy
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.policy_batch import SEAT
from overtrick.policies.rollout import play
from overtrick.reports.metric_names import DECISIONS
from overtrick.training import scores
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import UnadaptedTrainer
from overtrick.training.shared_sections import PpoLearner

SHARD = 500  # games per shard, independent of the number of workers


class PolicyGradientSelfPlay(PpoLearner):
    """Settings of the policy gradient and of its regularisation."""

    unused_keys = (
        UnusedKeys({"algorithm": ("ppo", "rnad")}, ("behaviour_kl_coef",)),
        UnusedKeys({"algorithm": ("ppo", "mmd")}, ("reference_kl_coef", "reference_interval")),
    )

    algorithm: Literal["ppo", "mmd", "rnad"] = "ppo"
    """ppo: PPO with an entropy bonus. mmd: magnetic mirror descent, PPO with an entropy bonus and a
    penalty on the KL divergence from the behaviour policy. rnad: regularised Nash dynamics, PPO
    with an entropy bonus on rewards that are relative to a reference policy.
    """

    games: Count = 1000
    """Games per iteration; both seats learn from all of them."""

    learning_rate: Positive = 0.003
    """Adam's learning rate at the start; it falls linearly to 0."""

    entropy_coef: Positive = 1.0
    """Entropy bonus at the start, in points per nat; it falls geometrically to entropy_coef_end."""

    entropy_coef_end: Positive = 0.1
    """Entropy bonus at the end, in points per nat."""

    behaviour_kl_coef: float = Field(default=1.0, ge=0)
    """Penalty on KL(policy, behaviour policy), in points per nat: 1 / eta of mirror descent. The
    behaviour policy played the games of this iteration.
    """

    reference_kl_coef: Positive = 0.2
    """Weight of the log-ratio of policy to reference policy in the rewards, in points per nat: eta
    of R-NaD.
    """

    reference_interval: Count = 100
    """Iterations between replacements of the reference policy by the current policy."""


class PolicyGradientSelfPlayJob(Job):
    """Job file of the trainer `policy_gradient_self_play`: policy gradients in self-play."""

    trainer: Literal["policy_gradient_self_play"]
    self_play: PolicyGradientSelfPlay = PolicyGradientSelfPlay()
    evaluate: FixedPolicyEvaluation = FixedPolicyEvaluation()


@register(
    "policy_gradient_self_play",
    PolicyGradientSelfPlayJob,
    scores.final_negative_exploitability,
    scores.negative_exploitability_or_payoff,
)
class PolicyGradientSelfPlayTrainer(UnadaptedTrainer[PolicyGradientSelfPlayJob]):
    """Trainer of two policy networks that play against each other and improve by PPO.

    Without the regularisation the policies cycle and do not approach an equilibrium.
    """

    stateful = ()

    policy_name = "policy"

    def __init__(self, job: PolicyGradientSelfPlayJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        section, rng = job.self_play, generator(job.seed, RngStream.INITIAL)
        self.learners = [
            section.learner(self.game, section.learning_rate, seat_rng)
            for seat_rng in rng.spawn(self.game.seats)
        ]
        self.regulariser = None
        if section.algorithm == "rnad":
            self.regulariser = RewardRegulariser(
                self.game.features,
                self._networks(),
                section.reference_kl_coef,
                section.reference_interval,
            )

    def parts(self) -> Mapping[str, Any]:
        """Return the learner of each seat and the reference policies, for a checkpoint."""
        learners = {SEAT.format(seat): each for seat, each in enumerate(self.learners)}
        return {**learners, **({"regulariser": self.regulariser} if self.regulariser else {})}

    def _networks(self) -> list[Weights]:
        return [learner.theta for learner in self.learners]

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the games of an iteration, and improve the policy of each seat by its decisions."""
        play_rng, learn_rng = rng.spawn(2)
        section = self.job.self_play
        shards = chunks(section.games, SHARD)
        common = (self.job.game, self._networks())
        batch = concatenate_trajectories(self.pool.map(_play, common, shards, play_rng))
        if self.regulariser is not None:
            batch = self.regulariser.rewards(batch, self.iteration - 1)
        metrics = []
        for seat, seat_rng in enumerate(learn_rng.spawn(self.game.seats)):
            self._schedule(self.learners[seat].optimizer, progress)
            own = select_rows(batch, np.flatnonzero(batch.seat == seat))
            metrics.append(self.learners[seat].learn(own, seat_rng))
        if self.regulariser is not None:
            self.regulariser.update(self._networks(), self.iteration)
        names = sorted({name for each in metrics for name in each})  # a seat may not have acted
        means = {n: float(np.mean([each[n] for each in metrics if n in each])) for n in names}
        return {**means, DECISIONS: float(len(batch))}

    def _schedule(self, optimizer: PolicyOptimizer, progress: float) -> None:
        """Set the learning rate and the coefficients of an optimiser for this iteration."""
        section = self.job.self_play
        assert isinstance(optimizer, Ppo)
        optimizer.step_size = section.learning_rate * (1 - progress)
        fall = section.entropy_coef_end / section.entropy_coef
        optimizer.entropy_coef = section.entropy_coef * fall**progress
        if section.algorithm == "mmd":
            optimizer.behaviour_kl_coef = section.behaviour_kl_coef

    def model(self) -> dict[str, Array]:
        """Return the weights of the policy network of each seat."""
        named = {SEAT.format(s): prefixed("policy", w) for s, w in enumerate(self._networks())}
        return {n: v for seat, each in named.items() for n, v in prefixed(seat, each).items()}

    @staticmethod
    def validate(job: PolicyGradientSelfPlayJob) -> None:
        """Raise UserError for an unsuitable game or unknown opponents.

        The game must be a zero-sum game of two seats with discrete actions.
        """
        game, _ = two_seat_game(job.game)
        check_discrete_actions(game)
        registry.check_zero_sum(game)
        evaluation.check_evaluation(job.game, job.evaluate)

    @staticmethod
    def rebuild_model(
        job: PolicyGradientSelfPlayJob, weights: Mapping[str, Array]
    ) -> BehaviouralPolicy:
        """Return the policy of a stored model, which has a network for each seat."""
        game, _ = two_seat_game(job.game)
        policy: BehaviouralPolicy = load_policy(StoredWeights(dict(weights), {}, "this run"), game)
        return policy


def _play(rng: Generator, common: tuple[Any, Sequence[Weights]], games: int) -> Trajectories:
    """Play a shard of games of the networks of all seats; return all decisions with their steps.

    `common`: the tuple (game, weights of the network of each seat).
    """
    choice, networks = common
    game, _ = two_seat_game(choice)
    policies = [NetworkPolicy(game.features, theta) for theta in networks]
    return play(game, policies, games, rng, with_steps=True).batch
