"""A declarer that searches: nobody learns, each iteration plays some more of the judging deals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Folder, Job, Opponent, Section
from overtrick.core import Array
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import cardplay, reference_opponents
from overtrick.evaluation.cardplay import JUDGED, Scripted
from overtrick.evaluation.game_cache import opponent_of
from overtrick.policies.rollout import play
from overtrick.solvers.lookahead.pimc import Sampling
from overtrick.training.trainer import History, Report

SHARD = 50  # deals of one shard, whatever the number of workers


class Sampled(Section):
    """How the declarer searches, and whom it meets."""

    worlds: Count = Field(default=50, description="deals imagined at each decision")
    rollout_policy: Opponent = Field(
        default="random",
        description="how it goes on in an imagined deal: random, a run, or the folder of a model",
    )
    defenders: Scripted = Field(default="rules", description="who defends")
    assumed_defenders: Scripted = Field(default="rules", description="who it believes to defend")
    double_dummy: bool = Field(
        default=True, description="solve the deals, once: what perfect play makes of them"
    )
    solutions: Folder = Field(
        default="double_dummy", description="the folder where solutions are kept"
    )


class SamplingJob(Job):
    """Everything a searching declarer needs. An iteration is 500 deals."""

    trainer: Literal["sampling"]
    sampling: Sampled = Sampled()


class SamplingTrainer:
    """Plays the judging deals in their order."""

    def __init__(self, job: SamplingJob, crew: WorkerPool) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.made = 0  # contracts

    def step(self) -> dict[str, float]:
        """The next 500 deals."""
        rng = generator(self.job.seed, RngStream.TRAIN, self.iteration)
        deals = cardplay.dealt(self.job.game, self.job.seed, self.iteration, JUDGED)
        shards = [(deals[first : first + SHARD],) for first in range(0, JUDGED, SHARD)]
        made = self.crew.map(_play, self.job, shards, rng)
        self.iteration += 1
        self.made += sum(made)
        return {
            "made": sum(made) / JUDGED, "made_so_far": self.made / (self.iteration * JUDGED),
        }  # fmt: skip

    def report(self, history: History) -> Report:
        return Report(judge(self.job, self.model(), self.crew, generator(self.job.seed)), {})

    def model(self) -> dict[str, Array]:
        """What came of it."""
        return {"made": np.array(self.made), "deals": np.array(self.iteration * JUDGED)}

    def state(self) -> dict[str, Array]:
        return {"made": np.array(self.made), "iteration": np.array(self.iteration)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.made, self.iteration = int(state["made"]), int(state["iteration"])

    def close(self) -> None:
        self.crew.close()


def check(job: SamplingJob) -> None:
    """Raise Refused for another game, or a guide that does not exist."""
    cardplay.check_scoring(job.game)
    reference_opponents.check(job.sampling.rollout_policy, cardplay.card_game(job.game), None)


def judge(
    job: SamplingJob, weights: Mapping[str, Array], crew: WorkerPool, rng: Generator
) -> list[dict[str, Any]]:
    """What came of all deals that were played."""
    plan, deals = job.sampling, int(weights["deals"])
    mark = None
    if plan.double_dummy:
        mark = cardplay.mark(job.game, plan.solutions, deals, job.seed, crew)
    return [cardplay.row(plan.defenders, int(weights["made"]), deals, mark, None)]


def _play(rng: Generator, job: SamplingJob, deals: Array) -> int:
    """Contracts made."""
    choice, plan = job.game, job.sampling
    game = cardplay.card_game(cardplay.by_tricks(choice))
    guide, defenders = (
        opponent_of(choice, who) for who in (plan.rollout_policy, plan.assumed_defenders)
    )
    declarer = Sampling(game, defenders, guide, plan.worlds)
    pair = (declarer, opponent_of(choice, plan.defenders))
    payoff = play(game, pair, deals, rng, watch=()).payoff
    return int((payoff[:, 0] > 0).sum())
