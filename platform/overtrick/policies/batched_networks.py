"""Policies of many networks with equal layer sizes, evaluated in one batched forward pass."""

from __future__ import annotations

from collections.abc import Callable

from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, PolicySession
from overtrick.core.lazy_modules import torch
from overtrick.policies import forward_pass
from overtrick.policies.action_sampling import sample_actions, sample_gaussian_actions
from overtrick.policies.forward_pass import LOG_STD, Weights


class BatchedNetworks:
    """Policy of M networks of equal shape, each of which plays G / M of G games.

    The weights are arrays with leading axis M. Network m plays games m * G / M to (m + 1) * G / M -
    1. All networks are evaluated in one batched forward pass. `start` raises ValueError if G is not
    a multiple of M.
    """

    def __init__(self, features: Callable[[Observations], Array], weights: Weights) -> None:
        self.features = features
        self.weights = weights

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of G games, G / M for each of the M networks."""
        members = len(self.weights["w0"])
        if games % members:
            raise ValueError(f"{games} games cannot be shared evenly by {members} members")
        return _BatchedNetworksSession(self, games // members, rng)


class _BatchedNetworksSession:
    def __init__(self, policy: BatchedNetworks, games_each: int, rng: Generator) -> None:
        self.features = policy.features
        self.weights = forward_pass.tensors(policy.weights)
        self.members = len(policy.weights["w0"])
        self.games_each = games_each
        self.rng = rng

    def act(self, observations: Observations) -> Actions:
        """Sample an action for each row of observations with one batched forward pass."""
        member = observations.game // self.games_each
        slot = forward_pass.pad_slots(member, self.members)
        features = forward_pass.pad(self.features(observations), member, slot, self.members)
        with torch.inference_mode():
            out = forward_pass.forward(self.weights, torch.as_tensor(features))[member, slot]
            if observations.legal is None:
                return sample_gaussian_actions(
                    out.numpy(force=True), self.weights[LOG_STD][member].numpy(force=True), self.rng
                )
            logp = forward_pass.masked_log_softmax(out, torch.as_tensor(observations.legal))
        return sample_actions(logp.double().exp().numpy(force=True), self.rng)
