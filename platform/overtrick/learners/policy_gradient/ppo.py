"""Proximal policy optimisation with the clipped objective (Schulman et al. 2017, eq. 7)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.weights import Params, to_arrays


class Ppo:
    """Several passes over the sample, each ratio clipped to 1 - clip .. 1 + clip. A pass is an
    Adam step, or one for each part into which the sample was cut.

    rate: Adam's learning rate. entropy: weight of a bonus in points a nat. Stops early once the
    mean KL divergence of a decision passes `kl_stop` nats. pull: what a nat of distance from the
    teacher of a surrogate costs, in points.
    """

    def __init__(
        self,
        rate: float,
        entropy: float = 0.0,
        clip: float = 0.2,
        epochs: int = 8,
        kl_stop: float = 0.05,
        pull: float = 0.0,
    ) -> None:
        self.step = rate
        self.entropy = entropy
        self.clip = clip
        self.epochs = epochs
        self.kl_stop = kl_stop
        self.pull = pull
        self._memory: dict[str, Array] = {}

    def improve(
        self, theta: Params, surrogate: Surrogate, rng: Generator
    ) -> tuple[Params, dict[str, float]]:
        """Better weights by the clipped objective."""
        adam = Adam(to_arrays(theta), self.step)
        if self._memory:
            adam.load({**self._memory, **to_arrays(theta)})
        logp = surrogate.policy(adam.params)
        before = float(surrogate.gain(logp.detach()))
        for _ in range(self.epochs):
            if not surrogate.parts:
                self._descend(adam, surrogate, logp)
            for k in rng.permutation(len(surrogate.parts)):
                part = surrogate.parts[k]
                self._descend(adam, part, part.policy(adam.params))
            logp = surrogate.policy(adam.params)
            if surrogate.divergence(logp.detach()) > self.kl_stop:
                break
        self._memory = adam.state()
        return {n: v.detach() for n, v in adam.params.items()}, {
            "kl": float(surrogate.divergence(logp.detach())),
            "gain": float(surrogate.gain(logp.detach())) - before,
        }

    def _descend(self, adam: Adam, surrogate: Surrogate, logp: Tensor) -> None:
        """One step by the clipped objective of what a policy did, whose output is logp."""
        sample = surrogate.sample
        moved = sample.ratio(logp)
        clipped = moved.clamp(1 - self.clip, 1 + self.clip)
        worse = torch.minimum(moved * sample.credit, clipped * sample.credit)
        objective = worse.sum() / len(sample.weight)
        loss = -objective - self.entropy * surrogate.entropy(logp)
        if self.pull:
            loss = loss + self.pull * surrogate.distance(logp)
        adam.descend(loss)

    def state(self) -> dict[str, Array]:
        return dict(self._memory)

    def load(self, state: Mapping[str, Array]) -> None:
        self._memory = dict(state)
