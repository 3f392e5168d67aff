"""Policies that are multilayer perceptrons over a game's features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from overtrick.core import (
    Array,
    Observations,
)
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import LOG_STD, Weights, forward, masked_log_softmax, tensors
from overtrick.policies.memoryless import MemorylessPolicy


class NetworkPolicy(MemorylessPolicy):
    """A multilayer perceptron over a game's features (R, F)."""

    def __init__(self, features: Callable[[Observations], Array], weights: Weights) -> None:
        self.features = features
        self.weights = weights

    def probs(self, observations: Observations) -> Array:
        with torch.inference_mode():
            logits = forward(tensors(self.weights), torch.from_numpy(self.features(observations)))
            return (
                masked_log_softmax(logits, torch.from_numpy(observations.legal))
                .double()
                .exp()
                .numpy()
            )


def network_policy(features: Callable[[Observations], Array], weights: Weights) -> Any:
    """The policy of one network: Mixed, unless it moves by real vectors."""
    if LOG_STD in weights:
        return BatchedNetworks(features, {name: value[None] for name, value in weights.items()})
    return NetworkPolicy(features, weights)
