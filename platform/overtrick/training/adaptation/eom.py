"""An explicit opponent model: fit what the opponent does, and reply to that ("EOM" in Wu et al.
2022, tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Job, Positive
from overtrick.core import Array, Trajectories, UserError, concatenate_trajectories
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import HeldOutEvaluation, evaluate, flat_metrics
from overtrick.evaluation.game_cache import check_discrete_actions, two_seat_game
from overtrick.learners.critic import Critic
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.supervised.behaviour_cloning import CloningConfig, clone_behaviour
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network import NetworkPolicy
from overtrick.policies.network_sizes import input_size
from overtrick.policies.rollout import play, random_seating, select_policy_decisions
from overtrick.reports import figures
from overtrick.training import scores
from overtrick.training.adaptation.opponent_modelling import Knows, Modelling, modelled, rows_of
from overtrick.training.adaptation.opponent_population import newcomers
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.shared_sections import (
    EntropyCoef,
    NewOpponents,
    PolicyGradient,
    RandomOpponents,
)

SHARD = 10  # newcomers of one shard, whatever the number of workers


class Eom(PolicyGradient, RandomOpponents):
    """First policy, prior of opponents' actions, and the random opponents that both learn from."""

    random_opponents: NewOpponents = 40
    games: Count = Field(default=50, description="games against each random opponent")
    learning_rate: Positive = Field(
        default=0.003, description="Adam's learning rate of PPO for the first policy"
    )
    entropy_coef: EntropyCoef = 0.05
    prior_learning_rate: Positive = Field(
        default=0.001, description="Adam's learning rate of the prior"
    )


class EomJob(Job):
    """Everything an EOM run needs."""

    trainer: Literal["eom"]
    eom: Eom = Eom()
    model: Modelling = Modelling()
    evaluate: HeldOutEvaluation = HeldOutEvaluation()


@register("eom", EomJob, scores.table_payoff, scores.payoff)
class EomTrainer(BaseTrainer[EomJob]):
    """Train what an opponent model starts from: a first policy, and a prior of opponents' actions.

    Each iteration plays new random opponents. The first policy, which plays the first games
    against a held-out opponent, learns by PPO to win from them; the prior imitates them. Nothing
    is fitted to a held-out opponent here.
    """

    stateful = ("learner", "prior")

    def __init__(self, job: EomJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game, _ = two_seat_game(job.game)
        section = job.eom
        rng = generator(job.seed, RngStream.INITIAL)
        features = input_size(self.game)
        self.sizes = (features, *section.hidden, self.game.actions)
        self.learner = ActorCritic(
            self.game.features,
            initial_weights(self.sizes, rng, head=0.1),
            Critic(features, section.hidden, rng, section.critic_learning_rate),
            Ppo(section.learning_rate, section.entropy_coef),
            section.discount,
            section.gae_lambda,
        )
        self.prior = Adam(initial_weights(self.sizes, rng, head=0.1), section.prior_learning_rate)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play new random opponents; learn to win from them, and imitate them."""
        new_rng, play_rng, learn_rng, imitate_rng = rng.spawn(4)
        section = self.job.eom
        opponents = newcomers(
            self.sizes, section.random_opponents, section.head_init_scale, section.logit_bias_std,
            new_rng,
        )  # fmt: skip
        shards = [
            ({n: v[k : k + SHARD] for n, v in opponents.items()},)
            for k in range(0, section.random_opponents, SHARD)
        ]
        common = (self.job.game, self.learner.theta, section.games)
        ours, theirs = zip(*self.pool.map(_meet, common, shards, play_rng), strict=True)
        metrics = self.learner.learn(concatenate_trajectories(ours), learn_rng)
        rows = rows_of(self.game, concatenate_trajectories(theirs))
        _, loss = clone_behaviour(self.prior, rows, CloningConfig(epochs=1), imitate_rng)
        metrics["imitation_loss"] = float(loss)
        return metrics

    def evaluate(self) -> Metrics:
        return flat_metrics(self.rows(), self.game.unit)

    def model(self) -> dict[str, Array]:
        """Return the first policy, its critic, and the prior of opponents."""
        state = self.prior.state()
        prior = {name: state[name] for name in self.prior.params}
        return {**self.learner.weights(), **prefixed("prior", prior)}

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        return figures.of_adaptation(history, rows, self.game.unit)

    @staticmethod
    def validate(job: EomJob) -> None:
        """Raise UserError for a game that is not for two, unknown opponents, or exact responses
        where there is no tree."""
        game, tree = two_seat_game(job.game)
        check_discrete_actions(game)
        if tree is None and job.model.response == "exact":
            raise UserError(
                f"model.response: exact needs a tree, and {game.name} is too large for one: set ppo"
            )
        evaluate_page.check_evaluation(job.game, job.evaluate)

    @staticmethod
    def evaluate_model(
        job: EomJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Evaluate responses to fitted opponent models against the held-out opponents."""
        first, critic, prior = (unprefixed(part, weights) for part in ("policy", "critic", "prior"))
        knows = Knows(first, critic, prior, job.model)
        return evaluate(job.game, modelled, knows, job.evaluate, pool, rng)


def _meet(rng: Generator, common: Any, new: Weights) -> tuple[Trajectories, Trajectories]:
    """The first policy's decisions against some newcomers, and theirs against it."""
    choice, theta, games = common
    game, _ = two_seat_game(choice)
    seat_rng, play_rng = rng.spawn(2)
    total = games * len(new["w0"])
    seating = random_seating(total, seat_rng)
    both = (NetworkPolicy(game.features, theta), BatchedNetworks(game.features, new))
    batch = play(game, both, total, play_rng, seating).batch
    return select_policy_decisions(batch, seating, 0), select_policy_decisions(batch, seating, 1)
