"""Deep reinforcement opponent network (DRON) with a mixture of experts.

Source: He et al. 2016, "Opponent modeling in deep reinforcement learning", section 3.2. Each of
several experts values the actions; a gate computes their weights from the opponent's statistics.

| here | the paper |
|---|---|
| statistics: action frequencies in each public state | features chosen by hand for each game |
| experts share their hidden layers | experts share the state's embedding |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Observations, PolicySession
from overtrick.core.checkpoints import prefixed
from overtrick.core.lazy_modules import torch
from overtrick.learners.initialisation import initial_weights
from overtrick.learners.value_based.dqn import epsilon_greedy
from overtrick.policies.forward_pass import Weights, forward, tensors
from overtrick.policies.memoryless import MemorylessPolicy, MemorylessSession

if TYPE_CHECKING:
    from torch import Tensor

OPPONENT = "opponent"
"""Name of the extra array in trajectories that holds the opponent's profile (D, P).

It is the profile as known at the start of the game.
"""

PRIOR_DECISIONS = 5.0  # after this many observed decisions a frequency is shrunk by half


def opponent_profile(counts: Array) -> Array:
    """Return the profiles (M, P) float32 of M opponents from the counts of their actions.

    `counts` (M, public states, A): a public state is a coarse description of the information that
    all seats share. A profile holds the frequency of each action in each public state (P numbers).
    After n observed decisions in the state, its frequencies are multiplied by n / (n +
    PRIOR_DECISIONS). The profile of an opponent without observed decisions is 0.
    """
    observed = counts.sum(axis=-1, keepdims=True)
    return (counts / (observed + PRIOR_DECISIONS)).reshape(len(counts), -1).astype(np.float32)


def initial_experts(
    inputs: int, hidden: Sequence[int], actions: int, profile: int, gate: Sequence[int],
    count: int, rng: Generator,
) -> Weights:  # fmt: skip
    """Draw initial weights of a mixture of `count` experts with a gate.

    The network `state.w0`, ... maps `inputs` features to each expert's values of `actions` actions.
    The experts share its hidden layers, of `hidden` units. The network `gate.w0`, ... maps an
    opponent profile of `profile` numbers to a score of each expert; its hidden layers have `gate`
    units.
    """
    state = initial_weights((inputs, *hidden, count * actions), rng)
    return {
        **prefixed("gate", initial_weights((profile, *gate, count), rng)),
        **prefixed("state", state),
    }


def mixture_of_experts(
    params: Mapping[str, Tensor], features: Tensor, notes: Mapping[str, Tensor]
) -> Tensor:
    """Return (R, A) action values in points: the experts' values weighted by the gate's softmax.

    `params`: weights as `initial_experts` returns them. `notes`: auxiliary network inputs by name;
    the array OPPONENT (R, P) has the opponent's profile of each row. Source: He et al. 2016, eq. 8.
    """
    value_weights, gate_weights = (
        {n.removeprefix(prefix): v for n, v in params.items() if n.startswith(prefix)}
        for prefix in ("state.", "gate.")
    )
    weight = forward(gate_weights, notes[OPPONENT]).softmax(dim=-1)
    values = forward(value_weights, features).reshape(len(weight), weight.shape[-1], -1)
    return (weight.unsqueeze(-1) * values).sum(dim=-2)


@dataclass(frozen=True, eq=False)
class DronPolicy:
    """Epsilon-greedy policy of a deep reinforcement opponent network against M opponents.

    `profiles` (M, P): the opponents' action frequencies, as `opponent_profile` returns them.

    A batch of G games is divided into M contiguous blocks of equal size, one for each opponent, in
    the order of `profiles`.
    """

    features: Callable[[Observations], Array]
    weights: Weights
    profiles: Array
    epsilon: float

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a batch of `games` games, divided equally among the opponents.

        Raises ValueError unless `games` is a multiple of the number of opponents.
        """
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
        profiles = torch.as_tensor(self.policy.profiles[observations.game // self.games_each])
        with torch.inference_mode():
            features = torch.as_tensor(self.policy.features(observations))
            values = mixture_of_experts(self.params, features, {OPPONENT: profiles})
        return epsilon_greedy(
            values.double().numpy(force=True), observations.legal, self.policy.epsilon
        )
