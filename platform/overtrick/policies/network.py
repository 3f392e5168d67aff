"""Policy of one multilayer perceptron on a game's features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overtrick.core import Array, Observations
from overtrick.core.lazy_modules import torch
from overtrick.policies.batched_networks import BatchedNetworks
from overtrick.policies.forward_pass import LOG_STD, Weights, forward, masked_log_softmax, tensors
from overtrick.policies.memoryless import MemorylessPolicy


class NetworkPolicy(MemorylessPolicy):
    """Softmax policy over the legal actions, from a multilayer perceptron on features (R, F)."""

    def __init__(self, features: Callable[[Observations], Array], weights: Weights) -> None:
        self.features = features
        self.weights = weights

    def probs(self, observations: Observations) -> Array:
        """Return the softmax of the network outputs over the legal actions, (R, A) float64."""
        with torch.inference_mode():
            logits = forward(tensors(self.weights), torch.as_tensor(self.features(observations)))
            logp = masked_log_softmax(logits, torch.as_tensor(observations.legal))
        return logp.double().exp().numpy(force=True)


def network_policy(features: Callable[[Observations], Array], weights: Weights) -> Any:
    """Return the policy of a network: softmax for discrete, Gaussian for continuous actions.

    `features`: function from observations to network inputs. The policy is Gaussian if `weights`
    contains LOG_STD, the log standard deviations.
    """
    if LOG_STD in weights:
        return BatchedNetworks(features, {name: value[None] for name, value in weights.items()})
    return NetworkPolicy(features, weights)
