"""A policy that was taught, improves by what it wins, and is pulled back to its teacher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.sample import DiscreteTensors, padded_sample, sample_tensors
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.supervised.classifier import ClassifierConfig, logits
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, masked_log_softmax, tensors


class KlAnchoredPolicy:
    """A policy of single actions that PPO improves. The pull of its solver keeps it near the
    teacher, whom it equals at first, so that those who know the teacher understand it.

    plan: how both networks look inside. parts: into how many PPO cuts the games.
    """

    def __init__(self, teacher: Weights, plan: ClassifierConfig, solver: Ppo, parts: int) -> None:
        self.teacher = tensors(teacher)
        self.theta = teacher
        self.plan = plan
        self.solver = solver
        self.parts = parts

    def learn(
        self, features: Array, legal: Array, action: Array, advantage: Array, game: Array,
        games: int, rng: Generator,
    ) -> dict[str, float]:  # fmt: skip
        """One improvement from decisions in so many games: features (D, F), legal (D, A), what was
        done (D,), the points (D,) by which it did better than expected, and the game (D,)."""
        parts = min(self.parts, games)
        credit = np.zeros(legal.shape)
        credit[np.arange(len(action)), action] = advantage * parts / games
        weight = np.full(len(action), parts / games)
        logp = np.zeros(legal.shape)  # until the policy that played is asked
        found = sample_tensors(
            padded_sample(features, legal, logp, credit, weight, game % parts, parts)
        )
        assert isinstance(found, DiscreteTensors)
        with torch.no_grad():
            played, taught = (self._output(w, found) for w in (tensors(self.theta), self.teacher))
        sample = replace(found, logp=played)
        cut = tuple(self._surrogate(sample.every(parts, k), taught[k::parts]) for k in range(parts))
        surrogate = self._surrogate(sample, taught, cut if parts > 1 else ())
        told = {
            "entropy_nats": float(surrogate.entropy(played)),
            "teacher_kl_nats": float(surrogate.distance(played)),
        }
        theta, metrics = self.solver.improve(tensors(self.theta), surrogate, rng)
        self.theta = to_arrays(theta)
        return {**told, **metrics}

    def _surrogate(
        self, sample: DiscreteTensors, taught: Tensor, parts: tuple[Surrogate, ...] = ()
    ) -> Surrogate:
        return Surrogate(sample, lambda theta: self._output(theta, sample), None, parts, taught)

    def _output(self, theta: Params, sample: DiscreteTensors) -> Tensor:
        """(M, R, A) log-probabilities."""
        said = logits(theta, sample.features.flatten(0, 1), self.plan)
        return masked_log_softmax(said.view(*sample.weight.shape, -1), sample.legal)

    def state(self) -> dict[str, Array]:
        return {**prefixed("policy", self.theta), **prefixed("solver", self.solver.state())}

    def load(self, state: Mapping[str, Array]) -> None:
        self.theta = unprefixed("policy", state)
        self.solver.load(unprefixed("solver", state))
