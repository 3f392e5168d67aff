"""Proximal policy optimisation (PPO) with the clipped objective (Schulman et al. 2017, eq. 7).

| here | the usual implementation |
|---|---|
| advantages are used as the caller gives them | normalised in each minibatch |
| full batch by default; minibatches are groups of whole games | minibatches of decisions |
| stops at target_kl by the exact KL over all actions | estimate from sampled actions |
| the critic is separate, without value clipping | joint loss, often with value clipping |
| no gradient clipping, no learning-rate decay | gradient norm 0.5, linear decay |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numpy.random import Generator

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.learners.optimisers import Adam
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.weights import Params, to_arrays

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(eq=False)
class Ppo:
    """PPO update: several epochs of Adam steps on the clipped objective.

    - `step_size`: Adam's learning rate.
    - `entropy_coef`: weight of the entropy bonus, in points per nat.
    - `clip`: importance ratios are clipped to 1 - `clip` .. 1 + `clip`.
    - `epochs`: largest number of epochs. An epoch is one step, or one step for each minibatch.
    - `target_kl`: in nats. Epochs end early once the mean KL divergence from the behaviour policy
      per decision exceeds this.
    - `teacher_kl_coef`: weight of a penalty on the KL divergence from a fixed teacher policy, in
      points per nat. The teacher is the attribute `teacher` of the Surrogate given to `improve`.
    - `behaviour_kl_coef`: weight of a penalty on KL(policy, behaviour policy), in points per nat.
      Together with the entropy bonus, the update is magnetic mirror descent with a uniform magnet
      (Sokota et al. 2023, eq. 3): `behaviour_kl_coef` is 1 / eta, and `entropy_coef` is alpha.
    """

    step_size: float
    entropy_coef: float = 0.0
    clip: float = 0.2
    epochs: int = 8
    target_kl: float = 0.05
    teacher_kl_coef: float = 0.0
    behaviour_kl_coef: float = 0.0
    _moments: dict[str, Array] = field(default_factory=dict, init=False)

    def improve(
        self, theta: Params, surrogate: Surrogate, rng: Generator
    ) -> tuple[Params, dict[str, float]]:
        """Improve policy weights `theta` by the clipped objective; return new weights and metrics.

        Metric `kl` is the KL divergence from the behaviour policy in nats, and `gain` the increase
        of the estimated payoff in points.
        """
        adam = Adam(to_arrays(theta), self.step_size)
        if self._moments:
            adam.load({**self._moments, **to_arrays(theta)})
        logp = surrogate.policy(adam.params)
        gain_before = float(surrogate.gain(logp.detach()))
        for _ in range(self.epochs):
            if not surrogate.minibatches:
                self._descend(adam, surrogate, logp)
            for k in rng.permutation(len(surrogate.minibatches)):
                minibatch = surrogate.minibatches[k]
                self._descend(adam, minibatch, minibatch.policy(adam.params))
            logp = surrogate.policy(adam.params)
            if surrogate.divergence(logp.detach()) > self.target_kl:
                break
        self._moments = adam.state()
        return {n: v.detach() for n, v in adam.params.items()}, {
            "kl": float(surrogate.divergence(logp.detach())),
            "gain": float(surrogate.gain(logp.detach())) - gain_before,
        }

    def _descend(self, adam: Adam, surrogate: Surrogate, logp: Tensor) -> None:
        """Take one Adam step on the clipped objective.

        `logp`: parameters of the current policy's action distributions at the decisions of the
        surrogate's sample. They are log-probabilities (M, R, A) if actions are discrete, and mean
        and log standard deviation (M, R, 2A) if actions are continuous.
        """
        sample = surrogate.sample
        ratio = sample.ratio(logp)
        clipped = ratio.clamp(1 - self.clip, 1 + self.clip)
        lower = torch.minimum(ratio * sample.credit, clipped * sample.credit)
        objective = lower.sum() / len(sample.weight)
        loss = -objective - self.entropy_coef * surrogate.entropy(logp)
        if self.teacher_kl_coef:
            loss = loss + self.teacher_kl_coef * surrogate.teacher_kl(logp)
        if self.behaviour_kl_coef:
            loss = loss + self.behaviour_kl_coef * surrogate.behaviour_kl(logp)
        adam.minimise(loss)

    def state(self) -> dict[str, Array]:
        """Return the policy weights and Adam's moments after the last update.

        Before the first update the result is empty.
        """
        return dict(self._moments)

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore Adam's moments from a result of `state()`."""
        self._moments = dict(state)
