"""Value network of a bidder, trained from a replay buffer to predict the IMPs of calls.

Source: Zhang et al. 2022, Figure 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator

from overtrick.config.sections import Count, Section, UnusedKeys
from overtrick.core import Array, Trajectories
from overtrick.core.checkpoints import Checkpointed
from overtrick.core.lazy_modules import torch
from overtrick.games.bridge.auction import features_from_observation, network_bidder
from overtrick.games.bridge.auction.network_bidder import BiddingNetwork
from overtrick.games.bridge.auction.network_inputs import (
    callers_after,
    callers_in_observations,
    learner_inputs,
)
from overtrick.games.bridge.auction.packed_features import pack
from overtrick.games.bridge.system.loader import System
from overtrick.learners.divergence import check_loss
from overtrick.learners.supervised.classifier import Classifier
from overtrick.learners.value_based.replay_buffer import RingBuffer
from overtrick.training.bidding.supervised import NetworkTraining

if TYPE_CHECKING:
    from torch import Tensor


class ValueReplayConfig(Section):
    """Settings of the replay buffer of calls, and of the value network's training from it."""

    unused_keys = (UnusedKeys({"target": ("outcome",)}, ("target_update_interval",)),)

    replay_capacity: Count = 400_000
    """Capacity of the replay buffer, in calls."""

    gradient_steps: Count = 40
    """Gradient steps per iteration."""

    target: Literal["outcome", "next"] = "outcome"
    """Target of a call's value. outcome: the IMPs of the deal. next: the target network's
    distribution for the next call of the same side.
    """

    target_update_interval: Count = 500
    """Gradient steps between updates of the target network."""


class ValueLearner(Checkpointed):
    """Value network of a bidder, with its target network and replay buffer.

    `first`: the network before training. `iterations`: number of iterations of the run. The replay
    buffer has a row for each call, with these columns:

    - `after`: auction features (network inputs) after the call, packed into bits.
    - `callers`: seats that made, doubled and redoubled each bid, after the call.
    - `imps`: IMPs of the deal for the caller's side.
    - `last`: terminal flag: True for the last call of the caller's side in an auction.
    """

    saved = ("learnt",)

    def __init__(
        self,
        first: BiddingNetwork,
        network: NetworkTraining,
        section: ValueReplayConfig,
        iterations: int,
    ) -> None:
        self.network = network
        self.section = section
        self.steps = section.gradient_steps * iterations  # gradient steps of the whole run
        self.learnt = 0  # gradient steps so far
        self.inputs = first.inputs
        self.learner = Classifier(first.weights, network.classifier_config())
        self.target_network = Classifier(first.weights, network.classifier_config())
        self.memory = RingBuffer(section.replay_capacity)

    def values(self) -> BiddingNetwork:
        """Return the current value network."""
        return self.network.network(self.learner.weights())

    def learn(self, rng: Generator, where: str) -> float:
        """Take the gradient steps of an iteration; return the mean loss in nats.

        Raises RunError if the loss or a weight is not finite. `where`: part of the error message,
        such as "in iteration 3".
        """
        self.learner.seed(rng)
        losses = []
        for _ in range(self.section.gradient_steps):
            if self.learnt % self.section.target_update_interval == 0:
                self.target_network.load(self.learner.weights())
            places = self.memory.draw(self.network.batch_size, rng)
            rows = self.memory.at(places)
            features = self._features(rows)
            possible = np.ones((len(places), network_bidder.IMP_CLASSES), bool)
            self.learner.optimizer.set_learning_rate(
                self.network.learning_rate_at(self.learnt, self.steps)
            )
            losses.append(self.learner.learn(features, possible, self.targets(places, rows)))
            self.learnt += 1
        loss = check_loss(float(torch.stack(losses).mean()), where)
        self.learner.check_weights(where)
        return loss

    def targets(self, places: Array, rows: Mapping[str, Array]) -> Array:
        """Return the training targets of R calls in the replay buffer.

        The network predicts a distribution over 49 classes, one for each result from -24 to 24
        IMPs.

        - `section.target` "outcome": the targets (R,) are the classes of the deals' results.
        - `section.target` "next": the targets (R, 49) are distributions. They are the target
          network's predictions for the next call of the same side. For the last call of a side,
          the target is the one-hot class of the deal's result.

        `places` (R,): indices of the calls in the buffer. `rows`: the buffer's columns at these
        indices.
        """
        label: Array = rows["imps"] + network_bidder.MAX_IMPS
        if self.section.target == "outcome":
            return label
        last = rows["last"]
        following = self.memory.at(np.where(last, places, (places + 1) % self.memory.capacity))
        possible = np.ones((len(places), network_bidder.IMP_CLASSES), bool)
        target = np.exp(self.target_network.log_probs(self._features(following), possible))
        target[last] = np.arange(network_bidder.IMP_CLASSES) == label[last, None]
        return target

    def _features(self, rows: Mapping[str, Array]) -> Array | Tensor:
        """Return the network's inputs (R, F) for R rows of the replay buffer."""
        return learner_inputs(rows["after"], rows["callers"], self.inputs)

    def parts(self) -> Mapping[str, Any]:
        """Return value network, target network and replay buffer, by name in a checkpoint."""
        return {"learner": self.learner, "goals": self.target_network, "memory": self.memory}


def replay_rows(batch: Trajectories, imps: Array, ns: System, ew: System) -> dict[str, Array]:
    """Convert D calls to rows of the replay buffer, with the columns of `ValueLearner`.

    `batch`: the calls. `imps` (D,): IMPs of each call's deal for the caller's side. `ns`, `ew`: the
    bidding systems of both sides.
    """
    rows = np.arange(len(batch))
    after = features_from_observation.features_after_call(
        batch.observation, rows, batch.action, ns, ew
    )
    return {
        "after": pack(after),
        "callers": callers_after(callers_in_observations(batch.observation), batch.action),
        "imps": imps.astype(np.int8),
        "last": batch.last,
    }
