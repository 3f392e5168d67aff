"""Classifier network, trained by one gradient step for each batch of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.learners.divergence import check_loss
from overtrick.learners.optimisers import Optimizer, OptimizerFactory
from overtrick.learners.weights import to_arrays
from overtrick.policies.forward_pass import Weights, forward

if TYPE_CHECKING:
    from torch import Tensor

HiddenTransform = Callable[["Tensor"], "Tensor"] | None

OPTIMIZERS: dict[str, Callable[[float], OptimizerFactory]] = {
    "adam": lambda learning_rate: partial(torch.optim.Adam, lr=learning_rate, fused=True),
    "sgd": lambda learning_rate: partial(torch.optim.SGD, lr=learning_rate, momentum=0.9),
    "rmsprop": lambda learning_rate: partial(torch.optim.RMSprop, lr=learning_rate),
}


@dataclass(frozen=True)
class ClassifierConfig:
    """Architecture options and optimiser of a classifier."""

    activation: str  # one of forward_pass.ACTIVATIONS
    optimizer: str  # a key of OPTIMIZERS
    learning_rate: float
    bfloat16: bool  # matrix products in bfloat16; sums and weights in float32
    dropout: float = 0.0  # probability with which a hidden unit is dropped in training


class Classifier:
    """Classifier network trained by cross-entropy.

    In its methods the mask `possible` (R, A) marks the possible classes of each of R examples; all
    others have probability 0.
    """

    def __init__(self, weights: Weights, config: ClassifierConfig) -> None:
        self.config = config
        self.optimizer = Optimizer(weights, OPTIMIZERS[config.optimizer](config.learning_rate))
        self.noise = torch.Generator(torch.get_default_device())

    def seed(self, rng: Generator) -> None:
        """Seed the dropout noise of later steps; `state` does not save the seed."""
        self.noise.manual_seed(int(rng.integers(2**63)))

    def learn(
        self, features: Array | Tensor, possible: Array, label: Array, total_rows: int | None = None
    ) -> Tensor:
        """Take one gradient step; return the mean cross-entropy before the step, in nats.

        `features` are (R, F) float32 and `possible` is (R, A) bool. `label` has the classes (R,)
        or, if all classes are possible, their probabilities (R, A). The sum of the rows' losses is
        divided by `total_rows`, by default R. In data-parallel training `total_rows` is the size of
        the whole batch. The returned loss stays on the device, so that the step does not wait for
        it.
        """
        assert label.ndim == 1 or possible.all()
        target = label.astype(np.int64 if label.ndim == 1 else np.float32)
        transform, rows = self._drop if self.config.dropout else None, total_rows or len(features)
        outputs = self._logits(features, possible, transform)
        total = torch.nn.functional.cross_entropy(outputs, torch.as_tensor(target), reduction="sum")
        loss = total / rows
        self.optimizer.minimise(loss)
        return loss.detach()

    def log_probs(self, features: Array | Tensor, possible: Array) -> Array:
        """Return (R, A) float32 log-probabilities of the classes, -inf where impossible."""
        with torch.inference_mode():
            scores: Array = self._logits(features, possible).log_softmax(dim=-1).numpy(force=True)
        return scores

    def _drop(self, hidden: Tensor) -> Tensor:
        """Apply inverted dropout (Srivastava et al. 2014) to the activations of a hidden layer."""
        keep_probability = 1 - self.config.dropout
        kept = torch.empty_like(hidden).bernoulli_(keep_probability, generator=self.noise)
        return hidden * kept / keep_probability

    def _logits(
        self, features: Array | Tensor, possible: Array, transform: HiddenTransform = None
    ) -> Tensor:
        scores = logits(self.optimizer.params, torch.as_tensor(features), self.config, transform)
        return scores.masked_fill(~torch.as_tensor(possible), -torch.inf)

    def check_weights(self, where: str) -> None:
        """Raise RunError if the sum of a weight array is not finite; the message names the loss.

        `where`: time of the step, for the error message, such as "in iteration 3".
        """
        for value in self.optimizer.params.values():
            check_loss(float(value.detach().sum()), where)

    def weights(self) -> Weights:
        """Return the current weights."""
        return to_arrays(self.optimizer.params)

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint: weights and optimiser."""
        return self.optimizer.state()

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore weights and optimiser from a result of `state()`."""
        self.optimizer.load(state)


def logits(
    params: Mapping[str, Tensor],
    features: Tensor,
    config: ClassifierConfig,
    transform: HiddenTransform = None,
) -> Tensor:
    """Compute the outputs (R, A) float32 of a network for `features` (R, F).

    `transform`: function applied to each hidden layer's activations, such as dropout.
    """
    with torch.autocast(features.device.type, torch.bfloat16, enabled=config.bfloat16):
        return forward(params, features, config.activation, transform).float()
