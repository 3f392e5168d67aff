"""A network of values learns from what calls brought, as far as they are remembered (Zhang et al.
2022, Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, Section
from overtrick.core import Array, Trajectories
from overtrick.games.bridge.auction import (
    features_from_observation,
    network_bidder,
    packed_features,
)
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork
from overtrick.games.bridge.system.loader import System
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.supervised.classifier import Classifier, check_loss
from overtrick.learners.value_based.replay_buffer import RingBuffer
from overtrick.training.bidding.supervised import NetworkTraining


class ValueReplayConfig(Section):
    """What is remembered of play, and what is learnt from it."""

    replay_capacity: Count = Field(default=400_000, description="newest calls that are remembered")
    gradient_steps: Count = Field(default=40, description="gradient steps an iteration")
    target: Literal["outcome", "next"] = Field(
        default="outcome",
        description="what a call was worth: what came of it in the end, or what the network says "
        "of its side's next call",
    )
    target_update_interval: Count = Field(
        default=500, description="gradient steps after which the network of targets is renewed"
    )


class ValueLearner:
    """The network of values, and the calls that it learns from.

    Remembered rows: `after` and `situation`, what it sees once the call is made; `imps`, what came
    of it; `last`, was it the last of its side.
    """

    def __init__(
        self,
        first: BiddingNetwork,
        network: NetworkTraining,
        plan: ValueReplayConfig,
        iterations: int,
    ) -> None:
        self.network = network
        self.plan = plan
        self.steps = plan.gradient_steps * iterations  # in all
        self.learnt = 0  # gradient steps
        self.auction = first.sees_auction
        self.learner = Classifier(first.weights, network.plan("cpu"))
        self.goals = Classifier(first.weights, network.plan("cpu"))
        self.memory = RingBuffer(plan.replay_capacity)

    def values(self) -> BiddingNetwork:
        """The network as it is now."""
        return BiddingNetwork(
            self.learner.weights(), self.network.activation, self.network.bfloat16
        )

    def learn(self, rng: Generator, where: str) -> float:
        """Gradient steps on what is remembered; the mean loss. Raises Failed, saying where, if it
        or a weight is no number."""
        self.learner.seed(rng)
        losses = []
        for _ in range(self.plan.gradient_steps):
            if self.learnt % self.plan.target_update_interval == 0:
                self.goals.load(self.learner.weights())
            places = self.memory.draw(self.network.batch_size, rng)
            rows = self.memory.at(places)
            features = self._features(rows)
            possible = np.ones((len(places), network_bidder.IMP_CLASSES), bool)
            self.learner.optimizer.set_learning_rate(self.network.pace(self.learnt, self.steps))
            losses.append(self.learner.learn(features, possible, self.goal(places, rows)))
            self.learnt += 1
        loss = check_loss(float(torch.stack(losses).mean()), where)
        self.learner.check_weights(where)
        return loss

    def goal(self, places: Array, rows: Mapping[str, Array]) -> Array:
        """(R,) what came of each call, or (R, 49) how likely that is by its side's next call."""
        brought: Array = rows["imps"] + network_bidder.MAX_IMPS
        if self.plan.target == "outcome":
            return brought
        last = rows["last"]
        ahead = self.memory.at(np.where(last, places, (places + 1) % self.memory.capacity))
        possible = np.ones((len(places), network_bidder.IMP_CLASSES), bool)
        goal = np.exp(self.goals.log_probs(self._features(ahead), possible))
        goal[last] = np.arange(network_bidder.IMP_CLASSES) == brought[last, None]
        return goal

    def _features(self, rows: Mapping[str, Array]) -> Array:
        """(R, F) what the network sees of remembered calls."""
        return network_bidder.unpack_inputs(
            rows["after"], rows["situation"] if self.auction else None
        )

    def state(self) -> dict[str, Array]:
        return {
            **prefixed("learner", self.learner.state()),
            **prefixed("goals", self.goals.weights()),
            **prefixed("memory", self.memory.state()),
            "learnt": np.array(self.learnt),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.learner.load(unprefixed("learner", state))
        self.goals.load(unprefixed("goals", state))
        self.memory.load(unprefixed("memory", state))
        self.learnt = int(state["learnt"])


def replay_rows(batch: Trajectories, imps: Array, ns: System, ew: System) -> dict[str, Array]:
    """What there is to remember of calls (D,) that brought so many IMPs (D,)."""
    rows = np.arange(len(batch))
    after = features_from_observation.features_after_call(
        batch.observation, rows, batch.action, ns, ew
    )
    situation = network_bidder.situations_after(
        network_bidder.auction_situations(batch.observation), batch.action
    )
    return {
        "after": packed_features.pack(after),
        "situation": situation.astype(np.int8),
        "imps": imps.astype(np.int8),
        "last": batch.last,
    }
