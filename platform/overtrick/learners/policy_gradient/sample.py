"""Policy-gradient samples: batches of decisions for policy updates by TRPO, PPO or MAML.

The decisions are grouped by task. A task is one policy's games against its opponent, or one
minibatch of these games. The M tasks are padded to R rows each. Two columns define the objective:

- `credit`: coefficient of an action's importance ratio in the surrogate objective. For a sampled
  action it is `weight` x advantage.
- `weight` (M, R): weight of a row, such as 1 / games, in means of KL divergence and entropy.

A discrete sample has a log-probability for each action. A continuous sample has action vectors
drawn from normal distributions. Samples are numpy arrays, so that they can be sent between
processes. Optimisers use a sample as torch tensors, a `PolicyGradientSample`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from overtrick.core import Array, Trajectories
from overtrick.core.lazy_modules import torch
from overtrick.learners.policy_gradient import clipped_normal
from overtrick.learners.weights import Params
from overtrick.policies import forward_pass
from overtrick.policies.forward_pass import (
    LOG_STD,
    Weights,
    forward,
    forward_sequences,
    masked_log_softmax,
    pad,
)

if TYPE_CHECKING:
    from torch import Tensor

ArrayT = TypeVar("ArrayT", Array, "Tensor")


@dataclass(frozen=True)
class _DiscreteRows(Generic[ArrayT]):
    """Batch of decisions with discrete actions for a policy update, in numpy or torch."""

    features: ArrayT  # (M, R, F) float32
    legal: ArrayT  # (M, R, A) bool; padding rows are all legal
    logp: ArrayT  # (M, R, A) float32 log-probabilities of the behaviour policy; -inf if illegal
    credit: ArrayT  # (M, R, A) float32 coefficients of the importance ratios, in points
    weight: ArrayT  # (M, R) float32


@dataclass(frozen=True)
class _ContinuousRows(Generic[ArrayT]):
    """Batch of decisions with continuous actions for a policy update, in numpy or torch."""

    features: ArrayT  # (M, R, F) float32
    action: ArrayT  # (M, R, A) float32
    mean: ArrayT  # (M, R, A) float32, of the behaviour policy
    log_std: ArrayT  # (M, R, A) float32, of the behaviour policy
    credit: ArrayT  # (M, R) float32 coefficients of the importance ratios, in points
    weight: ArrayT  # (M, R) float32
    first: ArrayT  # (M, R) bool: the first decision of its game and seat; the others follow it


class DiscreteSample(_DiscreteRows[Array]):
    """Batch of decisions with discrete actions for a policy update, in numpy.

    A task is a group of decisions of one policy. The M tasks are padded to R rows each, and padding
    rows have `weight` and `credit` 0. The surrogate objective of a task is the sum of `credit` x
    importance ratio over its rows and actions.

    If the sample is built from sampled games, each row is a decision. Rows of decisions at the same
    information set may be merged by adding their weights and credits.

    - `weight`: 1 divided by the task's number of games.
    - `credit`: `weight` x advantage for the action taken, 0 for other actions.

    If the sample is built from exact action values, each row is an information set:

    - `weight`: reach probability of the information set.
    - `credit`: `weight` x action probability x advantage for every action.
    """


class ContinuousSample(_ContinuousRows[Array]):
    """Batch of decisions with continuous actions for a policy update, in numpy.

    A task is a group of decisions of one policy. The M tasks are padded to R rows each, and padding
    rows have `weight` and `credit` 0. The surrogate objective of a task is the sum of `credit` x
    importance ratio over its rows.

    - `weight`: 1 divided by the task's number of games.
    - `credit`: `weight` x advantage of the action taken.

    Rows of one game and seat are consecutive, in order of time.
    """


Sample = DiscreteSample | ContinuousSample


def padded_sample(
    features: Array,
    legal: Array,
    logp: Array,
    credit: Array,
    weight: Array,
    member: Array,
    members: int,
) -> DiscreteSample:
    """Group D decisions by task and pad each of the M tasks to the same number of rows.

    - `features` (D, F), `legal` (D, A), `logp` (D, A): network inputs, legal actions, and
      log-probabilities of the behaviour policy.
    - `credit` (D, A): coefficient of each action's importance ratio in the surrogate objective, as
      in DiscreteSample.
    - `weight` (D,): weight of each decision, such as 1 / games.
    - `member` (D,): index of each decision's task, 0 to M - 1.
    - `members`: number of tasks M.
    """
    slot = forward_pass.pad_slots(member, members)
    floats = (each.astype(np.float32) for each in (logp, credit, weight))
    columns = (pad(each, member, slot, members) for each in (features, legal, *floats))
    sample = DiscreteSample(*columns)
    sample.legal[~sample.legal.any(axis=-1)] = True  # a softmax of padding must be defined
    return sample


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
    """Build a policy-gradient training batch from games of M policies with discrete actions.

    - `batch`: the D decisions of all policies.
    - `features` (D, F): network inputs.
    - `logp` (D, A): log-probabilities of all actions under the behaviour policy.
    - `advantage` (D,): advantage of the action taken.
    - `games`: number of games of each policy.
    - `member` (D,): index of the policy that took each decision. `members`: M.
    - `merge`: aggregate all decisions of a policy at one information set into one row. This makes
      the batch several times smaller and leaves the policy gradient unchanged.
    """
    assert batch.legal is not None
    credit = np.zeros(batch.legal.shape)
    credit[np.arange(len(batch)), batch.action] = advantage / games
    weight = np.full(len(batch), 1 / games)
    rows: Array = np.arange(len(batch))
    if merge and batch.infoset is not None:
        key = member * (int(batch.infoset.max(initial=0)) + 1) + batch.infoset
        _, rows, row = np.unique(key, return_index=True, return_inverse=True)
        by_action = credit
        credit = np.zeros((len(rows), batch.legal.shape[1]))
        np.add.at(credit, row, by_action)
        weight = np.bincount(row, weight)
    return padded_sample(
        features[rows], batch.legal[rows], logp[rows], credit, weight, member[rows], members
    )


def rollout_sample(
    params: Weights,
    batch: Trajectories,
    features: Array,
    advantage: Array,
    games: float,
    member: Array,
    merge: bool = False,
) -> Sample:
    """Build a policy-gradient training batch from games of M policies, `games` games each.

    - `params`: the policies' weights, with leading axis M.
    - `batch`: the D decisions of all policies.
    - `features` (D, F): network inputs.
    - `advantage` (D,): advantage of the action taken.
    - `member` (D,): index of the policy that took each decision.
    - `merge`: aggregate all decisions of a policy at one information set into one row. Ignored for
      continuous actions.
    """
    members = len(params["w0"])
    slot = forward_pass.pad_slots(member, members)
    later = ~np.append(True, batch.last[:-1])[: len(batch)]  # not the first of a game and seat
    with torch.inference_mode():
        stacked = torch.as_tensor(pad(features, member, slot, members))
        weights = forward_pass.tensors(params)
        first = ~pad(later, member, slot, members)  # padding rows are sequences of their own
        out = forward_sequences(weights, stacked, torch.as_tensor(first))[member, slot]
        if batch.legal is not None:
            logp = masked_log_softmax(out, torch.as_tensor(batch.legal)).numpy(force=True)
            return discrete_sample(batch, features, logp, advantage, games, member, members, merge)
    weight = np.full(len(batch), np.float32(1 / games))
    log_std = params[LOG_STD][member]
    columns = (features, batch.action, out.numpy(force=True), log_std, advantage / games, weight)
    floats = (each.astype(np.float32) for each in columns)
    padded = (pad(each, member, slot, members) for each in floats)
    return ContinuousSample(*[*padded, first])


SampleT = TypeVar("SampleT", DiscreteSample, ContinuousSample)


def join_samples(samples: list[SampleT]) -> SampleT:
    """Concatenate the tasks of several samples, padded to the longest task of all samples."""
    longest = max(s.weight.shape[1] for s in samples)

    def widen(name: str) -> Array:
        parts = []
        for sample in samples:
            array = getattr(sample, name)
            gap = [(0, 0), (0, longest - array.shape[1])] + [(0, 0)] * (array.ndim - 2)
            parts.append(np.pad(array, gap, constant_values=name in ("legal", "first")))
        return np.concatenate(parts)

    return type(samples[0])(*(widen(column.name) for column in fields(samples[0])))


class PolicyGradientSample(ABC):
    """Batch of decisions for a policy update, in torch: M tasks, each padded to R rows.

    `output` computes the network output of updated policies on these rows. The other methods take
    this network output:

    - discrete actions: log-probabilities (M, R, A)
    - continuous actions: mean and log standard deviation (M, R, 2A)
    """

    credit: Tensor  # coefficients of the importance ratios: (M, R, A), or (M, R) if continuous
    weight: Tensor

    @abstractmethod
    def output(self, params: Params) -> Tensor:
        """Compute the network output on all rows, with weights `params` (M, ...) for M tasks."""

    @abstractmethod
    def ratio(self, output: Tensor) -> Tensor:
        """Compute importance ratios of the policy with this network output.

        The ratios are (M, R, A) for discrete actions, 1 at illegal actions. They are (M, R) for
        continuous actions. Ratios are clipped at e^20, because an infinite ratio times an advantage
        of 0 would be NaN.
        """

    @abstractmethod
    def divergence(self, output: Tensor) -> Tensor:
        """Compute KL(behaviour policy, policy with this output) of each row: (M, R) in nats."""

    @abstractmethod
    def entropy(self, output: Tensor) -> Tensor:
        """Compute the entropy of the policy with this output at each row: (M, R) in nats."""

    def every(self, nth: int, first: int = 0) -> Self:
        """Return the sample restricted to every `nth` task, starting at task `first`."""
        columns = fields(self)  # type: ignore[arg-type]  # its subclasses are dataclasses
        return type(self)(*(getattr(self, column.name)[first::nth] for column in columns))


class DiscreteTensors(_DiscreteRows["Tensor"], PolicyGradientSample):
    """Policy-gradient sample with discrete actions, as torch tensors."""

    def output(self, params: Params) -> Tensor:
        """Compute the action log-probabilities (M, R, A) by weights `params`; -inf if illegal."""
        return masked_log_softmax(forward(params, self.features), self.legal)

    def ratio(self, output: Tensor) -> Tensor:
        """Compute the importance ratio of each action, (M, R, A); 1 for illegal actions.

        `output` (M, R, A): log-probabilities of the current policy, as `output()` returns them.
        """
        return torch.where(self.legal, output - self.logp, 0.0).clamp(max=20).exp()

    def divergence(self, output: Tensor) -> Tensor:
        """Compute KL(behaviour policy, policy of `output`) of each row, exactly: (M, R) in nats."""
        gap = torch.where(self.legal, self.logp - output, 0.0)
        return (self.logp.exp() * gap).sum(dim=-1)

    def entropy(self, output: Tensor) -> Tensor:
        """Compute the policy's entropy over the legal actions at each row: (M, R) in nats."""
        terms = torch.where(self.legal, output.exp() * output.clamp(min=-60), 0.0)
        return -terms.sum(dim=-1)


class ContinuousTensors(_ContinuousRows["Tensor"], PolicyGradientSample):
    """Policy-gradient sample with continuous actions, as torch tensors."""

    def output(self, params: Params) -> Tensor:
        """Return mean and log standard deviation of each row's action, concatenated: (M, R, 2A)."""
        mean = forward_sequences(params, self.features, self.first)
        return torch.cat([mean, params[LOG_STD].unsqueeze(-2).expand_as(mean)], dim=-1)

    def ratio(self, output: Tensor) -> Tensor:
        """Compute the importance ratio of each sampled action, (M, R).

        `output` (M, R, 2A): mean and log standard deviation of the current policy, as `output()`
        returns them.
        """
        before = self._log_density(self.mean, self.log_std)
        return (self._log_density(*output.chunk(2, dim=-1)) - before).clamp(max=20).exp()

    def divergence(self, output: Tensor) -> Tensor:
        """Compute KL(behaviour policy, policy of `output`) of each row: (M, R) in nats."""
        mean, log_std = output.chunk(2, dim=-1)
        spread = (2 * (self.log_std - log_std)).exp()
        off = (self.mean - mean).square() * (-2 * log_std).exp()
        return (log_std - self.log_std + (spread + off - 1) / 2).sum(dim=-1)

    def entropy(self, output: Tensor) -> Tensor:
        """Compute the differential entropy of the action at each row: (M, R) in nats."""
        _, log_std = output.chunk(2, dim=-1)
        return (log_std + 0.5 * np.log(2 * np.pi * np.e)).sum(dim=-1)

    def _log_density(self, mean: Tensor, log_std: Tensor) -> Tensor:
        """Compute the normal log-density (M, R) of the sampled actions, up to a constant."""
        off = (self.action - mean) * (-log_std).exp()
        return -(off.square() / 2 + log_std).sum(dim=-1)


class ClippedActionTensors(ContinuousTensors):
    """Policy-gradient sample whose continuous actions the game clips, as torch tensors.

    Importance ratios and KL divergences are those of the clipped actions, see `clipped_normal`. The
    entropy is that of the normal distribution before clipping.
    """

    def divergence(self, output: Tensor) -> Tensor:
        """Compute KL(behaviour policy, policy of `output`) of each row: (M, R) in nats."""
        new = output.chunk(2, dim=-1)
        return clipped_normal.divergence(self.mean, self.log_std, *new).sum(dim=-1)

    def _log_density(self, mean: Tensor, log_std: Tensor) -> Tensor:
        """Compute the log-likelihood (M, R) of the clipped actions, up to a constant."""
        return clipped_normal.log_likelihood(self.action, mean, log_std).sum(dim=-1)


def sample_tensors(sample: Sample, clipped_action_gradient: bool = False) -> PolicyGradientSample:
    """Convert a sample to torch tensors; on the CPU they share its memory.

    `clipped_action_gradient`: importance ratios and KL divergences are those of the clipped
    actions. Without effect on discrete actions.
    """
    continuous = ClippedActionTensors if clipped_action_gradient else ContinuousTensors
    kind: Any = DiscreteTensors if isinstance(sample, DiscreteSample) else continuous
    return kind(*(torch.as_tensor(getattr(sample, column.name)) for column in fields(sample)))
