"""A network that learns what belongs to a situation from rows of examples, one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor
from torch.nn.functional import cross_entropy

from overtrick.core import Array, RunError
from overtrick.learners.optimisers import Optimizer, OptimizerFactory
from overtrick.learners.weights import to_arrays
from overtrick.policies.forward_pass import Weights, forward

Disturb = Callable[[Tensor], Tensor] | None

OPTIMIZERS: dict[str, Callable[[float], OptimizerFactory]] = {
    "adam": lambda rate: partial(torch.optim.Adam, lr=rate, fused=True),
    "sgd": lambda rate: partial(torch.optim.SGD, lr=rate, momentum=0.9),
    "rmsprop": lambda rate: partial(torch.optim.RMSprop, lr=rate),
}


@dataclass(frozen=True)
class ClassifierConfig:
    """How a network looks inside and learns."""

    activation: str  # of policies.ACTIVATIONS
    optimizer: str  # of OPTIMIZERS
    rate: float
    half: bool  # products in bfloat16, sums and weights in float32
    device: str = "cpu"
    dropout: float = 0.0  # share of hidden units that each example does without as it is learnt


class Classifier:
    """Tells classes apart by cross-entropy.

    Some classes may be impossible in a row: those have probability 0.
    """

    def __init__(self, weights: Weights, plan: ClassifierConfig) -> None:
        self.plan = plan
        self.optimizer = Optimizer(weights, OPTIMIZERS[plan.optimizer](plan.rate), plan.device)
        self.noise = torch.Generator(plan.device)

    def seed(self, rng: Generator) -> None:
        """What is left out by chance from now on depends on this alone; no part of the state."""
        self.noise.manual_seed(int(rng.integers(2**63)))

    def learn(
        self, features: Array, possible: Array, label: Array, of: int | None = None
    ) -> Tensor:
        """One gradient step on features (R, F) float32, possible (R, A) bool and label, the
        classes (R,) or, if all are possible, their probabilities (R, A); the mean cross-entropy
        before it, in nats, on the device: to read it is to wait for it. of: the rows of which these
        are some; then their sum by so many."""
        assert label.ndim == 1 or possible.all()
        goal = label.astype(np.int64 if label.ndim == 1 else np.float32)
        disturb, rows = self._drop if self.plan.dropout else None, of or len(features)
        said = self._logits(features, possible, disturb)
        loss = cross_entropy(said, self._there(goal), reduction="sum") / rows
        self.optimizer.descend(loss)
        return loss.detach()

    def log_probs(self, features: Array, possible: Array) -> Array:
        """(R, A) float32 logarithms of the classes' probabilities, -inf where impossible."""
        with torch.inference_mode():
            found: Array = self._logits(features, possible).log_softmax(dim=-1).cpu().numpy()
        return found

    def _drop(self, hidden: Tensor) -> Tensor:
        """Dropout (Srivastava et al. 2014), inverted: what is kept grows."""
        kept = 1 - self.plan.dropout
        return hidden * torch.empty_like(hidden).bernoulli_(kept, generator=self.noise) / kept

    def _logits(self, features: Array, possible: Array, disturb: Disturb = None) -> Tensor:
        found = logits(self.optimizer.params, self._there(features), self.plan, disturb)
        return found.masked_fill(~self._there(possible), -torch.inf)

    def _there(self, values: Array) -> Tensor:
        return torch.from_numpy(values).to(self.plan.device, non_blocking=True)

    def check(self, where: str) -> None:
        """Raise RunError, saying where, if a weight is no number."""
        for value in self.optimizer.params.values():
            check_loss(float(value.detach().sum()), where)

    def weights(self) -> Weights:
        return to_arrays(self.optimizer.params)

    def state(self) -> dict[str, Array]:
        return self.optimizer.state()

    def load(self, state: Mapping[str, Array]) -> None:
        self.optimizer.load(state)


def logits(
    params: Mapping[str, Tensor], features: Tensor, plan: ClassifierConfig, disturb: Disturb = None
) -> Tensor:
    """(R, A) float32 what a network says of features (R, F)."""
    with torch.autocast(features.device.type, torch.bfloat16, enabled=plan.half):
        return forward(params, features, plan.activation, disturb).float()


def check_loss(loss: float, where: str) -> float:
    """The same. Raises RunError, saying where, if it is no number."""
    if not np.isfinite(loss):
        raise RunError(
            f"the loss is {loss} {where}: the weights of the last checkpoint stand; "
            "try a smaller rate"
        )
    return loss
