"""PPO with a KL penalty towards a fixed teacher policy, for policies of discrete actions.

| here | the usual implementation |
|---|---|
| penalty: exact KL(policy, teacher) over all actions | estimate from the sampled action |
| coefficient is constant | often adapted to a target KL |
| no critic: the caller gives credits | critic and GAE |
| a decision may have credits of all its actions | only of the sampled action |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.core.lazy_modules import torch
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.sample import DiscreteTensors, padded_sample, sample_tensors
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.supervised.classifier import ClassifierConfig, logits
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, masked_log_softmax, tensors

if TYPE_CHECKING:
    from torch import Tensor


class KlAnchoredLearner:
    """Policy network that starts as a copy of a teacher and improves by PPO with a KL penalty.

    The penalty on the KL divergence from the teacher keeps the policy near it, so that partners who
    know the teacher's conventions still understand the policy. `config` is the architecture of both
    networks. `minibatches` is the number of groups into which PPO divides the games.
    """

    def __init__(
        self, teacher: Weights, config: ClassifierConfig, optimizer: Ppo, minibatches: int
    ) -> None:
        self.teacher = tensors(teacher)
        self.theta = teacher
        self.config = config
        self.optimizer = optimizer
        self.minibatches = minibatches

    def learn(
        self, features: Array, legal: Array, credit: Array, game: Array, games: int, rng: Generator
    ) -> dict[str, float]:
        """Update the policy once from decisions in `games` games; return metrics.

        `features` are (D, F) and `legal` is (D, A). `credit` (D, A), in points, multiplies the
        actions' importance ratios. If only sampled actions are known, it is the advantage of the
        sampled action and 0 elsewhere; else it is the probability of each action times its
        advantage.
        `game` (D,) is the game of each decision, a number from 0 to `games` - 1.
        """
        n = min(self.minibatches, games)
        weight = np.full(len(game), n / games)
        logp = np.zeros(legal.shape)  # placeholder; the policy's log-probabilities follow below
        rows = sample_tensors(
            padded_sample(features, legal, logp, credit * n / games, weight, game % n, n)
        )
        assert isinstance(rows, DiscreteTensors)
        with torch.no_grad():
            own_logp = self._output(tensors(self.theta), rows)
            teacher_logp = self._output(self.teacher, rows)
        sample = DiscreteTensors(rows.features, rows.legal, own_logp, rows.credit, rows.weight)
        parts = tuple(self._surrogate(sample.every(n, k), teacher_logp[k::n]) for k in range(n))
        surrogate = self._surrogate(sample, teacher_logp, parts if n > 1 else ())
        diagnostics = {
            "entropy_nats": float(surrogate.entropy(own_logp)),
            "teacher_kl_nats": float(surrogate.teacher_kl(own_logp)),
        }
        theta, metrics = self.optimizer.improve(tensors(self.theta), surrogate, rng)
        self.theta = to_arrays(theta)
        return {**diagnostics, **metrics}

    def set_learning_rate(self, rate: float) -> None:
        """Set Adam's learning rate of later updates."""
        self.optimizer.step_size = rate

    def _surrogate(
        self, sample: DiscreteTensors, teacher_logp: Tensor, minibatches: tuple[Surrogate, ...] = ()
    ) -> Surrogate:
        return Surrogate(
            sample, lambda theta: self._output(theta, sample), None, minibatches, teacher_logp
        )

    def _output(self, theta: Params, sample: DiscreteTensors) -> Tensor:
        """Compute the policy's log-probabilities (M, R, A) on a sample's rows by weights theta."""
        logits_of_rows = logits(theta, sample.features.flatten(0, 1), self.config)
        return masked_log_softmax(logits_of_rows.view(*sample.weight.shape, -1), sample.legal)

    def state(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint: policy and policy optimiser."""
        return {**prefixed("policy", self.theta), **prefixed("solver", self.optimizer.state())}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore policy and policy optimiser from a result of `state()`."""
        self.theta = unprefixed("policy", state)
        self.optimizer.load(unprefixed("solver", state))
