"""A declarer that searches: nobody learns, each iteration plays some more of the judging deals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, FolderPath, Job, Opponent, Section
from overtrick.core import Array
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation import cardplay, reference_opponents
from overtrick.evaluation.cardplay import EVALUATION_SHARD, ScriptedDefenders
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.policies.rollout import play
from overtrick.solvers.lookahead.pimc import PimcPolicy
from overtrick.training.base_trainer import BaseTrainer, Metrics, Rows, register

SHARD = 50  # deals of one shard, whatever the number of workers


class PimcConfig(Section):
    """How the declarer searches, and whom it meets."""

    worlds: Count = Field(default=50, description="deals imagined at each decision")
    rollout_policy: Opponent = Field(
        default="random",
        description="how it goes on in an imagined deal: random, a run, or the folder of a model",
    )
    defenders: ScriptedDefenders = Field(default="rules", description="who defends")
    assumed_defenders: ScriptedDefenders = Field(
        default="rules", description="who it believes to defend"
    )
    double_dummy: bool = Field(
        default=True, description="solve the deals, once: what perfect play makes of them"
    )
    solutions: FolderPath = Field(
        default="double_dummy", description="the folder where solutions are kept"
    )


class PimcJob(Job):
    """Everything a searching declarer needs. An iteration is 500 deals."""

    trainer: Literal["sampling"]
    sampling: PimcConfig = PimcConfig()


@register("sampling", PimcJob, cardplay.share_made)
class PimcTrainer(BaseTrainer[PimcJob]):
    """Play the evaluation deals in their order with a declarer that searches; nothing is learnt."""

    stateful = ()

    def __init__(self, job: PimcJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.made = 0  # contracts

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the next 500 deals."""
        shard = self.iteration - 1
        rng = generator(self.job.seed, RngStream.TRAIN, shard)  # as in all versions before
        deals = cardplay.evaluation_deals(self.job.game, self.job.seed, shard, EVALUATION_SHARD)
        shards = [(deals[first : first + SHARD],) for first in range(0, EVALUATION_SHARD, SHARD)]
        made = self.pool.map(_play, self.job, shards, rng)
        self.made += sum(made)
        played = self.iteration * EVALUATION_SHARD
        return {"made": sum(made) / EVALUATION_SHARD, "made_so_far": self.made / played}

    def model(self) -> dict[str, Array]:
        """Return the contracts made and the deals played."""
        return {"made": np.array(self.made), "deals": np.array(self.iteration * EVALUATION_SHARD)}

    def state(self) -> dict[str, Array]:
        return {**super().state(), "made": np.array(self.made)}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self.made = int(state["made"])

    @staticmethod
    def validate(job: PimcJob) -> None:
        """Raise UserError for another game, or an unknown rollout policy."""
        cardplay.check_scoring(job.game)
        game = cardplay.card_game(job.game)
        reference_opponents.check_opponent(job.sampling.rollout_policy, game, None)

    @staticmethod
    def evaluate_model(
        job: PimcJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the share of contracts made, beside that of perfect play."""
        section, deals = job.sampling, int(weights["deals"])
        mark = None
        if section.double_dummy:
            mark = cardplay.double_dummy_share(job.game, section.solutions, deals, job.seed, pool)
        return [cardplay.result_row(section.defenders, int(weights["made"]), deals, mark, None)]


def _play(rng: Generator, job: PimcJob, deals: Array) -> int:
    """Contracts made."""
    choice, plan = job.game, job.sampling
    game = cardplay.card_game(cardplay.with_trick_scoring(choice))
    guide, defenders = (
        cached_opponent(choice, who) for who in (plan.rollout_policy, plan.assumed_defenders)
    )
    declarer = PimcPolicy(game, defenders, guide, plan.worlds)
    pair = (declarer, cached_opponent(choice, plan.defenders))
    payoff = play(game, pair, deals, rng, recorded=()).payoff
    return int((payoff[:, 0] > 0).sum())
