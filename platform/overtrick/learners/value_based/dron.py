"""Q-learning that looks at how its opponent plays: DRON with a mixture of experts.

He et al. 2016, "Opponent modeling in deep reinforcement learning", section 3.2: K experts each
value the actions of a state, and what is known of the opponent decides how much each counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from overtrick.core import Array, Observations, PolicySession
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.state_keys import prefixed
from overtrick.learners.value_based.dqn import Dqn, DqnConfig, GreedyPolicy, epsilon_greedy
from overtrick.policies.forward_pass import Weights, forward, tensors
from overtrick.policies.memoryless import MemorylessPolicy, MemorylessSession

OPPONENT = "opponent"
"""The note (D, P) of a batch that says what was known of the opponent when the game began."""

PRIOR_DECISIONS = 5.0  # decisions in a situation after which habits count by half


def opponent_profile(counts: Array) -> Array:
    """(M, P) float32, what networks are told of M opponents who took actions so often.

    counts (M, situations, A). For each situation the frequency of each action, and less of it
    the less was seen: all 0 for an opponent that nobody has met.
    """
    seen = counts.sum(axis=-1, keepdims=True)
    return (counts / (seen + PRIOR_DECISIONS)).reshape(len(counts), -1).astype(np.float32)


def initial_experts(
    inputs: int, hidden: Sequence[int], actions: int, profile: int, gate: Sequence[int],
    count: int, rng: Generator,
) -> Weights:  # fmt: skip
    """Fresh weights: state.w0, ... to values of all actions by each of `count` experts, which
    share the hidden layers; and gate.w0, ... from the opponent's profile (P numbers) to them."""
    state = initial_weights((inputs, *hidden, count * actions), rng)
    return {
        **prefixed("gate", initial_weights((profile, *gate, count), rng)),
        **prefixed("state", state),
    }


def mixture_of_experts(
    params: Mapping[str, Tensor], features: Tensor, notes: Mapping[str, Tensor]
) -> Tensor:
    """(R, A) points: the experts' values, weighed by a softmax of the gate (their eq. 8)."""
    valued, weighed = (
        {n.removeprefix(part): v for n, v in params.items() if n.startswith(part)}
        for part in ("state.", "gate.")
    )
    weight = forward(weighed, notes[OPPONENT]).softmax(dim=-1)
    values = forward(valued, features).reshape(len(weight), weight.shape[-1], -1)
    return (weight.unsqueeze(-1) * values).sum(dim=-2)


def dron_learner(
    features: Callable[[Observations], Array], weights: Weights, plan: DqnConfig
) -> Dqn:
    """Q-learning of `mixture` from batches with the note OPPONENT."""
    return Dqn(features, weights, plan, mixture_of_experts, (OPPONENT,))


def policy_against(
    features: Callable[[Observations], Array], weights: Weights, known: Array
) -> GreedyPolicy:
    """How to play one opponent of whom a profile (P,) is known."""
    return GreedyPolicy(features, weights, 0.0, mixture_of_experts, {OPPONENT: known})


class DronPolicy:
    """The same against M opponents of whom profiles (M, P) are known, with some exploration.

    Seated for G games, it meets opponent m in games m * G / M up to (m + 1) * G / M.
    """

    def __init__(
        self,
        features: Callable[[Observations], Array],
        weights: Weights,
        known: Array,
        epsilon: float,
    ) -> None:
        self.features = features
        self.weights = weights
        self.known = known
        self.epsilon = epsilon

    def start(self, games: int, rng: Generator) -> PolicySession:
        if games % len(self.known):
            raise ValueError(f"{games} games cannot be shared by {len(self.known)} opponents")
        return MemorylessSession(_ProfiledPolicy(self, games // len(self.known)), rng)


class _ProfiledPolicy(MemorylessPolicy):
    def __init__(self, informed: DronPolicy, games_each: int) -> None:
        self.informed = informed
        self.params = tensors(informed.weights)
        self.games_each = games_each

    def probs(self, observations: Observations) -> Array:
        assert observations.legal is not None
        known = torch.from_numpy(self.informed.known[observations.game // self.games_each])
        with torch.inference_mode():
            features = torch.from_numpy(self.informed.features(observations))
            values = mixture_of_experts(self.params, features, {OPPONENT: known}).double().numpy()
        return epsilon_greedy(values, observations.legal, self.informed.epsilon)
