"""Q-learning that watches its opponents learns to play each as it should be (He et al. 2016).

An opponent is met in steps of so many games. What it did in all games so far, as everybody saw
it, is what the learner is told of it in the next. Training meets random newcomers, so that a
stranger's habits say how to play it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, GameChoice, Job
from overtrick.core import (
    Array,
    BehaviouralPolicy,
    Policy,
    PublicSituations,
    Trajectories,
    UserError,
    concatenate_trajectories,
)
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import HeldOutEvaluation, evaluate, flat_metrics
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based import dron as learner
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play, random_seating, select_policy_decisions
from overtrick.reports import figures, metric_names
from overtrick.training import scores
from overtrick.training.adaptation.opponent_population import newcomers, shards
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.shared_sections import HiddenLayers, QLearning, RandomOpponents

MODEL = "dron"  # the prefix of the weights in a model


class Dron(RandomOpponents):
    """Network of a DRON, and the random opponents that it learns from."""

    hidden: HiddenLayers = (64, 64)
    gate_hidden: tuple[Count, ...] = Field(
        default=(64,), description="units of each ReLU layer that sees the opponent's statistics"
    )
    experts: Count = Field(default=8, description="K: experts that the gate weights")
    adaptation_steps: int = Field(
        default=3, ge=0, description="updates of an opponent's statistics in training"
    )
    games: Count = Field(default=200, description="games against an opponent before each update")
    opponent_hidden: tuple[Count, ...] = Field(
        default=(64, 64), description="units of each ReLU layer of a random opponent"
    )


class DronJob(Job):
    """Everything a DRON run needs."""

    trainer: Literal["dron"]
    dron: Dron = Dron()
    values: QLearning = QLearning()
    evaluate: HeldOutEvaluation = HeldOutEvaluation()


@register("dron", DronJob, scores.table_payoff, scores.payoff)
class DronTrainer(BaseTrainer[DronJob]):
    """Play random opponents, observe their statistics, and learn values that depend on these."""

    def __init__(self, job: DronJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game = _watched(job.game)
        rng = generator(job.seed, RngStream.INITIAL)
        self.sizes = (input_size(self.game), *job.dron.opponent_hidden, self.game.actions)
        self.learner = learner.dron_learner(
            self.game.features, _fresh(job, rng), job.values.config()
        )

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play random opponents for all adaptation steps, and learn from the games."""
        new_rng, play_rng, learn_rng = rng.spawn(3)
        section, values = self.job.dron, self.job.values
        opponents = newcomers(
            self.sizes, section.random_opponents, section.head_init_scale, section.logit_bias_std,
            new_rng,
        )  # fmt: skip
        epsilon = values.epsilon_at(progress)
        common = (
            self.job.game, self.learner.weights(), epsilon, section.games,
            section.adaptation_steps,
        )  # fmt: skip
        batches, payoffs = zip(
            *self.pool.map(_meet_newcomers, common, shards(opponents), play_rng), strict=True
        )
        self.learner.adam.pace(values.learning_rate * (1 - progress))
        metrics = self.learner.learn(concatenate_trajectories(batches), learn_rng)
        for k, payoff in enumerate(np.concatenate(payoffs, axis=1).mean(axis=1)):
            name = metric_names.payoff_name(metric_names.OPPONENTS, k, self.game.unit)
            metrics[name] = float(payoff)
        return metrics

    def evaluate(self) -> Metrics:
        return flat_metrics(self.rows(), self.game.unit)

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        return figures.of_adaptation(history, rows, self.game.unit)

    def model(self) -> dict[str, Array]:
        """Return the experts and their gate. They need an observed opponent to play."""
        return prefixed(MODEL, self.learner.weights())

    @staticmethod
    def validate(job: DronJob) -> None:
        """Raise UserError for a game that is not for two or whose opponents cannot be observed, or
        for unknown opponents."""
        _watched(job.game)
        evaluate_page.check_evaluation(job.game, job.evaluate)

    @staticmethod
    def evaluate_model(
        job: DronJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate adaptation to the held-out opponents. Raises UserError for a model of another
        job."""
        known, like = unprefixed(MODEL, weights), _fresh(job, np.random.default_rng(0))
        if {n: v.shape for n, v in known.items()} != {n: v.shape for n, v in like.items()}:
            raise UserError(
                "the model has other layers than its job says: train again or restore it"
            )
        return evaluate(job.game, adapted, known, job.evaluate, pool, rng)


def _fresh(job: DronJob, rng: Generator) -> Weights:
    """Experts and a gate that have learnt nothing."""
    game, plan = _watched(job.game), job.dron
    return learner.initial_experts(
        input_size(game), plan.hidden, game.actions, game.public_situations * game.actions,
        plan.gate_hidden, plan.experts, rng,
    )  # fmt: skip


def adapted(
    rng: Generator,
    weights: Weights,
    how: HeldOutEvaluation,
    choice: GameChoice,
    opponent: BehaviouralPolicy,
) -> list[list[BehaviouralPolicy]]:
    """The policies before and after each step of watching, `how.draws` of them each.

    Each draw plays the best actions by what it knows, and watches its own games only.
    """
    game = _watched(choice)
    meetings = meet(game, weights, 0.0, opponent, how.repeats, how.games, how.steps, rng)
    known = [known for known, _, _ in meetings]
    return [[learner.policy_against(game.features, weights, one) for one in each] for each in known]


Meeting = tuple[Array, Trajectories, Array]
"""What is known of M opponents (M, P), the learner's decisions then, its payoffs (M,)."""


def meet(
    game: PublicSituations, weights: Weights, epsilon: float, opponents: Policy, members: int,
    games: int, steps: int, rng: Generator,
) -> Iterator[Meeting]:  # fmt: skip
    """So many games against each of M opponents, before and after each step of watching.

    opponents must seat members * games games, each opponent's in one stretch. The decisions
    carry what was known as the note OPPONENT.
    """
    counts = np.zeros((members, game.public_situations, game.actions or 0))
    for step_rng in rng.spawn(steps + 1):
        seat_rng, play_rng = step_rng.spawn(2)
        known = learner.opponent_profile(counts)
        seating = random_seating(members * games, seat_rng)
        both = (learner.DronPolicy(game.features, weights, known, epsilon), opponents)
        played = play(game, both, members * games, play_rng, seating)
        batch = played.batch
        own = seating[batch.game, batch.seat] == 0
        theirs = (
            batch.game[~own] // games,
            game.public_situation(batch.observations())[~own],
            batch.action[~own],
        )
        mine = select_policy_decisions(batch, seating, 0)
        note = {learner.OPPONENT: known[mine.game // games]}
        won = np.where(seating == 0, played.payoff, 0).sum(axis=1).reshape(members, games)
        yield known, replace(mine, extras=note), won.mean(axis=1)
        np.add.at(counts, theirs, 1)


def _meet_newcomers(rng: Generator, common: Any, members: Weights) -> tuple[Trajectories, Array]:
    """The decisions of all steps against each of some newcomers, and the payoffs (steps, M)."""
    choice, weights, epsilon, games, steps = common
    game = _watched(choice)
    crowd = BatchedNetworks(game.features, members)
    met = list(meet(game, weights, epsilon, crowd, len(members["w0"]), games, steps, rng))
    return concatenate_trajectories([batch for _, batch, _ in met]), np.stack(
        [payoff for *_, payoff in met]
    )


def _watched(choice: GameChoice) -> Any:
    """A game in which one can be watched. Raises UserError."""
    game, _ = two_seat_game(choice)
    if not isinstance(game, PublicSituations):
        raise UserError(f"{game.name} has no situations in which an opponent's habits are counted")
    return game
