"""Trainer `sampling`: evaluates a perfect-information Monte Carlo (PIMC) declarer; trains nothing.

Each iteration plays further evaluation deals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import Job
from overtrick.config.sections import Count, DataPath, Opponent, Section
from overtrick.core import Array, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, array_chunks, generator
from overtrick.evaluation import cardplay, reference_opponents
from overtrick.evaluation.cardplay import EVALUATION_SHARD, ScriptedDefenders
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.policies.rollout import play
from overtrick.solvers.lookahead.pimc import PimcPolicy
from overtrick.training.base_trainer import BaseTrainer, Metrics, Rows, register

SHARD = 50  # deals per shard


class PimcConfig(Section):
    """Settings of the declarer's perfect-information Monte Carlo search, and of its defenders."""

    worlds: Count = 50
    """Deals sampled at each decision."""

    rollout_policy: Opponent = "random"
    """Policy that plays out a sampled deal: random, the name of a run, or the folder of a model."""

    defenders: ScriptedDefenders = "rules"
    """Scripted defenders."""

    assumed_defenders: ScriptedDefenders = "rules"
    """Scripted defenders that the search assumes."""

    double_dummy: bool = True
    """Solve the deals double dummy, for the share of contracts that are made if both sides play
    perfectly.
    """

    solutions: DataPath = "double_dummy"
    """Folder that stores the double-dummy solutions."""


class PimcJob(Job):
    """Job file of the trainer `sampling`: evaluation of a declarer that uses PIMC search.

    An iteration plays 500 deals.
    """

    trainer: Literal["sampling"]
    sampling: PimcConfig = PimcConfig()


@register("sampling", PimcJob, cardplay.share_made)
class PimcTrainer(BaseTrainer[PimcJob]):
    """Trainer without learning: a declarer that uses PIMC search plays the evaluation deals.

    Each iteration plays the next 500 deals.
    """

    saved = ("iteration", "made")
    stateful = ()

    def __init__(self, job: PimcJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.made = 0  # contracts made so far

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the next 500 deals; return the share of contracts that the declarer made.

        A second metric is the share of contracts made in all deals of the run so far.
        """
        shard = self.iteration - 1
        # numbered from 0, unlike the generator of BaseTrainer
        rng = generator(self.job.seed, RngStream.TRAIN, shard)
        deals = cardplay.evaluation_deals(self.job.game, self.job.seed, shard, EVALUATION_SHARD)
        made = sum(self.pool.map(_play, self.job, array_chunks(SHARD, deals), rng))
        self.made += made
        played = self.iteration * EVALUATION_SHARD
        return {"made": made / EVALUATION_SHARD, "made_so_far": self.made / played}

    def model(self) -> dict[str, Array]:
        """Return the numbers of contracts made and of deals played, stored in place of weights."""
        return {"made": np.array(self.made), "deals": np.array(self.iteration * EVALUATION_SHARD)}

    @staticmethod
    def validate(job: PimcJob) -> None:
        """Raise UserError for another game than Mini-Bridge, or an unknown rollout policy.

        The game must have two seats and its default scoring.
        """
        cardplay.check_scoring(job.game)
        game = cardplay.card_game(job.game)
        reference_opponents.check_opponent(job.sampling.rollout_policy, game, None)

    @staticmethod
    def evaluate_model(
        job: PimcJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Return the declarer's share of contracts made, and the share made double dummy.

        The share is computed from `weights`: the numbers of contracts made and of deals played in
        training, which the run stored in place of weights. The double-dummy share of these deals is
        None unless the job asks for it. Raises UserError for impossible numbers.
        """
        counts = [weights.get(name, np.zeros(0)) for name in ("made", "deals")]
        if any(each.shape != () or each.dtype.kind not in "iu" for each in counts):
            raise UserError("the model is damaged: it lacks the numbers of contracts and deals")
        made, deals = map(int, counts)
        if not (0 <= made <= deals and 0 < deals <= job.stop.iterations * EVALUATION_SHARD):
            raise UserError(f"the model is damaged: {made} contracts made in {deals} deals")
        section = job.sampling
        perfect = None
        if section.double_dummy:
            perfect = cardplay.double_dummy_share(
                job.game, section.solutions, deals, job.seed, pool
            )
        return [cardplay.result_row(section.defenders, made, deals, perfect, None)]


def _play(rng: Generator, job: PimcJob, deals: Array) -> int:
    """Play deals with the PIMC declarer against scripted defenders; return the contracts made."""
    choice, section = job.game, job.sampling
    game = cardplay.card_game(cardplay.with_trick_scoring(choice))
    guide = cached_opponent(choice, section.rollout_policy)
    defenders = cached_opponent(choice, section.assumed_defenders)
    declarer = PimcPolicy(game, defenders, guide, section.worlds)
    pair = (declarer, cached_opponent(choice, section.defenders))
    payoff = play(game, pair, deals, rng, recorded=()).payoff
    return int((payoff[:, 0] > 0).sum())
