"""Critic: a network that predicts returns and serves as a baseline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.optimisers import Adam
from overtrick.learners.weights import to_arrays
from overtrick.policies.forward_pass import Weights, forward, tensors


class Critic:
    """State-value network that predicts the discounted return from a decision onwards.

    It is trained by Adam on the squared error.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], rng: Generator, rate: float) -> None:
        self.adam = Adam(initial_weights([inputs, *hidden, 1], rng, head=0.1), rate)

    @property
    def weights(self) -> Weights:
        """The network's current weights."""
        return to_arrays(self.adam.params)

    def fit(self, features: Array, returns: Array, rng: Generator, epochs: int = 2) -> float:
        """Train the network to predict the returns (D,) of D decisions from their features (D, F).

        Returns the mean squared error of the last epoch.
        """
        x, y = torch.as_tensor(features), torch.as_tensor(returns.astype(np.float32))
        loss = 0.0
        for _ in range(epochs):
            order = torch.as_tensor(rng.permutation(len(y)))
            total = 0.0
            for rows in torch.split(order, 512):
                error = (forward(self.adam.params, x[rows])[:, 0] - y[rows]).square()
                self.adam.minimise(error.mean())
                total += float(error.detach().sum())
            loss = total / max(len(y), 1)
        return loss


def predict(weights: Weights, features: Array) -> Array:
    """Predict the returns (D,) of D decisions from their features (D, F), by a critic's weights."""
    with torch.inference_mode():
        return forward(tensors(weights), torch.as_tensor(features))[:, 0].double().numpy(force=True)
