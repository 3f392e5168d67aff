"""Critic: a network that predicts returns and serves as a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.core.lazy_modules import torch
from overtrick.learners import normalisation
from overtrick.learners.divergence import check_loss
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.normalisation import RunningMoments
from overtrick.learners.optimisers import Adam
from overtrick.learners.weights import to_arrays
from overtrick.policies.forward_pass import Weights, forward, tensors

LEAST_RETURN_STD = 1e-3  # points; lower limit of the returns' standard deviation


class Critic:
    """State-value network that predicts the discounted return from a decision onwards.

    It is trained by Adam on the squared error. `rate`: Adam's learning rate. `normalise`: train on
    inputs and returns that are normalised by their running means and standard deviations.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        rng: Generator,
        rate: float,
        normalise: bool = False,
    ) -> None:
        self.adam = Adam(initial_weights([inputs, *hidden, 1], rng, head=0.1), rate)
        self.inputs = RunningMoments(inputs, normalisation.LEAST_STD) if normalise else None
        self.returns = RunningMoments(1, LEAST_RETURN_STD) if normalise else None

    @property
    def weights(self) -> Weights:
        """The network's current weights, for raw inputs and returns."""
        weights = to_arrays(self.adam.params)
        if self.inputs is not None and self.returns is not None:
            weights = normalisation.for_raw_inputs(weights, self.inputs)
            weights = normalisation.for_raw_outputs(weights, self.returns)
        return weights

    def fit(self, features: Array, returns: Array, rng: Generator, epochs: int = 2) -> float:
        """Train the network to predict the returns (D,) of D decisions from their features (D, F).

        Returns the mean squared error of the last epoch. Raises RunError if it is not finite.
        """
        if self.inputs is not None and self.returns is not None:
            return self._fit_normalised(self.inputs, self.returns, features, returns, rng, epochs)
        return self._fit(features, returns, rng, epochs)

    def _fit_normalised(
        self,
        inputs: RunningMoments,
        targets: RunningMoments,
        features: Array,
        returns: Array,
        rng: Generator,
        epochs: int,
    ) -> float:
        """Train on normalised features and returns, after adding them to the moments."""
        raw = self.weights
        inputs.add(features)
        targets.add(returns[:, None])
        weights = normalisation.for_normalised_outputs(raw, targets)
        weights = normalisation.for_normalised_inputs(weights, inputs)
        with torch.no_grad():
            for name, param in self.adam.params.items():
                param.copy_(torch.as_tensor(weights[name]))
        y = targets.normalised(returns[:, None])[:, 0]
        return self._fit(inputs.normalised(features), y, rng, epochs) * float(targets.std[0]) ** 2

    def _fit(self, features: Array, returns: Array, rng: Generator, epochs: int) -> float:
        x, y = torch.as_tensor(features), torch.as_tensor(returns.astype(np.float32))
        loss = 0.0
        for _ in range(epochs):
            order = torch.as_tensor(rng.permutation(len(y)))
            total = 0.0
            for rows in torch.split(order, 512):
                error = (forward(self.adam.params, x[rows])[:, 0] - y[rows]).square()
                self.adam.minimise(error.mean())
                total += float(error.detach().sum())
            loss = check_loss(total / max(len(y), 1), "in a fit of the critic")
        return loss

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint: weights, and moments of Adam, inputs and returns."""
        return {
            **self.adam.state(),
            **(prefixed("inputs", self.inputs.state()) if self.inputs else {}),
            **(prefixed("returns", self.returns.state()) if self.returns else {}),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the critic from a result of `state()`.

        Raises ValueError if only one of both critics normalises.
        """
        self.adam.load(state)
        for name, moments in (("inputs", self.inputs), ("returns", self.returns)):
            found = unprefixed(name, state)
            if bool(found) != (moments is not None):
                raise ValueError("one of the critics normalises its inputs, and the other does not")
            if moments is not None:
                moments.load(found)


def predict(weights: Weights, features: Array) -> Array:
    """Predict the returns (D,) of D decisions from their features (D, F), by a critic's weights."""
    with torch.inference_mode():
        return forward(tensors(weights), torch.as_tensor(features))[:, 0].double().numpy(force=True)
