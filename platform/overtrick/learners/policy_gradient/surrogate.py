"""What a policy-gradient solver improves, the same for every solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from overtrick.learners.policy_gradient.sample import PolicyGradientSample
from overtrick.learners.weights import Params

Policy = Callable[[Params], Tensor]
"""Weights to a policy's output on the rows of a sample; adaptation may lie between."""


@dataclass(frozen=True)
class Surrogate:
    """A sample and how weights become a policy on its rows."""

    sample: PolicyGradientSample
    policy: Policy
    thin: Surrogate | None = None  # the same on part of the sample: enough to know the curvature
    parts: tuple[Surrogate, ...] = ()  # the same on parts that make up the sample, if it was cut
    teacher: Tensor | None = None  # (M, R, A) log-probabilities of whom it shall stay close to

    def gain(self, output: Tensor) -> Tensor:
        """Expected points gained over the policy that played, a task (a scalar)."""
        sample = self.sample
        return (sample.credit * sample.ratio(output)).sum() / len(sample.weight)

    def divergence(self, output: Tensor) -> Tensor:
        """Mean KL divergence of a decision from the policy that played (a scalar)."""
        return self._mean(self.sample.divergence(output))

    def entropy(self, output: Tensor) -> Tensor:
        """Mean entropy of a decision in nats (a scalar)."""
        return self._mean(self.sample.entropy(output))

    def distance(self, output: Tensor) -> Tensor:
        """Mean KL divergence of a policy of single actions from its teacher, nats a decision."""
        assert self.teacher is not None
        gap = torch.where(output.isfinite(), output - self.teacher, 0.0)
        return self._mean((output.exp() * gap).sum(dim=-1))

    def _mean(self, rows: Tensor) -> Tensor:
        weight = self.sample.weight
        return (weight * rows).sum() / weight.sum().clamp(min=1e-12)  # nobody may have decided


def policy_gradient_loss(params: Params, sample: PolicyGradientSample) -> Tensor:
    """Minus the expected points gained over the policy that played, by importance sampling.

    At that policy its gradient is the plain policy gradient, the mean over games of the sum over
    decisions (Williams 1992), and its curvature counts that other weights would have played
    other games (Rothfuss et al. 2019, "ProMP", eq. 6), which a loss of log-probabilities
    forgets. Summed over tasks, whose weights are apart, so that each gets its own gradient.
    """
    return -(sample.credit * sample.ratio(sample.output(params))).sum()
