"""Policies of many networks with equal layer sizes, evaluated in one batched forward pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, PolicySession
from overtrick.core.lazy_modules import torch
from overtrick.policies import forward_pass, recurrent_layer
from overtrick.policies.action_sampling import sample_actions, sample_gaussian_actions
from overtrick.policies.forward_pass import LOG_STD, Weights


class BatchedNetworks:
    """Policy of M networks of equal shape, each of which plays G / M of G games.

    The weights are arrays with leading axis M. Network m plays games m * G / M to (m + 1) * G / M -
    1. All networks are evaluated in one batched forward pass. `start` raises ValueError if G is not
    a multiple of M. `remembers`: True if the networks have a recurrent layer; its memory is 0 when
    a session starts.
    """

    def __init__(self, features: Callable[[Observations], Array], weights: Weights) -> None:
        self.features = features
        self.weights = weights
        self.remembers = recurrent_layer.has_memory(weights)

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of G games, G / M for each of the M networks."""
        members = len(self.weights["w0"])
        if games % members:
            raise ValueError(f"{games} games cannot be shared evenly by {members} members")
        member = np.repeat(np.arange(members), games // members)
        return BatchedNetworksSession(self.features, self.weights, member, rng)


class AssignedNetworks:
    """Policy of M networks of equal shape: network `member[g]` plays game g of a session.

    The weights are arrays with leading axis M, and `member` (G,) has a number from 0 to M - 1 for
    each game. All networks are evaluated in one batched forward pass.
    """

    def __init__(
        self, features: Callable[[Observations], Array], weights: Weights, member: Array
    ) -> None:
        self.features = features
        self.weights = weights
        self.member = member
        self.remembers = recurrent_layer.has_memory(weights)

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of G games. Raises ValueError if `member` does not have G entries."""
        if games != len(self.member):
            raise ValueError(f"{games} games, but networks are assigned to {len(self.member)}")
        used, member = np.unique(self.member, return_inverse=True)  # others need no forward pass
        weights = {name: value[used] for name, value in self.weights.items()}
        return BatchedNetworksSession(self.features, weights, member, rng)


class NetworkMixture:
    """Mixed policy of M networks of equal shape; one is drawn before a game and plays all of it.

    The weights are arrays with leading axis M, and `mixture` (M,) has the networks' probabilities.
    All networks are evaluated in one batched forward pass. The policy remembers the network of each
    game, so it has no action probabilities for single observations.
    """

    remembers = True

    def __init__(
        self, features: Callable[[Observations], Array], weights: Weights, mixture: Array
    ) -> None:
        likely = np.flatnonzero(mixture > 0)
        self.features = features
        self.weights = {name: value[likely] for name, value in weights.items()}
        self.mixture = mixture[likely] / mixture.sum()

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of G games: draw the network of each game."""
        member = rng.choice(len(self.mixture), games, p=self.mixture)
        return BatchedNetworksSession(self.features, self.weights, member, rng)


class BatchedNetworksSession:
    """Session in which network `member[g]` of a batch plays game g; `member` is (G,)."""

    def __init__(
        self,
        features: Callable[[Observations], Array],
        weights: Weights,
        member: Array,
        rng: Generator,
    ) -> None:
        self.features = features
        self.weights = forward_pass.tensors(weights)
        self.members = len(weights["w0"])
        self.member = member
        self.rng = rng
        self.memory: torch.Tensor | None = None  # (G, S, K) of each game and seat
        if size := recurrent_layer.memory_size(weights):
            self.memory = torch.zeros(len(member), 1, size)

    def act(self, observations: Observations) -> Actions:
        """Sample an action for each row of observations with one batched forward pass."""
        member = self.member[observations.game]
        slot = forward_pass.pad_slots(member, self.members)
        features = forward_pass.pad(self.features(observations), member, slot, self.members)
        with torch.inference_mode():
            x = torch.as_tensor(features)
            memory = self._advance_memory(x, observations, member, slot)
            out = forward_pass.forward(self.weights, x, memory=memory)[member, slot]
            if observations.legal is None:
                return sample_gaussian_actions(
                    out.numpy(force=True), self.weights[LOG_STD][member].numpy(force=True), self.rng
                )
            logp = forward_pass.masked_log_softmax(out, torch.as_tensor(observations.legal))
        return sample_actions(logp.double().exp().numpy(force=True), self.rng)

    def _advance_memory(
        self, x: torch.Tensor, observations: Observations, member: Array, slot: Array
    ) -> torch.Tensor | None:
        """Update the memory of each row's game and seat.

        Returns it padded like `x`, (M, longest, K), or None without a recurrent layer.
        """
        if self.memory is None:
            return None
        seats = 1 + int(observations.seat.max(initial=0))
        if (new := seats - self.memory.shape[1]) > 0:
            self.memory = torch.nn.functional.pad(self.memory, (0, 0, 0, new))
        memory = x.new_zeros(*x.shape[:-1], self.memory.shape[-1])
        memory[member, slot] = self.memory[observations.game, observations.seat]
        memory = recurrent_layer.next_memory(self.weights, x, memory)
        self.memory[observations.game, observations.seat] = memory[member, slot]
        return memory
