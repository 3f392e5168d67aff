"""Deep reinforcement opponent network (DRON) with a mixture of experts.

Source: He et al. 2016, "Opponent modeling in deep reinforcement learning", section 3.2. Each of
several experts values the actions; a gate computes their weights from the opponent's statistics.

| here | the paper |
|---|---|
| statistics: action frequencies in each public situation | features chosen by hand for each game |
| experts share their hidden layers | experts share the state's embedding |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array, Observations, PolicySession
from overtrick.learners.checkpoint_keys import prefixed
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.value_based.dqn import Dqn, DqnConfig, GreedyPolicy, epsilon_greedy
from overtrick.policies.forward_pass import Weights, forward, tensors
from overtrick.policies.memoryless import MemorylessPolicy, MemorylessSession

OPPONENT = "opponent"
"""Note of a trajectory: the opponent's profile (D, P), as known at the start of the game."""

PRIOR_DECISIONS = 5.0  # observed decisions at which a frequency counts by half


def opponent_profile(counts: Array) -> Array:
    """Return profiles (M, P) float32 of M opponents from their counts of actions.

    `counts` is (M, situations, A). A profile has each action's frequency in each public situation,
    shrunk towards 0 by count / (count + PRIOR_DECISIONS); it is 0 for an opponent without observed
    decisions.
    """
    observed = counts.sum(axis=-1, keepdims=True)
    return (counts / (observed + PRIOR_DECISIONS)).reshape(len(counts), -1).astype(np.float32)


def initial_experts(
    inputs: int, hidden: Sequence[int], actions: int, profile: int, gate: Sequence[int],
    count: int, rng: Generator,
) -> Weights:  # fmt: skip
    """Draw initial weights of a mixture of experts.

    `state.w0`, ... lead from features to the action values of all experts, which share their hidden
    layers; `gate.w0`, ... lead from a profile of P numbers to a score of each expert.
    """
    state = initial_weights((inputs, *hidden, count * actions), rng)
    return {
        **prefixed("gate", initial_weights((profile, *gate, count), rng)),
        **prefixed("state", state),
    }


def mixture_of_experts(
    params: Mapping[str, Tensor], features: Tensor, notes: Mapping[str, Tensor]
) -> Tensor:
    """Return (R, A) action values in points: the experts' values weighted by the gate's softmax
    (eq. 8).
    """
    value_weights, gate_weights = (
        {n.removeprefix(prefix): v for n, v in params.items() if n.startswith(prefix)}
        for prefix in ("state.", "gate.")
    )
    weight = forward(gate_weights, notes[OPPONENT]).softmax(dim=-1)
    values = forward(value_weights, features).reshape(len(weight), weight.shape[-1], -1)
    return (weight.unsqueeze(-1) * values).sum(dim=-2)


def dron_learner(
    features: Callable[[Observations], Array], weights: Weights, config: DqnConfig
) -> Dqn:
    """Make a Q-learner of `mixture_of_experts`, for trajectories with the note OPPONENT."""
    return Dqn(features, weights, config, mixture_of_experts, (OPPONENT,))


def policy_against(
    features: Callable[[Observations], Array], weights: Weights, profiles: Array
) -> GreedyPolicy:
    """Return the greedy policy against one opponent with a known profile (P,)."""
    return GreedyPolicy(features, weights, 0.0, mixture_of_experts, {OPPONENT: profiles})


@dataclass(frozen=True, eq=False)
class DronPolicy:
    """Epsilon-greedy policy against M opponents with known profiles (M, P).

    In a session of G games, games m * G / M up to (m + 1) * G / M are against opponent m.
    """

    features: Callable[[Observations], Array]
    weights: Weights
    profiles: Array
    epsilon: float

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session. Raises ValueError unless games is a multiple of M."""
        if games % len(self.profiles):
            raise ValueError(f"{games} games cannot be shared by {len(self.profiles)} opponents")
        return MemorylessSession(_ProfiledPolicy(self, games // len(self.profiles)), rng)


class _ProfiledPolicy(MemorylessPolicy):
    def __init__(self, policy: DronPolicy, games_each: int) -> None:
        self.policy = policy
        self.params = tensors(policy.weights)
        self.games_each = games_each

    def probs(self, observations: Observations) -> Array:
        assert observations.legal is not None
        profiles = torch.from_numpy(self.policy.profiles[observations.game // self.games_each])
        with torch.inference_mode():
            features = torch.from_numpy(self.policy.features(observations))
            values = mixture_of_experts(self.params, features, {OPPONENT: profiles})
        return epsilon_greedy(values.double().numpy(), observations.legal, self.policy.epsilon)
