"""Imitation: a network learns from decisions what somebody does, by cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array
from overtrick.learners.optimisers import Adam
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, forward, masked_log_softmax


@dataclass(frozen=True)
class Demonstrations:
    """Situations and what was done in them; for M networks at once each array has M in front."""

    features: Array  # (R, F) float32
    legal: Array  # (R, A) bool, in each row at least one
    taken: Array  # (R, A) how often each action was taken, or its probability; 0 if illegal


@dataclass(frozen=True)
class CloningConfig:
    """How long to learn."""

    epochs: int  # passes over the rows, at most
    batch: int = 512  # rows of a gradient step
    patience: int = 10  # passes without a better cross-entropy of what is held out, then it ends


def clone_behaviour(
    adam: Adam, rows: Demonstrations, plan: CloningConfig, rng: Generator, held: Array | None = None
) -> tuple[Weights, Array]:
    """Weights that do what was done, and their cross-entropy in nats a decision (M,) or ().

    adam holds the first weights, of one network or of M that learn each from its own rows, and
    goes on with its memory. held (like rows.taken): decisions in the same situations that are not
    learnt from; where given, each network is the one of the pass that foretold them best, so that
    none learns its rows by heart, and the cross-entropy is theirs.
    """
    features, legal = torch.from_numpy(rows.features), torch.from_numpy(rows.legal)
    taken = torch.from_numpy(rows.taken.astype(np.float32))
    kept_out = None if held is None else torch.from_numpy(held.astype(np.float32))

    def measured(counts: Tensor) -> Tensor:
        with torch.no_grad():
            return cross_entropy(adam.params, features, legal, counts)

    if kept_out is None:
        for _ in range(plan.epochs):
            _pass(adam, features, legal, taken, plan.batch, rng)
        return to_arrays(adam.params), measured(taken).numpy()
    best, kept, waited = measured(kept_out), to_arrays(adam.params), 0
    for _ in range(plan.epochs):
        _pass(adam, features, legal, taken, plan.batch, rng)
        now = measured(kept_out)
        better = (now < best).numpy()
        kept = {
            n: np.where(better.reshape(better.shape + (1,) * (v.ndim - better.ndim)), v, kept[n])
            for n, v in to_arrays(adam.params).items()
        }
        best = torch.minimum(best, now)
        waited = 0 if better.any() else waited + 1
        if waited == plan.patience:
            break
    return kept, best.numpy()


def cross_entropy(params: Params, features: Tensor, legal: Tensor, taken: Tensor) -> Tensor:
    """(M,) or () nats a decision: the mean of -log(probability) of what was taken; 0 of nothing.

    No less than the entropy of what is imitated, which is reached only by its own probabilities.
    """
    logp = masked_log_softmax(forward(params, features), legal)
    told = torch.where(legal, taken * logp.clamp(min=-100), 0.0).sum(dim=(-2, -1))
    return -told / taken.sum(dim=(-2, -1)).clamp(min=1e-9)


def _pass(
    adam: Adam, features: Tensor, legal: Tensor, taken: Tensor, batch: int, rng: Generator
) -> None:
    """Each row once, in random order; M networks share the order but nothing else."""
    count = features.shape[-2]
    order = torch.from_numpy(rng.permutation(count)) if batch < count else torch.arange(count)
    for part in torch.split(order, batch):
        some = (x.index_select(-2, part) for x in (features, legal, taken))
        adam.descend(cross_entropy(adam.params, *some).sum())
