"""Both networks of a bidder learn from duplicate boards against past selves and bidding systems.

The calls learn by proximal policy optimisation, and are held back by what they were taught; the
values learn what came of it, and are the baseline of the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Fraction, Opponent, Positive, Section
from overtrick.core import Array, Deals, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.bidders import Side, load_side, rotate_deals
from overtrick.games.bridge.auction import (
    features_from_observation,
    network_bidder,
    packed_features,
)
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork, SamplingBidder
from overtrick.games.bridge.scoring import imps
from overtrick.games.bridge.system import loader
from overtrick.learners.policy_gradient.advantages import generalised_advantages
from overtrick.learners.policy_gradient.kl_anchored_ppo import KlAnchoredPolicy
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.supervised.classifier import check_loss
from overtrick.policies.forward_pass import Weights
from overtrick.policies.rollout import play
from overtrick.training import scores
from overtrick.training.adaptation.opponent_population import Opponents, SelfPlayPopulation
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.bidding import pretrained
from overtrick.training.bidding.pretrained import IMPS_METRIC, PRETRAINED, BidderTrainingJob
from overtrick.training.bidding.value_replay import ValueLearner, ValueReplayConfig, replay_rows

VALUE_OUTPUT = {"values": "imps", "calls": "baseline"}
"""By what decides, the name under which a model has the network of values."""

SHARD = 125  # boards of one shard and one opponent, whatever the number of workers


class SelfPlayConfig(Section):
    """How the calls improve, and whom they meet."""

    boards: Count = Field(default=1000, description="boards an iteration, each at two tables")
    max_deals: Count = Field(
        default=1_000_000, description="deals of the file that are played at most: any, by the seed"
    )
    reward: Literal["table", "par"] = Field(
        default="table",
        description="IMPs against the other table, where the opponent holds the same cards, or "
        "against par",
    )
    gae_lambda: Fraction = Field(default=1.0, description="lambda of the advantages")
    learning_rate: Positive = Field(default=0.0001, description="Adam's rate")
    clip_range: Positive = Field(default=0.2, description="how far a probability ratio may move")
    epochs: Count = Field(default=2, description="over the calls of an iteration, at most")
    minibatches: Count = Field(default=8, description="gradient steps of a pass")
    target_kl: Positive = Field(default=0.02, description="nats a call after which passes end")
    entropy_coef: float = Field(default=0.0, ge=0, description="bonus in IMPs a nat")
    teacher_kl_coef: float = Field(
        default=2.0,
        ge=0,
        description="IMPs a game for each nat of mean distance a call to what was taught",
    )
    value_warmup_iterations: int = Field(
        default=10, ge=0, description="first iterations in which only the values learn"
    )
    final_policy: Literal["calls", "values"] = Field(
        default="calls",
        description="how the model that is kept bids: the likeliest call, or of the likely ones "
        "that of the highest value",
    )
    past_selves: Count = Field(default=6, description="past selves that are met")
    snapshot_interval: Count = Field(default=10, description="iterations between past selves")
    opponents: tuple[Opponent, ...] = Field(
        default=("natural", "precision"),
        description="bidding systems and folders of bidders that are met, each as often as a past "
        "self",
    )


class SelfplayJob(BidderTrainingJob):
    """Everything that self-play needs."""

    trainer: Literal["selfplay_bidding"]
    play: SelfPlayConfig = SelfPlayConfig()
    values: ValueReplayConfig = ValueReplayConfig()


def score(rows: list[dict[str, Any]]) -> float:
    """IMPs a board of the calls alone against the calls before."""
    return float(rows[0]["mean"])


@register("selfplay_bidding", SelfplayJob, score, scores.board_imps)
class SelfplayTrainer(BaseTrainer[SelfplayJob]):
    """Improve both networks of a bidder by self-play against past selves and other systems."""

    stateful = ("values", "calls", "past")

    def __init__(self, job: SelfplayJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.call_network, first = pretrained.load_networks(job)
        torch.set_num_threads(max(1, int(job.resources.cpus)))
        plan = job.play
        self.values = ValueLearner(first, job.network, job.values, job.stop.iterations)
        self.calls = KlAnchoredPolicy(
            self.call_network.weights,
            job.network.plan("cpu"),
            Ppo(
                plan.learning_rate,
                plan.entropy_coef,
                plan.clip_range,
                plan.epochs,
                plan.target_kl,
                plan.teacher_kl_coef,
            ),
            plan.minibatches,
        )
        self.past = SelfPlayPopulation(
            job.game, (), Opponents(kind="selfplay", size=plan.past_selves), self.calls.theta,
            pool,
            generator(job.seed, RngStream.INITIAL),
        )  # fmt: skip
        self.others = [load_side(name) for name in plan.opponents]
        self.deals, self.kept = pretrained.split_deals(job, job.play.max_deals)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the boards of an iteration against opponents, and learn from them."""
        plan = self.job.play
        where = f"in iteration {self.iteration}"
        deal_rng, who_rng, play_rng, learn_rng = rng.spawn(4)
        if (self.iteration - 1) % plan.snapshot_interval == 0:
            self.past.renew(self.calls.theta, who_rng)
        deals = rotate_deals(
            self.deals[deal_rng.integers(len(self.deals), size=plan.boards)], deal_rng
        )
        cut = [deals[k : k + SHARD] for k in range(0, plan.boards, SHARD)]
        shards = list(zip(cut, self._opponents(len(cut), who_rng), strict=True))
        common = (self._side("learner", self.values.values()), plan.reward, plan.gae_lambda)
        met = self.pool.map(_meet, common, shards, play_rng)
        for _, told in met:
            self.values.memory.add(told, learn_rng)
        done = {n: np.concatenate([rows[n] for rows, _ in met]) for n in met[0][0]}
        done["game"] += np.repeat(np.arange(len(met)), [len(m[0]["game"]) for m in met]) * 2 * SHARD
        metrics = {
            "boards": float(self.iteration * plan.boards),
            "loss_nats": self.values.learn(learn_rng, where),
            "unforeseen_imps": float(np.sqrt(np.square(done["advantage"]).mean())),
        }
        if self.iteration > plan.value_warmup_iterations:
            metrics |= self._improve(done, learn_rng)
            check_loss(metrics["gain"], where)
        return metrics

    def _opponents(self, count: int, rng: Generator) -> list[Side]:
        """Whom so many shards meet: past selves and others, all alike."""
        members, past = self.past.members(), self.job.play.past_selves
        return [
            self.others[who - past] if who >= past
            else self._side("past", calls={n: v[who] for n, v in members.items()})
            for who in rng.integers(past + len(self.others), size=count)
        ]  # fmt: skip

    def _side(
        self, name: str, values: BiddingNetwork | None = None, calls: Weights | None = None
    ) -> Side:
        """A side by some calls, or as they are now."""
        network = self.call_network._replace(weights=self.calls.theta if calls is None else calls)
        return Side(name, loader.load(self.job.system), network, values)

    def _improve(self, done: Mapping[str, Array], rng: Generator) -> dict[str, float]:
        """The calls learn from what they brought."""
        situation = done["situation"] if self.call_network.sees_auction else None
        return self.calls.learn(
            network_bidder.unpack_inputs(done["before"], situation), done["legal"], done["call"],
            done["advantage"], done["game"], 2 * self.job.play.boards, rng,
        )  # fmt: skip

    def evaluate(self) -> Metrics:
        """Compute what the likeliest calls win from each opponent, and how many are true."""
        deals = pretrained.evaluation_boards(self.job, self.kept, self.job.evaluate.boards)
        side = self._side("calls")
        metrics = {"true_calls": pretrained.truthful_share(side, deals, self.pool)}
        for other in _opponents(self.job):
            row = pretrained.match_row(side, other, deals, self.pool)
            name = IMPS_METRIC if other.name == PRETRAINED else f"{IMPS_METRIC}_{other.name}"
            metrics |= {name: row["mean"], f"{name}_se": row["standard_error"]}
        return metrics

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        return pretrained.learning_curve(history, "boards")

    def model(self) -> dict[str, Array]:
        """Both networks; whoever seats the model finds that of values if it decides."""
        values = prefixed(VALUE_OUTPUT[self.job.play.final_policy], self.values.values().weights)
        return {**prefixed("calls", self.calls.theta), **values}

    @staticmethod
    def validate(job: SelfplayJob) -> None:
        """Raise UserError for unusable models, deals or opponents."""
        if job.play.value_warmup_iterations >= job.stop.iterations:
            raise UserError(
                f"play.value_warmup_iterations is {job.play.value_warmup_iterations} and "
                f"stop.iterations {job.stop.iterations}: the calls "
                "would learn nothing"
            )
        pretrained.check_bidding_job(job, job.play.max_deals)
        for name in job.play.opponents:
            load_side(name)

    @staticmethod
    def evaluate_model(
        job: SelfplayJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute IMPs a board of the stored calls alone, of the whole bidder, and of the
        pretrained calls; and the share of their calls but passes that is true."""
        plan, rules = job.network, loader.load(job.system)
        calls, values = (
            BiddingNetwork(unprefixed(name, weights), plan.activation, plan.bfloat16)
            for name in ("calls", VALUE_OUTPUT[job.play.final_policy])
        )
        deals = pretrained.evaluation_boards(
            job, pretrained.split_deals(job, job.play.max_deals)[1], job.evaluate.final_boards
        )
        before, *others = _opponents(job)
        alone, both = Side("calls", rules, calls), Side("calls and values", rules, calls, values)
        rows = []
        for side in (alone, both, before):
            true = pretrained.truthful_share(side, deals, pool)
            for other in others if side is before else (before, *others):
                row = pretrained.match_row(side, other, deals, pool)
                rows.append({"side": side.name, **row, "true_calls": true})
        return rows


def _opponents(job: SelfplayJob) -> list[Side]:
    """Against whom it is judged: the calls as they were before, and others."""
    calls, _ = pretrained.load_networks(job)
    before = Side(PRETRAINED, loader.load(job.system), calls)
    return [before, *map(load_side, job.evaluate.opponents)]


def _meet(
    rng: Generator, common: tuple[Side, str, float], deals: Deals, other: Side
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The decisions of a side at both tables of some boards, and what there is to remember. At the
    first table it sits North-South, and its opponent at the second."""
    side, reward, gae = common
    assert side.calls is not None
    game = Auction("points" if reward == "table" else "imps", seats=2)
    tables = []
    for seat, child in enumerate(rng.spawn(2)):
        ns, ew = (side, other) if seat == 0 else (other, side)
        own = SamplingBidder(ns.system, ew.system, side.calls, side.imps)
        theirs = other.policy(ns.system, ew.system)
        seated = (own, theirs) if seat == 0 else (theirs, own)
        tables.append((own, play(game, seated, deals, child, recorded=(seat,))))
    won = [played.payoff[:, seat] for seat, (_, played) in enumerate(tables)]
    if reward == "table":
        won = [imps((won[0] + won[1]).astype(np.int64))] * 2
    decided, told = [], []
    for seat, (own, played) in enumerate(tables):
        batch = played.batch
        brought = won[seat][batch.game]
        batch = replace(batch, reward=np.where(batch.last, brought, 0.0))
        value = own.value(batch.observations())
        features = features_from_observation.features_before_call(batch.observation, own.ns, own.ew)
        decided.append({
            "before": packed_features.pack(features),
            "situation": network_bidder.auction_situations(batch.observation).astype(np.int8),
            "legal": batch.legal, "call": batch.action,
            "advantage": generalised_advantages(batch, value, 1.0, gae),
            "game": batch.game + seat * len(deals),
        })  # fmt: skip
        told.append(replay_rows(batch, brought, own.ns, own.ew))
    joined = ({n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
              for parts in (decided, told))  # fmt: skip
    decisions, memories = joined
    return decisions, memories
