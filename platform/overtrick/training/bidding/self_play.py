"""Trainer `selfplay_bidding`: improves both networks of a bidder by self-play on duplicate boards.

The opponents are past selves, bidding systems and other bidders. The policy network is trained by
PPO with a penalty on the KL divergence from its pretrained policy. The value network is trained on
the results of the deals. With `gradient_estimator: sampled_call` it is also the critic of PPO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.sections import Count, Opponent, Positive, Section, UnusedKeys
from overtrick.core import Array, Deals, Policy, UserError, concat_columns
from overtrick.core.checkpoints import prefixed
from overtrick.core.lazy_modules import torch
from overtrick.distributed.workers import RngStream, WorkerPool, array_chunks, generator
from overtrick.evaluation.bidders import Side, load_side, rotate_deals
from overtrick.games.bridge.auction import features_from_observation, stored_networks
from overtrick.games.bridge.auction.game import Auction
from overtrick.games.bridge.auction.network_bidder import (
    BiddingNetwork,
    NetworkBidder,
    SamplingBidder,
    candidate_calls,
)
from overtrick.games.bridge.auction.network_inputs import callers_in_observations, unpack_inputs
from overtrick.games.bridge.auction.packed_features import pack
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.scoring import imps
from overtrick.games.bridge.system import loader
from overtrick.learners.divergence import check_loss
from overtrick.learners.policy_gradient.advantages import generalised_advantages
from overtrick.learners.policy_gradient.kl_anchored_ppo import KlAnchoredLearner
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.policies.forward_pass import Weights
from overtrick.policies.rollout import play
from overtrick.training import scores
from overtrick.training.adaptation.opponent_population import Opponents, SelfPlayPopulation
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register
from overtrick.training.bidding import pretrained
from overtrick.training.bidding.call_results import call_credit, results_of_calls
from overtrick.training.bidding.pretrained import IMPS_METRIC, PRETRAINED, BidderTrainingJob
from overtrick.training.bidding.value_learner import ValueLearner, ValueReplayConfig, replay_rows
from overtrick.training.shared_sections import GaeLambda, Minibatches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALUE_OUTPUT = {"values": "imps", "calls": pretrained.UNUSED_VALUES}
"""Prefix of the value network's weights in the model, by `final_policy`.

With `imps`, the policy network of the final model selects candidate calls, and the model bids the
candidate of highest value. With `baseline`, the final model bids without the value network.
"""

ADVANTAGES = {"every_call": "call_spread_imps", "sampled_call": "unforeseen_imps"}
"""Metric with the root mean square advantage, by gradient estimator."""

SHARD = 125  # boards per shard; all boards of a shard have the same opponent


class SelfPlayConfig(Section):
    """Settings of PPO for the policy network, and of the training opponents."""

    unused_keys = (UnusedKeys({"gradient_estimator": ("every_call",)}, ("gae_lambda",)),)

    boards: Count = 1000
    """Boards per iteration; each board is played at two tables."""

    max_deals: Count = 1_000_000
    """Maximum number of deals sampled from the files."""

    reward: Literal["table", "par"] = "table"
    """Reward. table: IMPs against the other table, where the opponent holds the learner's cards.
    par: IMPs against par.
    """

    gradient_estimator: Literal["every_call", "sampled_call"] = "every_call"
    """Calls whose results train the policy network. every_call: all calls with a probability of at
    least 1 %; after each, the deal is bid to the end with the learner's most likely calls.
    sampled_call: the call that was made; its advantage is generalised, over the value network.
    """

    gae_lambda: GaeLambda = 1.0
    learning_rate: Positive = 0.0001
    """Adam's learning rate."""

    schedule: Literal["constant", "linear"] = "linear"
    """Learning rate schedule. constant: no change. linear: fall to 0 over the run."""

    clip_range: Positive = 0.2
    """PPO's clip range of probability ratios."""

    epochs: Count = 2
    """Largest number of epochs of PPO in an iteration."""

    minibatches: Minibatches = 8
    target_kl: Positive = 0.02
    """KL divergence, in nats per call, at which the epochs end early."""

    entropy_coef: float = Field(default=0.0, ge=0)
    """Entropy bonus, in IMPs per nat."""

    teacher_kl_coef: float = Field(default=2.0, ge=0)
    """Weight of the KL divergence from the pretrained policy: IMPs per game, for each nat of mean
    divergence per call.
    """

    value_warmup_iterations: int = Field(default=10, ge=0)
    """Number of first iterations in which only the value network is trained; every_call needs none.
    """

    final_policy: Literal["calls", "values"] = "calls"
    """Bidding of the final model. calls: the most likely call. values: among the likely calls, the
    call of the highest value.
    """

    past_selves: Count = 6
    """Number of past selves among the opponents."""

    snapshot_interval: Count = 10
    """Iterations between new past selves; each replaces the oldest."""

    opponents: tuple[Opponent, ...] = ("natural", "precision")
    """Further opponents, each as frequent as one past self: names of bidding systems, or folders of
    bidding models.
    """


class SelfplayJob(BidderTrainingJob):
    """Job file of the trainer `selfplay_bidding`: self-play training of a bidder's networks."""

    trainer: Literal["selfplay_bidding"]
    play: SelfPlayConfig = SelfPlayConfig()
    values: ValueReplayConfig = ValueReplayConfig()


@register("selfplay_bidding", SelfplayJob, scores.table_mean, scores.board_imps)
class SelfplayTrainer(BaseTrainer[SelfplayJob]):
    """Trainer of a bidder's policy network and value network by self-play.

    The opponents are earlier versions of the bidder (past selves), and other bidders.
    """

    stateful = ("values", "calls", "past")

    def __init__(self, job: SelfplayJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.call_network, first = pretrained.load_networks(job, unused_values=True)
        torch.set_num_threads(max(1, int(job.resources.cpus)))
        section = job.play
        self.values = ValueLearner(first, job.network, job.values, job.stop.iterations)
        self.calls = KlAnchoredLearner(
            self.call_network.weights,
            job.network.classifier_config(),
            Ppo(
                section.learning_rate,
                section.entropy_coef,
                section.clip_range,
                section.epochs,
                section.target_kl,
                section.teacher_kl_coef,
            ),
            section.minibatches,
        )
        self.past = SelfPlayPopulation(
            job.game, (), Opponents(kind="selfplay", size=section.past_selves), self.calls.theta,
            pool,
            generator(job.seed, RngStream.INITIAL),
        )  # fmt: skip
        self.others = [load_side(name) for name in section.opponents]
        training, self.test_deals = pretrained.split_deals(job, job.play.max_deals)
        self.deals = pretrained.scored_deals(job, training)

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play the boards of an iteration; train the value network and, after warm-up, the policy.

        The warm-up is the first `play.value_warmup_iterations` iterations.
        """
        section = self.job.play
        where = f"in iteration {self.iteration}"
        deal_rng, opponent_rng, play_rng, learn_rng = rng.spawn(4)
        if (self.iteration - 1) % section.snapshot_interval == 0:
            self.past.renew(self.calls.theta, opponent_rng)
        chosen = self.deals[deal_rng.integers(len(self.deals), size=section.boards)]
        cut = array_chunks(SHARD, rotate_deals(chosen, deal_rng))
        opponents = self._draw_opponents(len(cut), opponent_rng)
        shards = [(deals, other) for (deals,), other in zip(cut, opponents, strict=True)]
        common = self._side("learner", self.values.values()), section
        played = self.pool.map(_play_boards, common, shards, play_rng)
        for _, rows in played:
            self.values.memory.add(rows, learn_rng)
        calls = _concat_calls([calls for calls, _ in played])
        metrics = {
            "boards": float(self.iteration * section.boards),
            "loss_nats": self.values.learn(learn_rng, where),
            ADVANTAGES[section.gradient_estimator]: float(np.sqrt(calls["squared"].mean())),
        }
        if section.schedule == "linear":
            self.calls.set_learning_rate(section.learning_rate * (1 - progress))
        if self.iteration > section.value_warmup_iterations:
            metrics |= self.calls.learn(
                unpack_inputs(calls["before"], calls["callers"], self.call_network.inputs),
                calls["legal"], calls["credit"], calls["game"], 2 * section.boards, learn_rng,
            )  # fmt: skip
            check_loss(metrics["gain"], where)
        return metrics

    def _draw_opponents(self, count: int, rng: Generator) -> list[Side]:
        """Draw an opponent for each of `count` shards of boards: a past self or another bidder."""
        members, past = self.past.members(), self.job.play.past_selves
        return [
            self.others[k - past] if k >= past
            else self._side("past", calls={n: v[k] for n, v in members.items()})
            for k in rng.integers(past + len(self.others), size=count)
        ]  # fmt: skip

    def _side(
        self, name: str, values: BiddingNetwork | None = None, calls: Weights | None = None
    ) -> Side:
        """Return a partnership that bids with a policy network.

        - `name`: name of the partnership in results.
        - `values`: value network of the partnership, if any.
        - `calls`: weights of the policy network; None: the learner's current weights.
        """
        network = self.call_network._replace(weights=self.calls.theta if calls is None else calls)
        return Side(name, loader.load(self.job.system), network, values)

    def evaluate(self) -> Metrics:
        """Compute the mean IMPs per board against each opponent, and metric `true_calls`.

        The bidder makes the most likely call of its policy network. `true_calls` is the share of
        its calls whose meaning in the bidding system fits the hand (see `truthful_share`).
        """
        deals = pretrained.evaluation_boards(self.job, self.test_deals, self.job.evaluate.boards)
        side = self._side("calls")
        metrics = {"true_calls": pretrained.truthful_share(side, deals, self.pool)}
        for other in _opponents(self.job):
            row = pretrained.match_row(side, other, deals, self.pool)
            name = IMPS_METRIC if other.name == PRETRAINED else f"{IMPS_METRIC}_{other.name}"
            metrics |= pretrained.imps_metrics(row, name)
        return metrics

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        return pretrained.learning_curve(history, "boards")

    def model(self) -> dict[str, Array]:
        """Return the weights of the policy network and of the value network, by name.

        The prefix of a weight's name is one of these:

        - `calls`: policy network.
        - `imps`: value network, if `play.final_policy` is "values". The policy network of the final
          model selects candidate calls, and the model bids the candidate of highest value.
        - `baseline`: value network, if `play.final_policy` is "calls". The final model bids without
          this network.
        """
        values = prefixed(VALUE_OUTPUT[self.job.play.final_policy], self.values.values().weights)
        return {**prefixed("calls", self.calls.theta), **values}

    @staticmethod
    def validate(job: SelfplayJob) -> None:
        """Raise UserError for invalid models, deals or opponents, or too long a warm-up."""
        if job.play.value_warmup_iterations >= job.stop.iterations:
            raise UserError(
                f"play.value_warmup_iterations is {job.play.value_warmup_iterations} and "
                f"stop.iterations {job.stop.iterations}: the policy network would not be trained"
            )
        pretrained.check_bidding_job(job, job.play.max_deals, unused_values=True)
        for name in job.play.opponents:
            load_side(name)

    @staticmethod
    def evaluate_model(
        job: SelfplayJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Play matches of stored bidders against all opponents; return one row for each match.

        The bidders are the stored policy network alone, the stored policy and value networks
        together, and the pretrained policy network. A row has the bidder and the opponent, the
        number of boards, and the mean and standard error of the IMPs per board. It also has the
        share of the bidder's calls, without passes, whose meaning fits the hand (`truthful_share`).
        `rng` is not used. Raises UserError if the weights do not fit the job.
        """
        system = loader.load(job.system)
        names = {"calls": "calls", "imps": VALUE_OUTPUT[job.play.final_policy]}
        own = stored_networks.networks_of_model(weights, names)
        calls, values = map(job.network.network, own.values())
        _, test_deals = pretrained.split_deals(job, job.play.max_deals)
        deals = pretrained.evaluation_boards(job, test_deals, job.evaluate.final_boards)
        before, *others = _opponents(job)
        alone, both = Side("calls", system, calls), Side("calls and values", system, calls, values)
        rows = []
        for side in (alone, both, before):
            true = pretrained.truthful_share(side, deals, pool)
            for other in others if side is before else (before, *others):
                row = pretrained.match_row(side, other, deals, pool)
                rows.append({"side": side.name, **row, "true_calls": true})
        return rows


def _concat_calls(parts: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """Concatenate the columns (D, ...) of calls of all shards.

    Column `game` is renumbered, so that games of different shards have different numbers.
    """
    return concat_columns(
        [{**calls, "game": calls["game"] + 2 * SHARD * k} for k, calls in enumerate(parts)]
    )


def _opponents(job: SelfplayJob) -> list[Side]:
    """Return the opponents of an evaluation: the pretrained policy network, then those of the job.

    The job names its opponents in section `evaluate`.
    """
    calls, _ = pretrained.load_networks(job, unused_values=True)
    before = Side(PRETRAINED, loader.load(job.system), calls)
    return pretrained.evaluation_opponents(job, before)


def _seated(seat: int, own: Policy, theirs: Policy) -> tuple[Policy, Policy]:
    """Return the policies of North-South and East-West, of which `own` is side `seat`."""
    return (own, theirs) if seat == 0 else (theirs, own)


def _play_boards(
    rng: Generator, common: tuple[Side, SelfPlayConfig], deals: Deals, other: Side
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Play boards (G, 74) at two tables against one opponent, and record the learner's calls.

    The learner sits North-South at the first table and East-West at the second. Returns two records
    of the D calls, each a dict of arrays (D, ...): the training data of PPO, and the training data
    of the value network for its replay buffer.

    - `common`: the learner and its settings. With reward "table", the results of the two tables are
      compared in IMPs. With reward "par", each result is compared with par in IMPs.
    - `deals`: the seat that holds each of the 52 cards, dealer, vulnerability and 20 tricks.
    - `other`: the opponent.
    """
    side, section = common
    assert side.calls is not None
    game = Auction("points" if section.reward == "table" else "imps", seats=2)
    tables = []
    for seat, child in enumerate(rng.spawn(2)):
        ns, ew = (side, other) if seat == 0 else (other, side)
        own = SamplingBidder(ns.system, ew.system, side.calls, side.imps)
        pair = own, other.policy(ns.system, ew.system)
        played = play(game, _seated(seat, *pair), deals, child, recorded=(seat,))
        tables.append((pair, played))
    payoffs = [played.payoff[:, seat] for seat, (_, played) in enumerate(tables)]

    def imps_won(own: Array, elsewhere: Array) -> Array:
        """Return the learner's IMPs, given its payoff and the one at the other table."""
        return imps((own + elsewhere).astype(np.int64)) if section.reward == "table" else own

    calls, rows = list[dict[str, Any]](), []
    for seat, ((own, theirs), played) in enumerate(tables):
        batch, elsewhere = played.batch, payoffs[1 - seat]
        result = imps_won(payoffs[seat], elsewhere)[batch.game]
        batch = replace(batch, reward=np.where(batch.last, result, 0.0))
        if section.gradient_estimator == "every_call":
            likely = own.call_probabilities(batch.observations())
            greedy = NetworkBidder(own.ns, own.ew, own.calls)
            found = results_of_calls(
                game, _seated(seat, greedy, theirs), deals, batch, candidate_calls(likely),
                rng.spawn(1)[0],
            )  # fmt: skip
            row, call = np.nonzero(np.isfinite(found))
            found[row, call] = imps_won(found[row, call], elsewhere[batch.game[row]])
            credit, squared = call_credit(found, likely)
        else:
            advantage = generalised_advantages(
                batch, own.value(batch.observations()), 1.0, section.gae_lambda
            )
            credit, squared = np.zeros((len(batch), len(CALLS))), advantage**2
            credit[np.arange(len(batch)), batch.action] = advantage
        features = features_from_observation.features_before_call(batch.observation, own.ns, own.ew)
        calls.append({
            "before": pack(features),
            "callers": callers_in_observations(batch.observation),
            "legal": batch.legal, "credit": credit, "squared": squared,
            "game": batch.game + seat * len(deals),
        })  # fmt: skip
        rows.append(replay_rows(batch, result, own.ns, own.ew))
    return concat_columns(calls), concat_columns(rows)
