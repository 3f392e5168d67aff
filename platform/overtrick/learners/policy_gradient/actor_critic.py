"""A policy network, its critic, and the solver (TRPO, PPO) that improves the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array, Observations, Trajectories
from overtrick.learners.critic import Critic, predict
from overtrick.learners.policy_gradient.advantages import discounted_returns, generalised_advantages
from overtrick.learners.policy_gradient.ppo import Ppo
from overtrick.learners.policy_gradient.sample import (
    PolicyGradientSample,
    rollout_sample,
    sample_tensors,
)
from overtrick.learners.policy_gradient.surrogate import Surrogate
from overtrick.learners.policy_gradient.trpo import Trpo
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.weights import Params, repeat, to_arrays
from overtrick.policies.forward_pass import Weights, tensors
from overtrick.policies.network import network_policy


class PolicyOptimizer(Protocol):
    """Improves weights on a surrogate: whatever lies between weights and policy, such as
    adaptation, is the surrogate's business, so a new solver needs no other change."""

    step: float  # KL bound of TRPO, Adam's rate of PPO; a schedule may change it on the way

    def improve(
        self, theta: Params, surrogate: Surrogate, rng: Generator
    ) -> tuple[Params, dict[str, float]]: ...
    def state(self) -> dict[str, Array]: ...
    def load(self, state: Mapping[str, Array]) -> None: ...


POLICY_OPTIMIZERS: dict[str, Callable[[float, float], PolicyOptimizer]] = {"trpo": Trpo, "ppo": Ppo}
"""By name, from (step, entropy): the KL bound of TRPO or Adam's rate of PPO, points a nat."""


class ActorCritic:
    """Policy gradient with generalised advantage estimates.

    features: a game's features of a turn. gamma (0 to 1) discounts a decision, lam (0 to 1)
    trades the bias of the critic for the variance of the returns. told: the note of a batch that
    the critic sees instead of the features. parts: into how many PPO cuts the games of a batch.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        theta: Weights,
        critic: Critic,
        solver: PolicyOptimizer,
        gamma: float,
        lam: float,
        told: str | None = None,
        parts: int = 1,
    ) -> None:
        self.features = features
        self.theta = theta
        self.critic = critic
        self.solver = solver
        self.gamma = gamma
        self.lam = lam
        self.told = told
        self.parts = parts

    def policy(self, explore: bool = True) -> Any:
        """The stochastic policy; it explores by itself."""
        return network_policy(self.features, self.theta)

    def learn(self, batch: Trajectories, rng: Generator) -> dict[str, float]:
        """One improvement from the decisions of whole games; none, if there were no decisions."""
        if not len(batch):
            return {}
        features = self.features(batch.observations())
        judged = features if self.told is None else batch.extras[self.told]
        advantage = generalised_advantages(
            batch, predict(self.critic.weights, judged), self.gamma, self.lam
        )
        parts = min(self.parts, batch.games)
        sample = sample_tensors(rollout_sample(
            repeat(self.theta, parts), batch, features, advantage, batch.games / parts,
            batch.game % parts,
        ))  # fmt: skip
        cut = tuple(_surrogate(sample.every(parts, k)) for k in range(parts)) if parts > 1 else ()
        returns = discounted_returns(batch, self.gamma)
        return self.improve(_surrogate(sample, cut), judged, returns, rng)

    def improve(
        self, surrogate: Surrogate, features: Array, returns: Array, rng: Generator
    ) -> dict[str, float]:
        """Better weights by the solver; what the critic sees (D, F) and returns (D,) teach it."""
        theta, metrics = self.solver.improve(tensors(self.theta), surrogate, rng)
        self.theta = to_arrays(theta)
        metrics["critic_loss"] = self.critic.fit(features, returns, rng)
        return metrics

    def weights(self) -> dict[str, Array]:
        """What a model file keeps: the policy and its baseline."""
        return {**prefixed("policy", self.theta), **prefixed("critic", self.critic.weights)}

    def state(self) -> dict[str, Array]:
        return {
            **prefixed("policy", self.theta),
            **prefixed("critic", self.critic.adam.state()),
            **prefixed("solver", self.solver.state()),
        }

    def load(self, state: Mapping[str, Array]) -> None:
        self.theta = unprefixed("policy", state)
        self.critic.adam.load(unprefixed("critic", state))
        self.solver.load(unprefixed("solver", state))


def _surrogate(sample: PolicyGradientSample, parts: tuple[Surrogate, ...] = ()) -> Surrogate:
    """What improves weights that played all tasks of a sample themselves."""

    def policy(theta: Params) -> Tensor:
        tasks = len(sample.weight)
        return sample.output({n: v.expand(tasks, *v.shape) for n, v in theta.items()})

    return Surrogate(sample, policy, parts=parts)
