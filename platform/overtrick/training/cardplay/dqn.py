"""A network that learns what each card is worth to a declarer (Hadjur 2018, section 5.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import Count, Job, Section
from overtrick.core import Array, BehaviouralPolicy, Trajectories, concatenate_trajectories
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import cardplay
from overtrick.evaluation.cardplay import CardplayEvaluation, Scripted
from overtrick.evaluation.game_cache import opponent_of
from overtrick.games.bridge.cardplay.suit_canonical import renamed_batch
from overtrick.learners.initialisation import initial
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based import dqn
from overtrick.policies.network_sizes import inputs
from overtrick.policies.rollout import play
from overtrick.reports import learning_curves
from overtrick.storage.model_files import GREEDY, best_of
from overtrick.training.q_learning_section import Values
from overtrick.training.trainer import History, Report

SHARD = 250  # games of one shard, whatever the number of workers


class Declarer(Section):
    """Who learns, and against whom."""

    defenders: Scripted = Field(default="rules", description="whom the declarer meets")
    games: Count = Field(default=1000, description="games an iteration")
    hidden: tuple[Count, ...] = Field(default=(256, 256), description="units of each ReLU layer")


class DqnJob(Job):
    """Everything a deep Q-learning run needs."""

    trainer: Literal["dqn"]
    dqn: Declarer = Declarer()
    values: Values = Values()
    evaluate: CardplayEvaluation = CardplayEvaluation()

    @model_validator(mode="after")
    def _defenders_do_not_learn(self) -> DqnJob:
        if "learned" in self.evaluate.defenders:
            raise ValueError("evaluate.defenders: none learn here, so 'learned' is nobody")
        return self


class DqnTrainer:
    """Play the defenders, learn, measure."""

    def __init__(self, job: DqnJob, crew: WorkerPool) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        game = cardplay.card_game(job.game)
        sizes = (inputs(game), *job.dqn.hidden, len(game.action_names))
        weights = initial(sizes, generator(job.seed, RngStream.INITIAL), 0.1)
        self.learner = dqn.Dqn(game.features, weights, job.values.plan())

    def step(self) -> dict[str, float]:
        """Play so many games and learn from what is remembered."""
        plan, values = self.job.dqn, self.job.values
        gone = self.iteration / self.job.stop.iterations
        self.iteration += 1
        rng = generator(self.job.seed, RngStream.TRAIN, self.iteration)
        play_rng, learn_rng = rng.spawn(2)
        common = (self.job, self.learner.weights(), values.exploring(gone))
        sizes = [min(SHARD, plan.games - first) for first in range(0, plan.games, SHARD)]
        batches = self.crew.map(_play, common, [(size,) for size in sizes], play_rng)
        self.learner.adam.pace(values.learning_rate * (1 - gone))
        metrics = self.learner.learn(concatenate_trajectories(batches), learn_rng)
        metrics[learning_curves.GAMES] = float(self.iteration * plan.games)
        last = self.iteration == self.job.stop.iterations
        if last or self.iteration % self.job.evaluate.every == 0:
            metrics |= cardplay.metrics_of(self._rows(self.job.evaluate.deals))
        return metrics

    def _rows(self, deals: int) -> list[dict[str, Any]]:
        return _judged(self.job, self.model(), self.crew, deals)

    def report(self, history: History) -> Report:
        """How often its contracts are made, by games seen."""
        how = self.job.evaluate
        drawn = learning_curves.recognition({"": [history]}, how.deals)
        return Report(self._rows(how.final_deals), {"learning_curve": drawn})

    def model(self) -> dict[str, Array]:
        """The network of values; the policy takes the best of them."""
        return prefixed(GREEDY, self.learner.weights())

    def state(self) -> dict[str, Array]:
        return {**prefixed("learner", self.learner.state()), "iteration": np.array(self.iteration)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.learner.load(unprefixed("learner", state))
        self.iteration = int(state["iteration"])

    def close(self) -> None:
        self.crew.close()


def check(job: DqnJob) -> None:
    """Raise Refused for another game."""
    cardplay.card_game(job.game)


def judge(
    job: DqnJob, weights: Mapping[str, Array], crew: WorkerPool, rng: Generator
) -> list[dict[str, Any]]:
    """How often a stored declarer makes its contracts on unseen deals."""
    return _judged(job, weights, crew, job.evaluate.final_deals)


def _judged(
    job: DqnJob, weights: Mapping[str, Array], crew: WorkerPool, deals: int
) -> list[dict[str, Any]]:
    game, how = cardplay.card_game(job.game), job.evaluate
    declarer = best_of(unprefixed(GREEDY, weights), game)
    defence: dict[str, BehaviouralPolicy] = {
        name: opponent_of(job.game, name) for name in how.defenders
    }
    return cardplay.judged(job.game, declarer, defence, None, how, deals, job.seed, crew)


def _play(rng: Generator, common: Any, games: int) -> Trajectories:
    """The declaring side's decisions in so many games."""
    job, weights, epsilon = common
    game = cardplay.card_game(job.game)
    declarer = game.renaming(dqn.Greedy(game.features, weights, epsilon))
    pair = (declarer, opponent_of(job.game, job.dqn.defenders))
    return renamed_batch(play(game, pair, games, rng, watch=[0]).batch)
