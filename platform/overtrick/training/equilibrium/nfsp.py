"""Self-play towards an equilibrium: neural fictitious self-play (Heinrich and Silver 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Job, Positive, Section, Share
from overtrick.core import Array, Trajectories, concatenate_trajectories
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import evaluate as evaluate_page
from overtrick.evaluation.evaluate import Row, Unadapted, evaluate, metrics_of, unchanged
from overtrick.evaluation.game_cache import check_actions, two_seats
from overtrick.learners.initialisation import initial
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based import dqn
from overtrick.learners.value_based import nfsp as learner
from overtrick.policies.network import Network
from overtrick.policies.network_sizes import inputs
from overtrick.policies.rollout import play
from overtrick.reports import figures, metric_names
from overtrick.solvers.extensive import best_response
from overtrick.training.q_learning_section import Values
from overtrick.training.trainer import History, Report

SHARD = 500  # games of one shard, whatever the number of workers
AVERAGE = "average"  # what the average policy is called in the metric of exploitability


class Nfsp(Section):
    """Self-play between the average and the best reply to it."""

    anticipatory: Share = Field(
        default=0.1, description="eta: share of games in which a seat plays the best reply"
    )
    games: Count = Field(default=1000, description="games an iteration")
    hidden: tuple[Count, ...] = Field(default=(64, 64), description="units of each ReLU layer")
    learning_rate: Positive = Field(
        default=0.001, description="Adam's rate of the average; 0 at the end"
    )
    gradient_steps: Count = Field(
        default=32, description="gradient steps of the average an iteration"
    )
    batch_size: Count = Field(default=256, description="decisions a gradient step")
    reservoir_capacity: Count = Field(default=2_000_000, description="decisions in the reservoir")


class NfspJob(Job):
    """Everything a run of neural fictitious self-play needs."""

    trainer: Literal["nfsp"]
    nfsp: Nfsp = Nfsp()
    values: Values = Values()
    evaluate: Unadapted = Unadapted()


class NfspTrainer:
    """Play oneself, learn both networks, measure how the average fares."""

    def __init__(self, job: NfspJob, crew: WorkerPool) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.game, self.tree = two_seats(job.game)
        rng = generator(job.seed, RngStream.INITIAL)
        plan = job.nfsp
        sizes = (inputs(self.game), *plan.hidden, self.game.actions)
        values = dqn.Dqn(self.game.features, initial(sizes, rng, 0.1), job.values.plan())
        self.learner = learner.Nfsp(
            self.game.features,
            values,
            initial(sizes, rng, 0.1),
            learner.NfspConfig(
                plan.learning_rate, plan.gradient_steps, plan.batch_size, plan.reservoir_capacity
            ),
        )

    def step(self) -> dict[str, float]:
        """Play so many games, each seat in one of both ways, and learn from them."""
        gone = self.iteration / self.job.stop.iterations
        self.iteration += 1
        rng = generator(self.job.seed, RngStream.TRAIN, self.iteration)
        play_rng, learn_rng = rng.spawn(2)
        plan, values = self.job.nfsp, self.job.values
        common = (
            self.job.game, self.learner.average(), self.learner.best.weights(),
            values.exploring(gone), plan.anticipatory,
        )  # fmt: skip
        sizes = [min(SHARD, plan.games - k) for k in range(0, plan.games, SHARD)]
        batches = self.crew.map(_play, common, [(size,) for size in sizes], play_rng)
        self.learner.adam.pace(plan.learning_rate * (1 - gone))
        self.learner.best.adam.pace(values.learning_rate * (1 - gone))
        metrics = self.learner.learn(concatenate_trajectories(batches), learn_rng)
        last = self.iteration == self.job.stop.iterations
        if last or self.iteration % self.job.evaluate.every == 0:
            metrics |= self._gap() | metrics_of(self._rows(), self.game.unit)
        return metrics

    def _gap(self) -> dict[str, float]:
        """How much a best response wins from the average, where a tree tells."""
        if self.tree is None:
            return {}
        sigma = best_response.sigma_of(self.tree, [self.learner.policy()] * 2)
        name = metric_names.gap_name(AVERAGE, self.game.unit)
        return {name: best_response.exploitability(self.tree, sigma)}

    def _rows(self) -> list[Row]:
        return judge(self.job, self.model(), self.crew, generator(self.job.seed, RngStream.JUDGE))

    def report(self, history: History) -> Report:
        """What the average wins from strangers, and how exploitable it was on the way."""
        drawn = {"learning_curve": figures.learning_curve(history, self.game.unit)}
        if self.tree is not None:
            name = metric_names.gap_name(AVERAGE, self.game.unit)
            measured = [
                (i, m | {metric_names.ITERATIONS: float(i)}) for i, m in history if name in m
            ]
            drawn["convergence"] = figures.convergence(measured, self.game.unit)
        return Report(self._rows(), drawn)

    def model(self) -> dict[str, Array]:
        """The average policy."""
        return prefixed("policy", self.learner.average())

    def state(self) -> dict[str, Array]:
        return {**prefixed("learner", self.learner.state()), "iteration": np.array(self.iteration)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.learner.load(unprefixed("learner", state))
        self.iteration = int(state["iteration"])

    def close(self) -> None:
        self.crew.close()


def check(job: NfspJob) -> None:
    """Raise Refused for a game that two do not play, or opponents that do not exist."""
    check_actions(two_seats(job.game)[0])
    evaluate_page.check(job.game, job.evaluate)


def judge(
    job: NfspJob, weights: Mapping[str, Array], crew: WorkerPool, rng: Generator
) -> list[Row]:
    """What a stored average policy wins from the job's strangers; it never adapts."""
    game, _ = two_seats(job.game)
    policy = Network(game.features, unprefixed("policy", weights))
    return evaluate(job.game, unchanged, policy, job.evaluate, crew, rng)


def _play(rng: Generator, common: Any, games: int) -> Trajectories:
    """All decisions of so many games, and which of them the best reply made."""
    choice, average, values, epsilon, anticipatory = common
    game, _ = two_seats(choice)
    seat_rng, play_rng = rng.spawn(2)
    both = (Network(game.features, average), dqn.Greedy(game.features, values, epsilon))
    seating = (seat_rng.random((games, game.seats)) < anticipatory).astype(np.int64)
    batch = play(game, both, games, play_rng, seating).batch
    return replace(batch, note={learner.BEST: seating[batch.game, batch.seat] == 1})
