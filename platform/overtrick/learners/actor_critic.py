"""A policy network, its critic, and the solver (TRPO, PPO) that improves the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import torch
from numpy.random import Generator

from overtrick.core import Array, Batch, Turn
from overtrick.learners.networks import Critic, Params, arrays, predict, prefixed, unprefixed
from overtrick.learners.ppo import Ppo
from overtrick.learners.returns import Tensors, advantages, discounted, of_games
from overtrick.learners.surrogate import Surrogate, log_probs
from overtrick.learners.trpo import Trpo
from overtrick.policies import Network, Weights, forward, masked_log_softmax, tensors


class Solver(Protocol):
    """Improves weights on a surrogate: whatever lies between weights and policy, such as
    adaptation, is the surrogate's business, so a new solver needs no other change."""

    step: float  # KL bound of TRPO, Adam's rate of PPO; a schedule may change it on the way

    def improve(
        self, theta: Params, surrogate: Surrogate, rng: Generator
    ) -> tuple[Params, dict[str, float]]: ...
    def state(self) -> dict[str, Array]: ...
    def load(self, state: Mapping[str, Array]) -> None: ...


SOLVERS: dict[str, Callable[[float, float], Solver]] = {"trpo": Trpo, "ppo": Ppo}
"""By name, from (step, entropy): the KL bound of TRPO or Adam's rate of PPO, points a nat."""


class ActorCritic:
    """Policy gradient with generalised advantage estimates.

    features: a game's features of a turn. gamma (0 to 1) discounts a decision, lam (0 to 1)
    trades the bias of the critic for the variance of the returns.
    """

    def __init__(
        self,
        features: Callable[[Turn], Array],
        theta: Weights,
        critic: Critic,
        solver: Solver,
        gamma: float,
        lam: float,
    ) -> None:
        self.features = features
        self.theta = theta
        self.critic = critic
        self.solver = solver
        self.gamma = gamma
        self.lam = lam

    def policy(self, explore: bool = True) -> Network:
        """The stochastic policy; it explores by itself."""
        return Network(self.features, self.theta)

    def learn(self, batch: Batch, rng: Generator) -> dict[str, float]:
        """One improvement from the decisions of whole games; none, if there were no decisions."""
        assert batch.legal is not None
        if not len(batch):
            return {}
        features = self.features(batch.turn())
        advantage = advantages(batch, predict(self.critic.weights, features), self.gamma, self.lam)
        with torch.inference_mode():
            logits = forward(tensors(self.theta), torch.from_numpy(features))
            logp = masked_log_softmax(logits, torch.from_numpy(batch.legal)).numpy()
        alone = np.zeros(len(batch), np.int64)
        sample = Tensors.of(of_games(batch, features, logp, advantage, batch.games, alone, 1))

        def policy(theta: Params) -> torch.Tensor:
            return log_probs({n: v[None] for n, v in theta.items()}, sample)

        returns = discounted(batch, self.gamma)
        return self.improve(Surrogate(sample, policy), features, returns, rng)

    def improve(
        self, surrogate: Surrogate, features: Array, returns: Array, rng: Generator
    ) -> dict[str, float]:
        """Better weights by the solver; features (D, F) and returns (D,) teach the critic."""
        theta, metrics = self.solver.improve(tensors(self.theta), surrogate, rng)
        self.theta = arrays(theta)
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
