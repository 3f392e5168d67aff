"""The network of values learns from what its own bidding brings (Zhang et al. 2022, Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.random import Generator
from pydantic import Field

from overtrick import counts, model, registry
from overtrick.config import Count, Folder, Section, Share
from overtrick.core import Array, Deals, Refused
from overtrick.games.bridge import heard, networks, packed, system
from overtrick.games.bridge.auction_game import Auction
from overtrick.games.bridge.cards import CARDS, hands
from overtrick.games.bridge.networks import Network
from overtrick.learners.networks import prefixed, unprefixed
from overtrick.learners.replay import Ring
from overtrick.learners.supervised import Classifier, check_loss
from overtrick.play import play
from overtrick.trainers.bidders import (
    Side,
    SystemJob,
    check_version,
    imps_between,
    network_of,
    sample,
    told_of,
    turned,
)
from overtrick.trainers.bidding import Learning
from overtrick.trainers.examples import for_judging
from overtrick.trainers.report import History, Report
from overtrick.workers import Crew, Part, generator

SHARD = 250  # auctions of one shard, whatever the number of workers
PRETRAINED = "pretrained"


class Reinforcing(Section):
    """How the bidder plays itself, and what its network of values learns from that."""

    games: Count = Field(default=1000, description="auctions an iteration")
    epsilon: Share = Field(default=0.1, description="share of calls that are any candidate")
    deals: Count = Field(
        default=1_000_000, description="deals of the file that are played at most: any, by the seed"
    )
    room: Count = Field(default=400_000, description="newest calls that are remembered")
    steps: Count = Field(default=40, description="gradient steps an iteration")
    target: Literal["outcome", "next"] = Field(
        default="outcome",
        description="what a call was worth: what the contract brought, or what the network says "
        "of its side's next call",
    )
    refresh: Count = Field(
        default=500, description="gradient steps after which the network of targets is renewed"
    )


class Judging(Section):
    """How the bidder is judged, on deals that it never met."""

    every: Count = Field(default=10, description="iterations between measurements")
    boards: int = Field(default=1000, ge=2, description="duplicate boards of a measurement")
    final: int = Field(default=10_000, ge=2, description="of the last one")
    against: tuple[str, ...] = Field(
        default=("natural", "precision"), description="bidding systems that it meets in the end"
    )


class BidderJob(SystemJob):
    """Everything that reinforcement needs."""

    trainer: Literal["bidder"]
    calls: Folder = Field(description="the model that proposes calls")
    imps: Folder = Field(description="the model that values them, as it is before")
    deals: Folder = Field(description="a Parquet file of deals with double-dummy tricks")
    network: Learning = Learning()
    bidder: Reinforcing = Reinforcing()
    evaluate: Judging = Judging()


class BidderTrainer:
    """An iteration is some auctions by itself, and some gradient steps."""

    def __init__(self, job: BidderJob, crew: Crew) -> None:
        self.job = job
        self.crew = crew
        self.iteration = 0
        self.learnt = 0  # gradient steps
        self.calls, first = _networks(job)
        self.auction = first.auction
        torch.set_num_threads(max(1, int(job.resources.cpus)))
        self.learner = Classifier(first.weights, job.network.plan("cpu"))
        self.goals = Classifier(first.weights, job.network.plan("cpu"))
        self.memory = Ring(job.bidder.room)
        self.deals, self.kept = _parted(job)

    def step(self) -> dict[str, float]:
        """Bid, remember, learn, and now and then measure."""
        plan, job = self.job.bidder, self.job
        self.iteration += 1
        rng = generator(job.seed, Part.TRAIN, self.iteration)
        deal_rng, play_rng, learn_rng = rng.spawn(3)
        self.learner.seed(learn_rng)
        chosen = turned(self.deals[deal_rng.integers(len(self.deals), size=plan.games)], deal_rng)
        shards = [(chosen[k : k + SHARD],) for k in range(0, len(chosen), SHARD)]
        common = (self._side(), plan.epsilon)
        for rows in self.crew.map(_bid, common, shards, play_rng):
            self.memory.add(rows, learn_rng)
        loss = check_loss(self._learn(learn_rng), f"in iteration {self.iteration}")
        self.learner.check(f"in iteration {self.iteration}")
        metrics = {"loss_nats": loss, "auctions": float(self.iteration * plan.games)}
        if self.iteration % job.evaluate.every == 0:
            row = _row(job, self._side(), PRETRAINED, self.kept, job.evaluate.boards, self.crew)
            metrics |= {"imps_per_board": row["mean"], "imps_per_board_se": row["standard_error"]}
        return metrics

    def _learn(self, rng: Generator) -> float:
        """Gradient steps on what is remembered; the mean loss."""
        plan, network = self.job.bidder, self.job.network
        steps = plan.steps * self.job.stop.iterations
        losses = []
        for _ in range(plan.steps):
            if self.learnt % plan.refresh == 0:
                self.goals.load(self.learner.weights())
            places = self.memory.draw(network.batch, rng)
            rows = self.memory.at(places)
            features = self._features(rows)
            possible = np.ones((len(places), networks.VALUES), bool)
            self.learner.optimizer.pace(network.pace(self.learnt, steps))
            losses.append(self.learner.learn(features, possible, self._goal(places, rows)))
            self.learnt += 1
        return float(torch.stack(losses).mean())

    def _goal(self, places: Array, rows: Mapping[str, Array]) -> Array:
        """(R,) what came of each call, or (R, 49) how likely that is by its side's next call."""
        brought: Array = rows["imps"] + networks.MOST
        if self.job.bidder.target == "outcome":
            return brought
        last = rows["last"]
        ahead = self.memory.at(np.where(last, places, (places + 1) % self.memory.room))
        possible = np.ones((len(places), networks.VALUES), bool)
        goal = np.exp(self.goals.log_probs(self._features(ahead), possible))
        goal[last] = np.arange(networks.VALUES) == brought[last, None]
        return goal

    def _features(self, rows: Mapping[str, Array]) -> Array:
        """(R, F) what the network of values sees of remembered calls."""
        return networks.numbers(rows["after"], rows["situation"] if self.auction else None)

    def _side(self) -> Side:
        plan = self.job.network
        values = Network(self.learner.weights(), plan.activation, plan.half)
        return Side("bidder", system.load(self.job.system), self.calls, values)

    def report(self, history: History) -> Report:
        """What it wins from itself as it was before, and from systems; and the way there."""
        rows = judge(self.job, self.model(), self.crew, generator(0))
        told = [(m["auctions"], m["imps_per_board"], m["imps_per_board_se"])
                for _, m in history if "imps_per_board" in m]  # fmt: skip
        drawn = {"imps": counts.against(told, "auctions", "IMPs a board against pretrained")}
        return Report(rows, drawn if told else {})

    def model(self) -> dict[str, Array]:
        """Both networks."""
        own = prefixed("imps", self.learner.weights())
        return {**prefixed("calls", self.calls.weights), **own}

    def state(self) -> dict[str, Array]:
        return {
            **prefixed("learner", self.learner.state()),
            **prefixed("goals", self.goals.weights()),
            **prefixed("memory", self.memory.state()),
            "iteration": np.array(self.iteration),
            "learnt": np.array(self.learnt),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.learner.load(unprefixed("learner", state))
        self.goals.load(unprefixed("goals", state))
        self.memory.load(unprefixed("memory", state))
        self.iteration, self.learnt = int(state["iteration"]), int(state["learnt"])

    def close(self) -> None:
        self.crew.close()


def check(job: BidderJob) -> None:
    """Raise Refused for another game, or for models, deals or systems that do not serve."""
    if job.game.name != Auction.name:
        raise Refused(f"the bidder trainer is for the auction, not for {job.game.name}")
    _networks(job)
    for part in _parted(job):
        if len(part) < 2:
            raise Refused(f"{job.deals} has too few deals to keep some of them for judging")
    for name in job.evaluate.against:
        system.load(name)


def judge(
    job: BidderJob, weights: Mapping[str, Array], crew: Crew, rng: Generator
) -> list[dict[str, Any]]:
    """IMPs a board of a stored bidder against its values before, and against systems."""
    plan = job.network
    calls, _ = _networks(job)
    values = Network(unprefixed("imps", weights), plan.activation, plan.half)
    side = Side("bidder", system.load(job.system), calls, values)
    opponents = (PRETRAINED, *job.evaluate.against)
    kept = _parted(job)[1]
    return [_row(job, side, name, kept, job.evaluate.final, crew) for name in opponents]


def score(rows: list[dict[str, Any]]) -> float:
    """IMPs a board against the pretrained."""
    return float(rows[0]["mean"])


def _row(
    job: BidderJob, side: Side, name: str, kept: Deals, boards: int, crew: Crew
) -> dict[str, Any]:
    """What a side wins from an opponent on so many deals kept for judging, or on all of them."""
    calls, first = _networks(job)
    other = Side(name, side.system, calls, first) if name == PRETRAINED else Side(
        name, system.load(name)
    )  # fmt: skip
    rng = generator(job.seed, Part.JUDGE)
    boards = min(boards, len(kept))
    deals = turned(kept[rng.choice(len(kept), boards, replace=False)], rng)
    shards = [(deals[k : k + SHARD],) for k in range(0, boards, SHARD)]
    won = np.concatenate(crew.map(_meet, (side, other), shards, rng))
    error = float(won.std(ddof=1) / np.sqrt(boards))
    return {
        "opponent": name, "boards": boards, "mean": float(won.mean()), "standard_error": error,
    }  # fmt: skip


def _networks(job: BidderJob) -> tuple[Network, Network]:
    """Both networks as they are before. Raises Refused."""
    found, own = [], system.load(job.system)
    check_version(job.rules, own, "the bidder of this job")
    for name, place in (("calls", job.calls), ("imps", job.imps)):
        folder = registry.located(place)
        stored = model.load(folder, Auction.name)
        network = network_of(stored, name, folder)
        if network is None:
            raise Refused(
                f"the model in {folder} has no network of {name}: train one with learn: {name}"
            )
        if network.activation != job.network.activation:
            raise Refused(
                f"network.activation is {job.network.activation}, but {folder} has "
                f"{network.activation}"
            )
        if (bids := told_of(stored, folder, "system")) != job.system:
            raise Refused(f"system is {job.system}, but the model in {folder} bids {bids}")
        check_version(told_of(stored, folder, "rules"), own, f"the model in {folder}")
        found.append(network)
    return found[0], found[1]


def _parted(job: BidderJob) -> tuple[Deals, Deals]:
    """The deals to learn from, and those for judging."""
    deals = sample(job.deals, job.bidder.deals, job.seed)
    held = for_judging(hands(deals[:, :CARDS]))
    return deals[~held], deals[held]


def _bid(rng: Generator, common: tuple[Side, float], deals: Deals) -> dict[str, Array]:
    """What there is to remember of auctions by a side with itself."""
    side, epsilon = common
    policy = side.policy(side.system, side.system, epsilon)
    played = play(Auction(seats=2), (policy, policy), deals, rng)
    batch = played.batch
    rows = np.arange(len(batch.seen))
    after = heard.after(batch.seen, rows, batch.action, side.system, side.system)
    situation = networks.situations_after(networks.situations(batch.seen), batch.action)
    return {
        "after": packed.packed(after),
        "situation": situation.astype(np.int8),
        "imps": played.payoff[batch.game, batch.seat].astype(np.int8),
        "last": batch.last,
    }


def _meet(rng: Generator, sides: tuple[Side, Side], deals: Deals) -> Array:
    return imps_between(*sides, deals, rng)
