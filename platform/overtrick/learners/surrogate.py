"""What a policy-gradient solver improves, the same for every solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from overtrick.learners.networks import Params
from overtrick.learners.returns import Tensors
from overtrick.policies import forward, masked_log_softmax

Policy = Callable[[Params], Tensor]
"""Weights to log-probabilities (M, R, A) on the rows of a sample; adaptation may lie between."""


@dataclass(frozen=True)
class Surrogate:
    """A sample and how weights become a policy on its rows."""

    sample: Tensors
    policy: Policy
    thin: Surrogate | None = None  # the same on part of the sample: enough to know the curvature

    def gain(self, logp: Tensor) -> Tensor:
        """Expected points gained over the policy that played, a task (a scalar)."""
        return (self.sample.credit * ratio(logp, self.sample)).sum() / len(self.sample.weight)

    def divergence(self, logp: Tensor) -> Tensor:
        """Mean KL divergence of a decision from the policy that played (a scalar)."""
        before = self.sample.logp
        legal = self.sample.legal
        gap = torch.where(legal, before - logp, 0.0)
        kl = (before.exp() * gap).sum(dim=-1)
        return (self.sample.weight * kl).sum() / self.sample.weight.sum()

    def entropy(self, logp: Tensor) -> Tensor:
        """Mean entropy of a decision in nats (a scalar)."""
        p = torch.where(self.sample.legal, logp.exp() * logp.clamp(min=-60), 0.0).sum(dim=-1)
        return -(self.sample.weight * p).sum() / self.sample.weight.sum()


def log_probs(params: Params, sample: Tensors) -> Tensor:
    """(M, R, A) log-probabilities of a network on a sample's rows."""
    return masked_log_softmax(forward(params, sample.features), sample.legal)


def ratio(logp: Tensor, sample: Tensors) -> Tensor:
    """(M, R, A) probability of each action over what it was when the games were played.

    1 where illegal; no more than e^20, so that an action of almost no probability and no credit
    does not make a NaN.
    """
    return torch.where(sample.legal, logp - sample.logp, 0.0).clamp(max=20).exp()


def policy_gradient_loss(params: Params, sample: Tensors) -> Tensor:
    """Minus the expected points gained over the policy that played, by importance sampling.

    At that policy its gradient is the plain policy gradient, the mean over games of the sum over
    decisions (Williams 1992), and its curvature counts that other weights would have played
    other games (Rothfuss et al. 2019, "ProMP", eq. 6), which a loss of log-probabilities
    forgets. Summed over tasks, whose weights are apart, so that each gets its own gradient.
    """
    return -(sample.credit * ratio(log_probs(params, sample), sample)).sum()
