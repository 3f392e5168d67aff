"""Trainer `dron`: deep Q-learning with the opponent's action frequencies as part of the input.

| | He et al. 2016 | here |
|---|---|---|
| opponent features | designed for each domain | frequencies of actions in public states |
| training opponents | scripted or recorded | random networks, new in each iteration |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice, GpuJob
from overtrick.config.sections import Count
from overtrick.core import (
    Array,
    BehaviouralPolicy,
    Policy,
    PublicSituations,
    Trajectories,
    UserError,
    concatenate_trajectories,
)
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.evaluate import HeldOutEvaluation
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.value_based import dron as learner
from overtrick.learners.value_based.dqn import Dqn, GreedyPolicy
from overtrick.learners.value_based.dron import OPPONENT
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play, random_seating, select_policy_decisions
from overtrick.training import scores
from overtrick.training.adaptation.gradient_samples import learner_payoffs, payoff_metrics
from overtrick.training.adaptation.opponent_population import weight_shards
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.held_out_trainer import HeldOutTrainer
from overtrick.training.shared_sections import HiddenLayers, QLearning, RandomOpponents

MODEL = "dron"  # prefix of the weights in a model


class Dron(RandomOpponents):
    """Settings of a DRON (deep reinforcement opponent network) and its training opponents."""

    hidden: HiddenLayers = (64, 64)
    gate_hidden: tuple[Count, ...] = (64,)
    """Units of each ReLU layer of the gate, which reads the opponent's action frequencies."""

    experts: Count = 8
    """Number K of experts that the gate weights."""

    adaptation_steps: int = Field(default=3, ge=0)
    """Number of updates of an opponent's action frequencies in training."""

    games: Count = 200
    """Games against an opponent before each update of its action frequencies."""

    opponent_hidden: tuple[Count, ...] = (64, 64)
    """Units of each ReLU layer of a random opponent."""


class DronJob(GpuJob):
    """Job file of the trainer `dron`: deep Q-learning with statistics of the opponent as input."""

    trainer: Literal["dron"]
    dron: Dron = Dron()
    values: QLearning = QLearning()
    evaluate: HeldOutEvaluation = HeldOutEvaluation()


def adapt_by_statistics(
    rng: Generator,
    weights: Weights,
    section: HeldOutEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """Feed an opponent's action frequencies to a DRON; return the policies of each adaptation step.

    Element k of the result holds the policies after k steps, for k = 0 to `section.steps`: one
    policy for each of `section.repeats` independent repetitions of the adaptation. In each step
    every repetition plays `section.games` games and counts the opponent's actions in these games. A
    policy is greedy in the network's Q-values. The action frequencies are part of the network's
    input, and change only between steps.
    """
    game = _observable_game(choice)
    steps = play_adaptation_steps(
        game, weights, 0.0, opponent, section.repeats, section.games, section.steps, rng
    )
    return [
        [
            GreedyPolicy(game.features, weights, 0.0, learner.mixture_of_experts, {OPPONENT: known})
            for known in profiles
        ]
        for profiles, _, _ in steps
    ]


@register("dron", DronJob, scores.table_payoff, scores.payoff)
class DronTrainer(HeldOutTrainer[DronJob]):
    """Trainer of a Q-network whose input includes the opponent's action frequencies.

    The training opponents are random networks.
    """

    adapt = staticmethod(adapt_by_statistics)

    def __init__(self, job: DronJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        rng = generator(job.seed, RngStream.INITIAL)
        self.sizes = (input_size(self.game), *job.dron.opponent_hidden, self.game.actions)
        weights, config = _initial_weights(job, rng), job.values.config()
        self.learner = Dqn(
            self.game.features, weights, config, learner.mixture_of_experts, (OPPONENT,)
        )

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play against new random opponents, and train the Q-network.

        The games against each opponent are split into adaptation steps. The opponent's action
        frequencies, which are inputs of the Q-network, are updated after each step.
        """
        new_rng, play_rng, learn_rng = rng.spawn(3)
        section, values = self.job.dron, self.job.values
        opponents = section.random_networks(self.sizes, section.random_opponents, new_rng)
        common = (
            self.job.game, self.learner.weights(), values.epsilon_at(progress), section.games,
            section.adaptation_steps,
        )  # fmt: skip
        shards = self.pool.map(_play_opponents, common, weight_shards(opponents), play_rng)
        batches, payoffs = zip(*shards, strict=True)
        self.learner.adam.set_learning_rate(values.learning_rate * (1 - progress))
        metrics = self.learner.learn(concatenate_trajectories(batches), learn_rng)
        by_step = np.concatenate(payoffs, axis=1)  # (steps, opponents)
        return metrics | payoff_metrics(by_step, self.game.unit)

    def model(self) -> dict[str, Array]:
        """Return the weights of the Q-network: of its experts and of its gate."""
        return prefixed(MODEL, self.learner.weights())

    @staticmethod
    def validate(job: DronJob) -> None:
        """Raise UserError for an unsuitable game or unknown opponents.

        The game must have two seats and group its public states into classes (`PublicSituations`).
        """
        _observable_game(job.game)
        HeldOutTrainer.validate(job)

    @staticmethod
    def rebuild_model(job: DronJob, weights: Mapping[str, Array]) -> Weights:
        """Return the Q-network of a stored model: the weights of its experts and of its gate.

        Raises UserError if the network's layers differ from those of the job.
        """
        known = unprefixed(MODEL, weights)
        like = _initial_weights(job, np.random.default_rng(0))
        found, wanted = (
            {name: (value.shape, value.dtype) for name, value in each.items()}
            for each in (known, like)
        )
        if found != wanted:
            raise UserError("the layers of the model do not fit its job: train again or restore it")
        return known


def _initial_weights(job: DronJob, rng: Generator) -> Weights:
    """Draw initial weights of the Q-network: of the experts and of the gate that weights them."""
    game, section = _observable_game(job.game), job.dron
    return learner.initial_experts(
        input_size(game), section.hidden, game.actions, game.public_situations * game.actions,
        section.gate_hidden, section.experts, rng,
    )  # fmt: skip


StepRollouts = tuple[Array, Trajectories, Array]
"""Rollouts of one adaptation step against M opponents.

They are the opponents' action frequencies (M, P) before the step, with P = public states x actions,
the learner's decisions, and its mean payoffs (M,).
"""


def play_adaptation_steps(
    game: PublicSituations, weights: Weights, epsilon: float, opponents: Policy, members: int,
    games: int, steps: int, rng: Generator,
) -> Iterator[StepRollouts]:  # fmt: skip
    """Play games against M opponents, and update the opponents' action counts after each step.

    Yields the rollouts of each of `steps` + 1 steps. The learner's network reads the opponent's
    action frequencies in all earlier steps; they are 0 in the first step. The yielded decisions
    hold them as the extra array OPPONENT.

    - `weights`: weights of the learner's Q-network.
    - `epsilon`: probability that the learner takes a random action.
    - `opponents`: one policy for all M opponents; in each step opponent m plays games m * `games`
      to (m + 1) * `games` - 1.
    - `members`: the number M of opponents.
    - `games`: games against each opponent in each step.
    """
    counts = np.zeros((members, game.public_situations, game.actions or 0))
    for step_rng in rng.spawn(steps + 1):
        seat_rng, play_rng = step_rng.spawn(2)
        profiles = learner.opponent_profile(counts)
        seating = random_seating(members * games, seat_rng)
        both = (learner.DronPolicy(game.features, weights, profiles, epsilon), opponents)
        played = play(game, both, members * games, play_rng, seating)
        batch = played.batch
        own = seating[batch.game, batch.seat] == 0
        observed = (
            batch.game[~own] // games,
            game.public_situation(batch.observations())[~own],
            batch.action[~own],
        )
        decisions = select_policy_decisions(batch, seating, 0)
        extras = {OPPONENT: profiles[decisions.game // games]}
        payoff = learner_payoffs(played.payoff, seating, members)
        yield profiles, replace(decisions, extras=extras), payoff.mean(axis=1)
        np.add.at(counts, observed, 1)


def _play_opponents(rng: Generator, common: Any, opponents: Weights) -> tuple[Trajectories, Array]:
    """Play all adaptation steps against a shard of M random opponents.

    Returns the learner's decisions, and its mean payoffs (K + 1, M) after 0 to K updates of the
    action counts.

    - `common`: the tuple (game, weights of the Q-network, epsilon, games per opponent and step,
      number K of updates).
    - `opponents`: weights of the M networks.
    """
    choice, weights, epsilon, games, steps = common
    game = _observable_game(choice)
    crowd = BatchedNetworks(game.features, opponents)
    count = len(opponents["w0"])
    by_step = list(play_adaptation_steps(game, weights, epsilon, crowd, count, games, steps, rng))
    batch = concatenate_trajectories([decisions for _, decisions, _ in by_step])
    return batch, np.stack([payoff for *_, payoff in by_step])


def _observable_game(choice: GameChoice) -> Any:
    """Return the chosen game; raise UserError if it does not support counts of actions.

    The game must have two seats and group its public states into classes (`PublicSituations`). An
    opponent's actions are counted in each class.
    """
    game, _ = two_seat_game(choice)
    if not isinstance(game, PublicSituations):
        raise UserError(
            f"{game.name} has no public situations, in which to count an opponent's actions"
        )
    return game
