"""Many networks of one shape that act in one forward pass."""

from __future__ import annotations

from collections.abc import Callable

import torch
from numpy.random import Generator

from overtrick.core import (
    Actions,
    Array,
    Observations,
    PolicySession,
)
from overtrick.policies.action_sampling import sample_actions, sample_gaussian_actions
from overtrick.policies.forward_pass import (
    LOG_STD,
    Weights,
    forward,
    masked_log_softmax,
    pad,
    pad_slots,
    tensors,
)


class BatchedNetworks:
    """A population of networks as one batch of weights, leading axis = member.

    Seated for G games, member m plays games m * G / M up to (m + 1) * G / M; G must be a
    multiple of M. One call of the network serves all members.
    """

    def __init__(self, features: Callable[[Observations], Array], weights: Weights) -> None:
        self.features = features
        self.weights = weights

    def start(self, games: int, rng: Generator) -> PolicySession:
        members = len(self.weights["w0"])
        if games % members:
            raise ValueError(f"{games} games cannot be shared evenly by {members} members")
        return _BatchedNetworksSession(self, games // members, rng)


class _BatchedNetworksSession:
    def __init__(self, crowd: BatchedNetworks, games_each: int, rng: Generator) -> None:
        self.crowd = crowd
        self.weights = tensors(crowd.weights)
        self.members = len(crowd.weights["w0"])
        self.games_each = games_each
        self.rng = rng

    def act(self, observations: Observations) -> Actions:
        member = observations.game // self.games_each
        slot = pad_slots(member, self.members)
        features = pad(self.crowd.features(observations), member, slot, self.members)
        with torch.inference_mode():
            out = forward(self.weights, torch.from_numpy(features))[member, slot]
            if observations.legal is None:
                return sample_gaussian_actions(
                    out.numpy(), self.weights[LOG_STD][member].numpy(), self.rng
                )
            logp = masked_log_softmax(out, torch.from_numpy(observations.legal))
        return sample_actions(logp.double().exp().numpy(), self.rng)
