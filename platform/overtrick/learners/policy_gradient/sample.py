"""What a policy gradient needs: decisions of many tasks, padded, with what their actions deserve.

Two kinds: single actions with a probability each, and moves, real vectors that are drawn around a
mean. Whatever improves policies asks them the same four questions (`PolicyGradientSample`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from overtrick.core import Array, Trajectories
from overtrick.learners.weights import Params
from overtrick.policies.forward_pass import (
    LOG_STD,
    Weights,
    forward,
    masked_log_softmax,
    pad,
    pad_slots,
    tensors,
)


@dataclass(frozen=True)
class DiscreteSample:
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


@dataclass(frozen=True)
class ContinuousSample:
    """Moves of M tasks, each A numbers that were drawn around a mean, and what they deserve.

    weight is 1 / games, credit weight x advantage. Padding has weight and credit 0.
    """

    features: Array  # (M, R, F) float32
    action: Array  # (M, R, A) float32
    mean: Array  # (M, R, A) float32 of the policy that played
    log_std: Array  # (M, R, A) float32 logarithms of its standard deviations
    credit: Array  # (M, R) float32 points
    weight: Array  # (M, R) float32


def padded_sample(
    features: Array,
    legal: Array,
    logp: Array,
    credit: Array,
    weight: Array,
    member: Array,
    members: int,
) -> DiscreteSample:
    """Rows (D, ...) that belong to members (D,) as one padded sample of M tasks."""
    slot = pad_slots(member, members)

    def place(rows: Array) -> Array:
        return pad(rows, member, slot, members)

    rows_legal = place(legal)
    rows_legal[~rows_legal.any(axis=-1)] = True  # padding must have a softmax too
    return DiscreteSample(
        place(features),
        rows_legal,
        place(logp.astype(np.float32)),
        place(credit.astype(np.float32)),
        place(weight.astype(np.float32)),
    )


def discrete_sample(
    batch: Trajectories,
    features: Array,
    logp: Array,
    advantage: Array,
    games: float,
    member: Array,
    members: int,
    merge: bool = False,
) -> DiscreteSample:
    """The decisions of M members who played so many games each; logp (D, A) is their policy's.

    With merge, a member's decisions at one information set become one row with the sum of their
    credit and weight: the same for whatever is linear in credit, and several times smaller.
    """
    assert batch.legal is not None
    credit = np.zeros(batch.legal.shape)
    credit[np.arange(len(batch)), batch.action] = advantage / games
    weight = np.full(len(batch), 1 / games)
    if not merge or batch.infoset is None:
        return padded_sample(features, batch.legal, logp, credit, weight, member, members)
    key = member * (int(batch.infoset.max()) + 1) + batch.infoset
    _, first = np.unique(key, return_index=True)
    row = np.searchsorted(key[first], key)
    together = np.zeros((len(first), batch.legal.shape[1]))
    np.add.at(together, row, credit)
    return padded_sample(
        features[first],
        batch.legal[first],
        logp[first],
        together,
        np.bincount(row, weight),
        member[first],
        members,
    )


def continuous_sample(
    batch: Trajectories,
    features: Array,
    mean: Array,
    log_std: Array,
    advantage: Array,
    games: float,
    member: Array,
    members: int,
) -> ContinuousSample:
    """The same of moves that were drawn around a mean (D, A) with log_std (M, A)."""
    slot = pad_slots(member, members)
    share = np.full(len(batch), np.float32(1 / games))
    columns = (features, batch.action, mean, advantage / games, share)
    placed = (pad(each.astype(np.float32), member, slot, members) for each in columns)
    at, action, centre, credit, weight = placed
    return ContinuousSample(at, action, centre, log_std[:, None] + 0 * centre, credit, weight)


def rollout_sample(
    params: Weights,
    batch: Trajectories,
    features: Array,
    advantage: Array,
    games: float,
    member: Array,
    merge: bool = False,
) -> DiscreteSample | ContinuousSample:
    """What M policies (weights with M in front) did in so many games each, as they saw it.

    features (D, F), advantage and member (D,) belong to the batch's decisions; merge is that of
    `of_games`, and nothing to moves.
    """
    members = len(params["w0"])
    slot = pad_slots(member, members)
    with torch.inference_mode():
        stacked = torch.from_numpy(pad(features, member, slot, members))
        out = forward(tensors(params), stacked)[member, slot]
        if batch.legal is None:
            around = (out.numpy(), params[LOG_STD])
            return continuous_sample(batch, features, *around, advantage, games, member, members)
        logp = masked_log_softmax(out, torch.from_numpy(batch.legal)).numpy()
    return discrete_sample(batch, features, logp, advantage, games, member, members, merge)


SampleT = TypeVar("SampleT", DiscreteSample, ContinuousSample)


def join_samples(samples: list[SampleT]) -> SampleT:
    """The tasks of several samples as one, padded to the longest of all."""
    longest = max(s.weight.shape[1] for s in samples)

    def widen(name: str) -> Array:
        parts = []
        for sample in samples:
            array = getattr(sample, name)
            gap = [(0, 0), (0, longest - array.shape[1])] + [(0, 0)] * (array.ndim - 2)
            parts.append(np.pad(array, gap, constant_values=name == "legal"))
        return np.concatenate(parts)

    kind = type(samples[0])
    return kind(*(widen(name) for name in kind.__dataclass_fields__))


class PolicyGradientSample(Protocol):
    """A sample as torch tensors: how other weights would have played what was played.

    An output is what a network says of a policy on the sample's rows, with (M, R) in front.
    """

    @property
    def credit(self) -> Tensor: ...
    @property
    def weight(self) -> Tensor: ...
    def output(self, params: Params) -> Tensor: ...
    def ratio(self, output: Tensor) -> Tensor:
        """Its probability of what was done over the one that it had, shaped like credit.

        No more than e^20, so that an action of almost no probability and no credit does not make
        a NaN.
        """

    def divergence(self, output: Tensor) -> Tensor:
        """(M, R) its KL divergence from the policy that played, nats."""

    def entropy(self, output: Tensor) -> Tensor:
        """(M, R) nats."""

    def every(self, nth: int, first: int = 0) -> PolicyGradientSample:
        """The sample of every n-th task from a first one on."""


@dataclass(frozen=True)
class DiscreteTensors:
    """A Sample; its output are log-probabilities (M, R, A)."""

    features: Tensor
    legal: Tensor
    logp: Tensor
    credit: Tensor
    weight: Tensor

    def output(self, params: Params) -> Tensor:
        return masked_log_softmax(forward(params, self.features), self.legal)

    def ratio(self, output: Tensor) -> Tensor:
        """(M, R, A), 1 where illegal."""
        return torch.where(self.legal, output - self.logp, 0.0).clamp(max=20).exp()

    def divergence(self, output: Tensor) -> Tensor:
        gap = torch.where(self.legal, self.logp - output, 0.0)
        return (self.logp.exp() * gap).sum(dim=-1)

    def entropy(self, output: Tensor) -> Tensor:
        told = torch.where(self.legal, output.exp() * output.clamp(min=-60), 0.0)
        return -told.sum(dim=-1)

    def every(self, nth: int, first: int = 0) -> DiscreteTensors:
        return _every(self, nth, first)


@dataclass(frozen=True)
class ContinuousTensors:
    """Moves; their output are means and logarithms of standard deviations (M, R, 2A)."""

    features: Tensor
    action: Tensor
    mean: Tensor
    log_std: Tensor
    credit: Tensor
    weight: Tensor

    def output(self, params: Params) -> Tensor:
        mean = forward(params, self.features)
        return torch.cat([mean, params[LOG_STD].unsqueeze(-2).expand_as(mean)], dim=-1)

    def ratio(self, output: Tensor) -> Tensor:
        """(M, R)."""
        before = self._density(self.mean, self.log_std)
        return (self._density(*output.chunk(2, dim=-1)) - before).clamp(max=20).exp()

    def divergence(self, output: Tensor) -> Tensor:
        mean, log_std = output.chunk(2, dim=-1)
        spread = (2 * (self.log_std - log_std)).exp()
        off = (self.mean - mean).square() * (-2 * log_std).exp()
        return (log_std - self.log_std + (spread + off - 1) / 2).sum(dim=-1)

    def entropy(self, output: Tensor) -> Tensor:
        _, log_std = output.chunk(2, dim=-1)
        return (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum(dim=-1)

    def every(self, nth: int, first: int = 0) -> ContinuousTensors:
        return _every(self, nth, first)

    def _density(self, mean: Tensor, log_std: Tensor) -> Tensor:
        """(M, R) log-density of what was done, but for a constant."""
        off = (self.action - mean) * (-log_std).exp()
        return -(off.square() / 2 + log_std).sum(dim=-1)


EvidenceT = TypeVar("EvidenceT", DiscreteTensors, ContinuousTensors)


def _every(sample: EvidenceT, nth: int, first: int) -> EvidenceT:
    kind = type(sample)
    return kind(*(getattr(sample, name)[first::nth] for name in kind.__dataclass_fields__))


def sample_tensors(sample: DiscreteSample | ContinuousSample) -> PolicyGradientSample:
    """The sample as tensors."""
    kind = DiscreteTensors if isinstance(sample, DiscreteSample) else ContinuousTensors
    return kind(*(torch.from_numpy(getattr(sample, name)) for name in kind.__dataclass_fields__))
