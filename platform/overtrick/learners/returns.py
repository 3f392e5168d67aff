"""From decisions to what a policy gradient needs: returns, advantages, padded samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from overtrick.core import Array, Batch
from overtrick.policies import pad, pad_slots


@dataclass(frozen=True)
class Sample:
    """Weighted decisions of M tasks, padded to the longest task with weight 0.

    Sampled games: weight 1 / games for each decision. Exact values: one row for each action of
    each information set, weighted by how often it comes.
    """

    features: Array  # (M, R, F) float32
    legal: Array  # (M, R, A) bool; padding rows are all legal
    action: Array  # (M, R) int64
    logp: Array  # (M, R, A) float32 log-probabilities of the policy that played; -inf if illegal
    advantage: Array  # (M, R) float32 points
    weight: Array  # (M, R) float32


def discounted(batch: Batch, gamma: float) -> Array:
    """(D,) discounted points from each decision to the end of its game, for its own seat."""
    return _backwards(batch.reward, np.zeros(len(batch)), batch.last, gamma, 1.0)


def advantages(batch: Batch, values: Array, gamma: float, lam: float) -> Array:
    """(D,) generalised advantage estimates (Schulman et al. 2016, eq. 16).

    values (D,) are a baseline's predictions. lam = 1 is the discounted return less the
    baseline; games end, so nothing is bootstrapped past the last decision.
    """
    return _backwards(batch.reward, values, batch.last, gamma, lam)


@njit(cache=True)
def _backwards(reward, values, last, gamma, lam):  # type: ignore[no-untyped-def]
    out = np.empty(len(reward))
    running = 0.0
    for d in range(len(reward) - 1, -1, -1):
        ahead = 0.0 if last[d] else values[d + 1]
        if last[d]:
            running = 0.0
        running = reward[d] + gamma * ahead - values[d] + gamma * lam * running
        out[d] = running
    return out


def padded(
    features: Array,
    legal: Array,
    action: Array,
    logp: Array,
    advantage: Array,
    weight: Array,
    member: Array,
    members: int,
) -> Sample:
    """Rows (D, ...) that belong to members (D,) as one padded sample of M tasks."""
    slot = pad_slots(member, members)

    def place(rows: Array) -> Array:
        return pad(rows, member, slot, members)

    rows_legal = place(legal)
    rows_legal[~rows_legal.any(axis=-1)] = True  # padding must have a softmax too
    return Sample(
        place(features),
        rows_legal,
        place(action.astype(np.int64)),
        place(logp.astype(np.float32)),
        place(advantage.astype(np.float32)),
        place(weight.astype(np.float32)),
    )


def join(samples: list[Sample]) -> Sample:
    """The tasks of several samples as one, padded to the longest of all."""
    longest = max(s.action.shape[1] for s in samples)

    def widen(name: str) -> Array:
        parts = []
        for sample in samples:
            array = getattr(sample, name)
            gap = [(0, 0), (0, longest - array.shape[1])] + [(0, 0)] * (array.ndim - 2)
            parts.append(np.pad(array, gap, constant_values=name == "legal"))
        return np.concatenate(parts)

    return Sample(*(widen(name) for name in Sample.__dataclass_fields__))


@dataclass(frozen=True)
class Tensors:
    """A sample as torch tensors."""

    features: Tensor
    legal: Tensor
    action: Tensor
    logp: Tensor
    advantage: Tensor
    weight: Tensor

    @classmethod
    def of(cls, sample: Sample) -> Tensors:
        fields = Sample.__dataclass_fields__
        return cls(*(torch.from_numpy(getattr(sample, name)) for name in fields))
