"""Surrogate objective that policy optimisers improve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from overtrick.learners.policy_gradient.sample import PolicyGradientSample
from overtrick.learners.weights import Params

Policy = Callable[[Params], Tensor]
"""Function from weights to a policy's output on the rows of a sample; it may include adaptation."""


@dataclass(frozen=True)
class Surrogate:
    """Surrogate objective: a sample, and the map from weights to a policy's output on its rows."""

    sample: PolicyGradientSample
    policy: Policy
    fisher_subsample: Surrogate | None = None  # on a subset of tasks, for TRPO's curvature
    minibatches: tuple[Surrogate, ...] = ()  # on disjoint subsets of the tasks, for PPO
    teacher: Tensor | None = None  # (M, R, A) log-probabilities of a teacher policy

    def gain(self, output: Tensor) -> Tensor:
        """Return the estimated gain over the policy that played, in points a task (scalar)."""
        sample = self.sample
        return (sample.credit * sample.ratio(output)).sum() / len(sample.weight)

    def divergence(self, output: Tensor) -> Tensor:
        """Return the mean KL divergence a decision from the policy that played, in nats
        (scalar).
        """
        return self._mean(self.sample.divergence(output))

    def entropy(self, output: Tensor) -> Tensor:
        """Return the mean entropy a decision, in nats (scalar)."""
        return self._mean(self.sample.entropy(output))

    def teacher_kl(self, output: Tensor) -> Tensor:
        """Return the mean KL divergence a decision from the policy to its teacher, in nats
        (scalar).

        Only for discrete actions.
        """
        assert self.teacher is not None
        log_ratio = torch.where(output.isfinite(), output - self.teacher, 0.0)
        return self._mean((output.exp() * log_ratio).sum(dim=-1))

    def _mean(self, rows: Tensor) -> Tensor:
        weight = self.sample.weight
        return (weight * rows).sum() / weight.sum().clamp(
            min=1e-12
        )  # a sample may have no decisions


def policy_gradient_loss(params: Params, sample: PolicyGradientSample) -> Tensor:
    """Return minus the estimated gain over the policy that played, summed over tasks.

    The gain uses importance ratios. At the policy that played, the gradient is the plain policy
    gradient: the mean over games of the sum over decisions (Williams 1992). Its second derivative
    accounts for the changed distribution of games (Rothfuss et al. 2019, "ProMP", eq. 6), unlike
    that of a loss of log-probabilities. Tasks have separate weights, so each receives its own
    gradient from the sum.
    """
    return -(sample.credit * sample.ratio(sample.output(params))).sum()
