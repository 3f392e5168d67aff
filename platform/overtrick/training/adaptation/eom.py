"""An explicit opponent model: fit what the opponent does, and reply to that ("EOM" in Wu et al.
2022, tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Job, Positive, Section, Share
from overtrick.core import Array, Trajectories, UserError, concatenate_trajectories
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import Judged, Row, evaluate, metrics_of
from overtrick.evaluation.game_cache import check_actions, two_seats
from overtrick.learners.critic import Critic
from overtrick.learners.initialisation import initial
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.actor_critic import ActorCritic
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.supervised.behaviour_cloning import Imitation, imitate
from overtrick.policies.batched_networks import Crowd
from overtrick.policies.forward_pass import Weights
from overtrick.policies.network import Network
from overtrick.policies.network_sizes import inputs
from overtrick.policies.rollout import decisions_of, play, random_seating
from overtrick.reports import figures
from overtrick.training.adaptation.opponent_modelling import Knows, Modelling, modelled, rows_of
from overtrick.training.adaptation.opponent_population import newcomers
from overtrick.training.trainer import History, Report

SHARD = 10  # newcomers of one shard, whatever the number of workers


class Eom(Section):
    """What is learnt before the first stranger comes."""

    hidden: tuple[Count, ...] = Field(default=(64, 64), description="units of each ReLU layer")
    random_opponents: Count = Field(default=40, description="new random opponents an iteration")
    games: Count = Field(default=50, description="games against each of them")
    head_init_scale: Positive = Field(
        default=2.0, description="largest scale of a newcomer's last layer"
    )
    logit_bias_std: float = Field(
        default=5.0, ge=0, description="largest spread of its action preferences, logits"
    )
    learning_rate: Positive = Field(
        default=0.003, description="Adam's rate of PPO for the first policy"
    )
    entropy_coef: float = Field(default=0.05, ge=0, description="its bonus in points a nat")
    discount: Share = Field(default=1.0, description="gamma, a decision")
    gae_lambda: Share = Field(default=0.95, description="lambda of the advantages")
    critic_learning_rate: Positive = Field(default=0.003, description="Adam's rate of the baseline")
    prior_learning_rate: Positive = Field(default=0.001, description="Adam's rate of the prior")


class EomJob(Job):
    """Everything an EOM run needs."""

    trainer: Literal["eom"]
    eom: Eom = Eom()
    model: Modelling = Modelling()
    evaluate: Judged = Judged()


class EomTrainer:
    """Learns what a model of a stranger starts from: a first policy, and a guess of opponents.

    Each iteration meets new random opponents. The first policy, with which a stranger's first
    games will be played, learns by PPO to win from them; the prior, what an opponent is thought
    to do before anything is known of it, imitates them. Nothing here is ever fitted to a stranger.
    """

    def __init__(self, job: EomJob, crew: WorkerPool) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.game, _ = two_seats(job.game)
        plan = job.eom
        rng = generator(job.seed, RngStream.INITIAL)
        wide = inputs(self.game)
        self.sizes = (wide, *plan.hidden, self.game.actions)
        self.learner = ActorCritic(
            self.game.features,
            initial(self.sizes, rng, head=0.1),
            Critic(wide, plan.hidden, rng, plan.critic_learning_rate),
            Ppo(plan.learning_rate, plan.entropy_coef),
            plan.discount,
            plan.gae_lambda,
        )
        self.prior = Adam(initial(self.sizes, rng, head=0.1), plan.prior_learning_rate)

    def step(self) -> dict[str, float]:
        """Meet new random opponents; learn to win from them, and what they do."""
        self.iteration += 1
        rng = generator(self.job.seed, RngStream.TRAIN, self.iteration)
        new_rng, play_rng, learn_rng, imitate_rng = rng.spawn(4)
        plan = self.job.eom
        new = newcomers(
            self.sizes, plan.random_opponents, plan.head_init_scale, plan.logit_bias_std, new_rng
        )
        shards = [
            ({n: v[k : k + SHARD] for n, v in new.items()},)
            for k in range(0, plan.random_opponents, SHARD)
        ]
        common = (self.job.game, self.learner.theta, plan.games)
        ours, theirs = zip(*self.crew.map(_meet, common, shards, play_rng), strict=True)
        metrics = self.learner.learn(concatenate_trajectories(ours), learn_rng)
        rows = rows_of(self.game, concatenate_trajectories(theirs))
        _, loss = imitate(self.prior, rows, Imitation(epochs=1), imitate_rng)
        metrics["imitation_loss"] = float(loss)
        last = self.iteration == self.job.stop.iterations
        if last or self.iteration % self.job.evaluate.every == 0:
            metrics |= metrics_of(self._rows(), self.game.unit)
        return metrics

    def model(self) -> dict[str, Array]:
        """The first policy, its baseline, and the prior of opponents."""
        return {**self.learner.weights(), **prefixed("prior", self._prior())}

    def _prior(self) -> dict[str, Array]:
        state = self.prior.state()
        return {n: state[n] for n in self.prior.params}

    def state(self) -> dict[str, Array]:
        return {
            **prefixed("learner", self.learner.state()),
            **prefixed("prior", self.prior.state()),
            "iteration": np.array(self.iteration),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.learner.load(unprefixed("learner", state))
        self.prior.load(unprefixed("prior", state))
        self.iteration = int(state["iteration"])

    def report(self, history: History) -> Report:
        """What replies win, and what they won on the way."""
        rows, unit = self._rows(), self.game.unit
        drawn = {
            "learning_curve": figures.learning_curve(history, unit),
            "adaptation": figures.adaptation(rows, unit),
        }
        return Report(rows, drawn)

    def _rows(self) -> list[Row]:
        """What replies win from every stranger, with the same luck every time."""
        rng = generator(self.job.seed, RngStream.JUDGE)
        return judge(self.job, self.model(), self.crew, rng)

    def close(self) -> None:
        self.crew.close()


def _meet(rng: Generator, common: Any, new: Weights) -> tuple[Trajectories, Trajectories]:
    """The first policy's decisions against some newcomers, and theirs against it."""
    choice, theta, games = common
    game, _ = two_seats(choice)
    seat_rng, play_rng = rng.spawn(2)
    total = games * len(new["w0"])
    seating = random_seating(total, seat_rng)
    both = (Network(game.features, theta), Crowd(game.features, new))
    batch = play(game, both, total, play_rng, seating).batch
    return decisions_of(batch, seating, 0), decisions_of(batch, seating, 1)


def check(job: EomJob) -> None:
    """Raise UserError for a game that two do not play, opponents that do not exist, or exact
    replies where there is no tree."""
    game, tree = two_seats(job.game)
    check_actions(game)
    if tree is None and job.model.response == "exact":
        raise UserError(
            f"model.response: exact needs a tree, and {game.name} is too large for one: set ppo"
        )
    evaluate_page.check(job.game, job.evaluate)


def judge(job: EomJob, weights: Mapping[str, Array], crew: WorkerPool, rng: Generator) -> list[Row]:
    """What replies to fitted models win from the job's strangers."""
    first, critic, prior = (unprefixed(part, weights) for part in ("policy", "critic", "prior"))
    knows = Knows(first, critic, prior, job.model)
    return evaluate(job.game, modelled, knows, job.evaluate, crew, rng)
