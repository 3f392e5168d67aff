"""The network of values learns from what its own bidding brings (Zhang et al. 2022, Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Share
from overtrick.core import Array, Deals
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.bidders import Side, side_of, turned
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.auction.network_bidder import Network
from overtrick.games.bridge.system import loader
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.policies.rollout import play
from overtrick.training.bidding import pretrained
from overtrick.training.bidding.pretrained import PRETRAINED, SHARD, WON, PairJob
from overtrick.training.bidding.value_replay import Outcomes, Remembered, remembered
from overtrick.training.trainer import History, Report


class Reinforcing(Remembered):
    """How the bidder plays itself, and what its network of values learns from that."""

    games: Count = Field(default=1000, description="auctions an iteration")
    epsilon: Share = Field(default=0.1, description="share of calls that are any candidate")
    max_deals: Count = Field(
        default=1_000_000, description="deals of the file that are played at most: any, by the seed"
    )


class BidderJob(PairJob):
    """Everything that reinforcement needs."""

    trainer: Literal["bidder"]
    bidder: Reinforcing = Reinforcing()


class BidderTrainer:
    """An iteration is some auctions by itself, and some gradient steps."""

    def __init__(self, job: BidderJob, crew: WorkerPool) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.calls, first = pretrained.networks_of(job)
        torch.set_num_threads(max(1, int(job.resources.cpus)))
        self.outcomes = Outcomes(first, job.network, job.bidder, job.stop.iterations)
        self.deals, self.kept = pretrained.parted(job, job.bidder.max_deals)

    def step(self) -> dict[str, float]:
        """Bid, remember, learn, and now and then measure."""
        plan, job = self.job.bidder, self.job
        self.iteration += 1
        rng = generator(job.seed, RngStream.TRAIN, self.iteration)
        deal_rng, play_rng, learn_rng = rng.spawn(3)
        chosen = turned(self.deals[deal_rng.integers(len(self.deals), size=plan.games)], deal_rng)
        shards = [(chosen[k : k + SHARD],) for k in range(0, len(chosen), SHARD)]
        common = (self._side(), plan.epsilon)
        for rows in self.crew.map(_bid, common, shards, play_rng):
            self.outcomes.memory.add(rows, learn_rng)
        loss = self.outcomes.learn(learn_rng, f"in iteration {self.iteration}")
        metrics = {"loss_nats": loss, "auctions": float(self.iteration * plan.games)}
        if self.iteration % job.evaluate.every == 0:
            deals = pretrained.judged(job, self.kept, job.evaluate.boards)
            row = pretrained.row(self._side(), _before(job), deals, self.crew)
            metrics |= {WON: row["mean"], f"{WON}_se": row["standard_error"]}
        return metrics

    def _side(self) -> Side:
        return _side(self.job, self.calls, self.outcomes.values())

    def report(self, history: History) -> Report:
        """What it wins from itself as it was before, and from others; and the way there."""
        rows = judge(self.job, self.model(), self.crew, generator(0))
        return Report(rows, pretrained.way(history, "auctions"))

    def model(self) -> dict[str, Array]:
        """Both networks."""
        own = prefixed("imps", self.outcomes.values().weights)
        return {**prefixed("calls", self.calls.weights), **own}

    def state(self) -> dict[str, Array]:
        return {**self.outcomes.state(), "iteration": np.array(self.iteration)}

    def load(self, state: Mapping[str, Array]) -> None:
        self.outcomes.load(state)
        self.iteration = int(state["iteration"])

    def close(self) -> None:
        self.crew.close()


def check(job: BidderJob) -> None:
    """Raise Refused for another game, or for models, deals or opponents that do not serve."""
    pretrained.check(job, job.bidder.max_deals)


def judge(
    job: BidderJob, weights: Mapping[str, Array], crew: WorkerPool, rng: Generator
) -> list[dict[str, Any]]:
    """IMPs a board of a stored bidder against its values before, and against others."""
    plan = job.network
    calls = pretrained.networks_of(job)[0]._replace(weights=unprefixed("calls", weights))
    side = _side(job, calls, Network(unprefixed("imps", weights), plan.activation, plan.bfloat16))
    deals = pretrained.judged(
        job, pretrained.parted(job, job.bidder.max_deals)[1], job.evaluate.final_boards
    )
    others = [_before(job), *map(side_of, job.evaluate.opponents)]
    return [pretrained.row(side, other, deals, crew) for other in others]


def score(rows: list[dict[str, Any]]) -> float:
    """IMPs a board against the pretrained."""
    return float(rows[0]["mean"])


def _side(job: BidderJob, calls: Network, imps: Network) -> Side:
    return Side("bidder", loader.load(job.system), calls, imps)


def _before(job: BidderJob) -> Side:
    """The bidder before it learnt from play."""
    return _side(job, *pretrained.networks_of(job))._replace(name=PRETRAINED)


def _bid(rng: Generator, common: tuple[Side, float], deals: Deals) -> dict[str, Array]:
    """What there is to remember of auctions by a side with itself."""
    side, epsilon = common
    policy = side.policy(side.system, side.system, epsilon)
    played = play(Auction(seats=2), (policy, policy), deals, rng)
    batch = played.batch
    return remembered(batch, played.payoff[batch.game, batch.seat], side.system, side.system)
