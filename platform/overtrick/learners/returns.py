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
    """Decisions of M tasks and what their actions deserve, padded to the longest task.

    Sampled games have a row a decision: weight 1 / games, credit weight x advantage at the action
    taken. Exact values have a row an information set: weight the probability that it comes,
    credit weight x probability x advantage at every action. Padding has weight and credit 0.
    """

    features: Array  # (M, R, F) float32
    legal: Array  # (M, R, A) bool; padding rows are all legal
    logp: Array  # (M, R, A) float32 log-probabilities of the policy that played; -inf if illegal
    credit: Array  # (M, R, A) float32 points
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


def less_others_mean(advantage: Array, infoset: Array, member: Array, games: float) -> Array:
    """(D,) advantages less what the member's other games brought at the same information set.

    The mean of the others, as if `games` more had brought 0: a second baseline, which learns from
    the sample itself what the first one does not know about this opponent. A game comes to an
    information set once, so its own return stays out of its baseline and no bias comes in
    (leave-one-out, as Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free").
    """
    _, row = np.unique(member * (int(infoset.max(initial=0)) + 1) + infoset, return_inverse=True)
    total, count = np.bincount(row, advantage), np.bincount(row)
    return advantage - (total[row] - advantage) / (count[row] - 1 + games)


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
    logp: Array,
    credit: Array,
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
        place(logp.astype(np.float32)),
        place(credit.astype(np.float32)),
        place(weight.astype(np.float32)),
    )


def of_games(
    batch: Batch,
    features: Array,
    logp: Array,
    advantage: Array,
    games: int,
    member: Array,
    members: int,
    merge: bool = False,
) -> Sample:
    """The decisions of M members who played so many games each; logp (D, A) is their policy's.

    With merge, a member's decisions at one information set become one row with the sum of their
    credit and weight: the same for whatever is linear in credit, and several times smaller.
    """
    assert batch.legal is not None
    credit = np.zeros(batch.legal.shape)
    credit[np.arange(len(batch)), batch.action] = advantage / games
    weight = np.full(len(batch), 1 / games)
    if not merge or batch.infoset is None:
        return padded(features, batch.legal, logp, credit, weight, member, members)
    key = member * (int(batch.infoset.max()) + 1) + batch.infoset
    _, first = np.unique(key, return_index=True)
    row = np.searchsorted(key[first], key)
    together = np.zeros((len(first), batch.legal.shape[1]))
    np.add.at(together, row, credit)
    return padded(
        features[first],
        batch.legal[first],
        logp[first],
        together,
        np.bincount(row, weight),
        member[first],
        members,
    )


def join(samples: list[Sample]) -> Sample:
    """The tasks of several samples as one, padded to the longest of all."""
    longest = max(s.weight.shape[1] for s in samples)

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
    logp: Tensor
    credit: Tensor
    weight: Tensor

    @classmethod
    def of(cls, sample: Sample) -> Tensors:
        fields = Sample.__dataclass_fields__
        return cls(*(torch.from_numpy(getattr(sample, name)) for name in fields))

    def every(self, nth: int) -> Tensors:
        """The sample of every n-th task, the first one included."""
        return Tensors(*(getattr(self, name)[::nth] for name in Sample.__dataclass_fields__))
