"""Surrogate objective that policy optimisers such as TRPO and PPO improve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from overtrick.core.lazy_modules import torch
from overtrick.learners.policy_gradient.sample import DiscreteTensors, PolicyGradientSample
from overtrick.learners.weights import Params

if TYPE_CHECKING:
    from torch import Tensor

Policy = Callable[[Params], "Tensor"]
"""Function from weights to a policy's output on a sample's rows; it may include adaptation."""


@dataclass(frozen=True)
class Surrogate:
    """Surrogate objective of policy weights, estimated on a fixed sample of decisions.

    `policy` is the forward pass: a function from weights to the policy's output at the decisions of
    `sample`.
    """

    sample: PolicyGradientSample
    policy: Policy
    fisher_subsample: Surrogate | None = None  # over a subset of the tasks, for TRPO's curvature
    minibatches: tuple[Surrogate, ...] = ()  # over disjoint subsets of the tasks, for PPO
    teacher: Tensor | None = None  # (M, R, A) log-probabilities of a teacher policy

    def gain(self, output: Tensor) -> Tensor:
        """Estimate the payoff gain over the behaviour policy by importance sampling (a scalar).

        The gain is in points per game, averaged over the sample's leading axis M. `output`: the
        current policy's output at the decisions of the sample.
        """
        sample = self.sample
        return (sample.credit * sample.ratio(output)).sum() / len(sample.weight)

    def divergence(self, output: Tensor) -> Tensor:
        """Compute the mean KL(behaviour policy, policy with this output) in nats per decision."""
        return self._mean(self.sample.divergence(output))

    def entropy(self, output: Tensor) -> Tensor:
        """Compute the mean entropy of the policy with this output, in nats per decision."""
        return self._mean(self.sample.entropy(output))

    def teacher_kl(self, output: Tensor) -> Tensor:
        """Compute the mean KL(policy with this output, teacher policy) in nats per decision.

        Only for discrete actions.
        """
        assert self.teacher is not None
        return self._kl_to(self.teacher, output)

    def behaviour_kl(self, output: Tensor) -> Tensor:
        """Compute the mean KL(policy with this output, behaviour policy) in nats per decision.

        Only for discrete actions.
        """
        assert isinstance(self.sample, DiscreteTensors)
        return self._kl_to(self.sample.logp, output)

    def _kl_to(self, reference: Tensor, output: Tensor) -> Tensor:
        log_ratio = torch.where(output.isfinite(), output - reference, 0.0)
        return self._mean((output.exp() * log_ratio).sum(dim=-1))

    def _mean(self, rows: Tensor) -> Tensor:
        weight = self.sample.weight
        # a sample may have no decisions
        return (weight * rows).sum() / weight.sum().clamp(min=1e-12)


def policy_gradient_loss(params: Params, sample: PolicyGradientSample) -> Tensor:
    """Return minus the estimated payoff gain over the behaviour policy, summed over tasks.

    The gain is the sum of `sample.credit` x importance ratio. At the behaviour policy's weights the
    gradient of the gain is the policy gradient (Williams 1992). MAML differentiates the loss twice.
    The second derivative includes the effect of the weights on which actions are sampled,
    unlike the second derivative of log-probability x advantage (Rothfuss et al. 2019, "ProMP", eq.
    6).
    """
    # tasks have separate weights, so the gradient of the sum is that of each task
    return -(sample.credit * sample.ratio(sample.output(params))).sum()
