"""Networks of ours as modules of RLlib, illegal actions masked; policies of ours in their place.

A network is RLlib's to begin with (torch's initial weights) and ours to play: `weights_of` reads
its layers out of a module's state.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.models.base import ENCODER_OUT
from ray.rllib.core.rl_module.apis import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    TargetNetworkAPI,
    ValueFunctionAPI,
)
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.schedules.scheduler import Scheduler
from torch import Tensor, nn

from overtrick.core import Array, Observations, PolicySession, select_rows
from overtrick.games import observation_checks, registry
from overtrick.learners.initialisation import INITIAL_ACTION_STD
from overtrick.policies.forward_pass import LOG_STD, Weights, masked_log_softmax
from overtrick.rllib.multi_agent_env import ACTION_MASK, FEATURES, MATCH, OBSERVATION, AnyDict

CRITIC = "critic"
POLICY_NETWORKS = {"PPO": "policy", "APPO": "policy", "DQN": "af", "SAC": "pi"}
"""What the network that plays is called in the module of an algorithm."""


class Mlp(nn.Sequential):
    """A multilayer perceptron: (R, F) to (R, out), ReLU between its layers."""

    def __init__(self, sizes: Sequence[int]) -> None:
        pairs = [(nn.Linear(*pair), nn.ReLU()) for pair in itertools.pairwise(sizes)]
        super().__init__(*itertools.chain(*pairs))
        del self[-1]


class GaussianMlp(Mlp):
    """The same for real vectors: means (R, A) and, whatever is seen, one log_std (A,)."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(sizes)
        self.log_std = nn.Parameter(torch.full((sizes[-1],), float(np.log(INITIAL_ACTION_STD))))

    def forward(self, x: Tensor) -> Tensor:
        mean: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return torch.cat([mean, self.log_std.expand_as(mean)], dim=-1)


def extract_weights(state: Mapping[str, Array], player: str) -> Weights:
    """The network of this name in a module's state, as our own files have it."""
    weights: Weights = {}
    for name, value in state.items():
        who, _, rest = name.partition(".")
        place, _, kind = rest.partition(".")
        if who == player and kind:
            layer = int(place) // 2  # every other one is a ReLU
            weights["wb"[kind == "bias"] + str(layer)] = np.ascontiguousarray(value.T)
        elif who == player:
            weights[LOG_STD] = value
    return dict(sorted(weights.items()))


class NoCatalog:
    """Builds nothing: RLlib's catalogs know no observations like ours."""

    def __init__(self, **about: Any) -> None:
        """Whatever they are."""

    def get_action_dist_cls(self, framework: str) -> None:
        """That of torch for the space of actions."""


def _sizes(module: Any) -> tuple[int, tuple[int, ...], int]:
    """F, H, ..., and A or the width of a move."""
    space = module.action_space
    out = space.n if isinstance(space, Discrete) else space.shape[0]
    return (
        module.observation_space[FEATURES].shape[0],
        tuple(module.model_config["hidden"]),
        int(out),
    )


class MaskedActorCritic(TorchRLModule, ValueFunctionAPI, TargetNetworkAPI):
    """Policy and value for PPO and APPO; model_config: hidden."""

    def setup(self) -> None:
        seen, hidden, out = _sizes(self)
        kind = Mlp if isinstance(self.action_space, Discrete) else GaussianMlp
        self.policy = kind((seen, *hidden, out))
        self.critic = Mlp((seen, *hidden, 1))

    def _forward(self, batch: AnyDict, **rest: Any) -> AnyDict:
        return {Columns.ACTION_DIST_INPUTS: _said(self.policy, batch[Columns.OBS])}

    def compute_values(self, batch: AnyDict, embeddings: Any = None) -> Tensor:
        return self.critic(batch[Columns.OBS][FEATURES])[..., 0]

    def make_target_networks(self) -> None:
        self._old = make_target_network(self.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.policy, self._old)]

    def forward_target(self, batch: AnyDict) -> AnyDict:
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: _said(self._old, batch[Columns.OBS])}


def _said(policy: nn.Module, seen: AnyDict) -> Tensor:
    out = policy(seen[FEATURES])
    if ACTION_MASK not in seen:
        return out
    logp = masked_log_softmax(out, seen[ACTION_MASK] > 0.5)
    # of -inf the gradient of RLlib's divergence would be no number
    return logp.clamp(min=torch.finfo(logp.dtype).min)


class MaskedDqn(DefaultDQNTorchRLModule):
    """A network of values; illegal actions have -inf, the only ones that RLlib's exploration drops.
    model_config: hidden, and RLlib's own."""

    def setup(self) -> None:
        seen, hidden, out = _sizes(self)
        self.uses_dueling, self.num_atoms = False, 1
        self.uses_double_q = self.model_config["double_q"]
        self.epsilon_schedule = Scheduler(self.model_config["epsilon"], framework="torch")
        self.encoder = nn.Identity()
        self.af = Mlp((seen, *hidden, out))

    def _qf_forward_helper(self, batch: AnyDict, encoder: Any, head: Any) -> AnyDict:
        seen = batch[Columns.OBS]
        return {"qf_preds": head(seen[FEATURES]).masked_fill(seen[ACTION_MASK] < 0.5, -torch.inf)}


class GaussianSac(DefaultSACTorchRLModule):
    """A policy of real vectors and twin values of them, for SAC; model_config: hidden, and RLlib's
    own. Its normal distribution is ours: not squashed, as wide whatever is seen."""

    def setup(self) -> None:
        seen, hidden, out = _sizes(self)
        self.twin_q = self.model_config["twin_q"]
        self.pi_encoder, self.pi = _Seen(), GaussianMlp((seen, *hidden, out))
        if not self.inference_only:
            self.qf_encoder, self.qf_twin_encoder = _SeenAndDone(), _SeenAndDone()
            self.qf, self.qf_twin = (Mlp((seen + out, *hidden, 1)) for _ in range(2))


class _Seen(nn.Module):
    def forward(self, batch: AnyDict) -> AnyDict:
        return {ENCODER_OUT: batch[Columns.OBS][FEATURES]}


class _SeenAndDone(nn.Module):
    def forward(self, batch: AnyDict) -> AnyDict:
        # further moves do no more, and what a critic guesses of them would run away
        moves = batch[Columns.ACTIONS].clamp(-1, 1)
        return {ENCODER_OUT: torch.cat([batch[Columns.OBS][FEATURES], moves], dim=-1)}


class FixedPolicyModule(RLModule):
    """A policy of ours in an agent's place, which learns nothing; model_config: game, options, make
    (makes the policy), seed and, as `Seats` has it, renamed."""

    def setup(self) -> None:
        self._game = registry.make(self.model_config["game"], **self.model_config["options"])
        self._policy = self.model_config["make"]()
        self._matches: dict[
            int, tuple[int, PolicySession]
        ] = {}  # by table, the game that is under way
        self.reseed(self.model_config["seed"])

    def reseed(self, seed: Any) -> None:
        """All its draws from now on come from this seed."""
        self._rng = np.random.default_rng(seed)

    def _forward(self, batch: AnyDict, **rest: Any) -> AnyDict:
        seen = np.asarray(batch[Columns.OBS][OBSERVATION])
        whole = self._game.actions is not None
        observations = observation_checks.validated_observations(
            self._game, seen.astype(np.int64) if whole else seen
        )
        if getattr(self._policy, "remembers", False):
            places = np.asarray(batch[Columns.OBS][MATCH]).astype(np.int64)
            action = self._recalled(observations, places)
        else:
            action = self._policy.start(len(observations), self._rng).act(observations).action
        if self.model_config.get("renamed", False):
            action = (self._game.canonical_observations(observations)[1] == action[:, None]).argmax(
                axis=1
            )
        return {Columns.ACTIONS: torch.from_numpy(action)}

    def _recalled(self, observations: Observations, places: Array) -> Array:
        """(R, A) what is done by one who remembers the match; places (R, 2): table, which match."""
        action = np.empty((len(observations), len(self._game.action_names)))
        for table in np.unique(places[:, 0]):
            rows = np.flatnonzero(places[:, 0] == table)
            match = int(places[rows[0], 1])
            if self._matches.get(table, (None,))[0] != match:
                self._matches[table] = match, self._policy.start(1, self._rng)
            part = select_rows(observations, rows)
            alone = replace(part, game=np.zeros_like(part.game))
            action[rows] = self._matches[table][1].act(alone).action
        return action


MODULES = {
    "PPO": MaskedActorCritic,
    "APPO": MaskedActorCritic,
    "DQN": MaskedDqn,
    "SAC": GaussianSac,
}
