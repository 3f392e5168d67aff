"""Trainer `bidder`: reinforcement learning of a bidder's value network in self-play.

Source: Zhang et al. 2022, Figure 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from numpy.random import Generator

from overtrick.config.sections import Count, Fraction
from overtrick.core import Array, Deals
from overtrick.core.checkpoints import prefixed
from overtrick.core.lazy_modules import torch
from overtrick.distributed.workers import WorkerPool, array_chunks
from overtrick.evaluation.bidders import Side, rotate_deals
from overtrick.games.bridge.auction import stored_networks
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork
from overtrick.games.bridge.system import loader
from overtrick.policies.rollout import play
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.bidding import pretrained
from overtrick.training.bidding.pretrained import PRETRAINED, SHARD, BidderTrainingJob
from overtrick.training.bidding.value_learner import ValueLearner, ValueReplayConfig, replay_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ValueRlConfig(ValueReplayConfig):
    """Settings of self-play, and of the value network's training."""

    games: Count = 1000
    """Auctions per iteration."""

    epsilon: Fraction = 0.1
    """Probability of a random choice among the calls that the policy network finds likely."""

    max_deals: Count = 1_000_000
    """Maximum number of deals sampled from the files."""


class BidderJob(BidderTrainingJob):
    """Job file of the trainer `bidder`: reinforcement learning of a bidder's value network."""

    trainer: Literal["bidder"]
    bidder: ValueRlConfig = ValueRlConfig()


@register("bidder", BidderJob, scores.table_mean, scores.board_imps)
class BidderTrainer(BaseTrainer[BidderJob]):
    """Trainer of a bidder's value network by reinforcement learning in self-play."""

    stateful = ()

    def __init__(self, job: BidderJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.calls, first = pretrained.load_networks(job)
        torch.set_num_threads(max(1, int(job.resources.cpus)))
        self.outcomes = ValueLearner(first, job.network, job.bidder, job.stop.iterations)
        training, self.test_deals = pretrained.split_deals(job, job.bidder.max_deals)
        self.deals = pretrained.scored_deals(job, training)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Bid the auctions of an iteration, and train the value network from the replay buffer."""
        section = self.job.bidder
        deal_rng, play_rng, learn_rng = rng.spawn(3)
        chosen = self.deals[deal_rng.integers(len(self.deals), size=section.games)]
        shards = array_chunks(SHARD, rotate_deals(chosen, deal_rng))
        for rows in self.pool.map(_bid, (self._side(), section.epsilon), shards, play_rng):
            self.outcomes.memory.add(rows, learn_rng)
        loss = self.outcomes.learn(learn_rng, f"in iteration {self.iteration}")
        return {"loss_nats": loss, "auctions": float(self.iteration * section.games)}

    def evaluate(self) -> Metrics:
        deals = pretrained.evaluation_boards(self.job, self.test_deals, self.job.evaluate.boards)
        row = pretrained.match_row(self._side(), _pretrained(self.job), deals, self.pool)
        return pretrained.imps_metrics(row)

    def _side(self) -> Side:
        return _side(self.job, self.calls, self.outcomes.values())

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        return pretrained.learning_curve(history, "auctions")

    def model(self) -> dict[str, Array]:
        """Return the weights of the policy network (prefix `calls`) and value network (`imps`)."""
        own = prefixed("imps", self.outcomes.values().weights)
        return {**prefixed("calls", self.calls.weights), **own}

    def state(self) -> dict[str, Array]:
        return {**super().state(), **self.outcomes.state()}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self.outcomes.load(state)

    @staticmethod
    def validate(job: BidderJob) -> None:
        """Raise UserError for an unsuitable game, or invalid models, deals or opponents."""
        pretrained.check_bidding_job(job, job.bidder.max_deals)

    @staticmethod
    def evaluate_model(
        job: BidderJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute a stored bidder's mean IMPs per board against each opponent.

        The first opponent is the pretrained bidder.
        """
        calls, _ = pretrained.load_networks(job)
        own = stored_networks.networks_of_model(weights, {"calls": "calls", "imps": "imps"})
        calls = calls._replace(weights=own["calls"])
        side = _side(job, calls, job.network.network(own["imps"]))
        _, test_deals = pretrained.split_deals(job, job.bidder.max_deals)
        deals = pretrained.evaluation_boards(job, test_deals, job.evaluate.final_boards)
        others = pretrained.evaluation_opponents(job, _pretrained(job))
        return [pretrained.match_row(side, other, deals, pool) for other in others]


def _side(job: BidderJob, calls: BiddingNetwork, imps: BiddingNetwork) -> Side:
    return Side("bidder", loader.load(job.system), calls, imps)


def _pretrained(job: BidderJob) -> Side:
    """Return the bidder with its pretrained networks, before reinforcement learning."""
    return _side(job, *pretrained.load_networks(job))._replace(name=PRETRAINED)


def _bid(rng: Generator, common: tuple[Side, float], deals: Deals) -> dict[str, Array]:
    """Bid deals (G, 74) in self-play; return the rows for the replay buffer, one for each call.

    `common`: the tuple (bidder, epsilon). The bidder bids for both sides; with probability epsilon
    it makes a random one of the calls that its policy network finds likely. `deals`: the seat that
    holds each of the 52 cards, dealer, vulnerability and 20 tricks.
    """
    side, epsilon = common
    policy = side.policy(side.system, side.system, epsilon)
    played = play(Auction(seats=2), (policy, policy), deals, rng)
    batch = played.batch
    return replay_rows(batch, played.payoff[batch.game, batch.seat], side.system, side.system)
