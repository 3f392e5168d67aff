"""Behaviour cloning: train a network to predict recorded decisions, by cross-entropy.

| here | the usual implementation |
|---|---|
| M networks train in parallel, each on its own decisions | one network |
| training and validation decisions share their network inputs | validation inputs are unseen |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.learners.optimisers import Adam
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Demonstrations:
    """Decisions to imitate: action counts for each of R distinct inputs.

    For M networks each array has a leading axis M.
    """

    features: Array  # (R, F) float32
    legal: Array  # (R, A) bool, in each row at least one
    taken: Array  # (R, A) count or probability of each action; 0 if illegal


@dataclass(frozen=True)
class CloningConfig:
    """Length of training and batch size of behaviour cloning."""

    epochs: int  # largest number of passes over the demonstrations
    batch: int = 512  # rows of the demonstrations per gradient step
    patience: int = 10  # epochs without lower held-out cross-entropy before training ends


def clone_behaviour(
    adam: Adam,
    demonstrations: Demonstrations,
    config: CloningConfig,
    rng: Generator,
    held_out: Array | None = None,
) -> tuple[Weights, Array]:
    """Train networks on demonstrations; return their weights and mean cross-entropy in nats.

    `adam` holds the initial weights of one network, or of M networks that each learn from their own
    demonstrations. Adam's moments are kept between calls. The cross-entropy per decision is () for
    one network and (M,) for M.

    `held_out` (shaped like `demonstrations.taken`): validation split of the decisions, as action
    counts at the inputs `demonstrations.features`. `demonstrations.taken` counts only the training
    split. With `held_out`, training stops early. The result for each network is then from its epoch
    with the lowest validation cross-entropy: the weights and this cross-entropy.
    """
    features = torch.as_tensor(demonstrations.features)
    legal = torch.as_tensor(demonstrations.legal)
    taken = torch.as_tensor(demonstrations.taken.astype(np.float32))
    validation = None if held_out is None else torch.as_tensor(held_out.astype(np.float32))

    def loss_on(counts: Tensor) -> Tensor:
        with torch.no_grad():
            return cross_entropy(adam.params, features, legal, counts)

    if validation is None:
        for _ in range(config.epochs):
            _epoch(adam, features, legal, taken, config.batch, rng)
        return to_arrays(adam.params), loss_on(taken).numpy(force=True)
    best, best_weights, waited = loss_on(validation), to_arrays(adam.params), 0
    for _ in range(config.epochs):
        _epoch(adam, features, legal, taken, config.batch, rng)
        loss = loss_on(validation)
        improved = (loss < best).numpy(force=True)
        for name, value in to_arrays(adam.params).items():
            best_weights[name][improved] = value[improved]
        best = torch.minimum(best, loss)
        waited = 0 if improved.any() else waited + 1
        if waited == config.patience:
            break
    return best_weights, best.numpy(force=True)


def cross_entropy(params: Params, features: Tensor, legal: Tensor, taken: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the taken actions: () or, for M networks, (M,).

    The unit is nats per decision. The arrays are as in Demonstrations. If all counts in `taken` are
    0, the cross-entropy is 0.
    """
    logp = masked_log_softmax(forward(params, features), legal)
    log_likelihood = torch.where(legal, taken * logp.clamp(min=-100), 0.0).sum(dim=(-2, -1))
    return -log_likelihood / taken.sum(dim=(-2, -1)).clamp(min=1e-9)


def _epoch(
    adam: Adam, features: Tensor, legal: Tensor, taken: Tensor, batch: int, rng: Generator
) -> None:
    """Train networks for one epoch on demonstrations, in random minibatches of `batch` rows.

    M networks share the order of the rows.
    """
    count = features.shape[-2]
    order = torch.as_tensor(rng.permutation(count)) if batch < count else torch.arange(count)
    for indices in torch.split(order, batch):
        batch_rows = (x.index_select(-2, indices) for x in (features, legal, taken))
        adam.minimise(cross_entropy(adam.params, *batch_rows).sum())
