"""RLlib modules: networks that mask illegal actions, and fixed policies as opponents.

Networks start with torch's initial weights. `extract_weights` converts a module's network to the
format of this package's models.
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

from overtrick.core import Array, Observations, PolicySession, PolicyWithMemory, select_rows
from overtrick.games import observation_validation, registry
from overtrick.learners.initialisation import INITIAL_ACTION_STD
from overtrick.policies.forward_pass import LOG_STD, Weights, masked_log_softmax
from overtrick.rllib.multi_agent_env import ACTION_MASK, FEATURES, MATCH, OBSERVATION, AnyDict

CRITIC = "critic"
POLICY_NETWORKS = {"PPO": "policy", "APPO": "policy", "DQN": "af", "SAC": "pi"}
"""For each algorithm: the name of the policy network inside its module."""


class Mlp(nn.Sequential):
    """Multilayer perceptron with ReLU between its layers.

    `sizes`: number of inputs, hidden units of each layer, and number of outputs.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        pairs = [(nn.Linear(*pair), nn.ReLU()) for pair in itertools.pairwise(sizes)]
        super().__init__(*itertools.chain(*pairs))
        del self[-1]


class GaussianMlp(Mlp):
    """Network of a Gaussian policy: outputs means and log standard deviations (R, 2 A).

    The log standard deviations (A,) are parameters that do not depend on the input.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(sizes)
        self.log_std = nn.Parameter(torch.full((sizes[-1],), float(np.log(INITIAL_ACTION_STD))))

    def forward(self, x: Tensor) -> Tensor:
        mean: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return torch.cat([mean, self.log_std.expand_as(mean)], dim=-1)


def extract_weights(state: Mapping[str, Array], network: str) -> Weights:
    """Extract one network from an RLlib module's weights, in the format of this package's models.

    `state`: the module's weights by name. `network`: the name of the network in the module.
    """
    weights: Weights = {}
    for name, value in state.items():
        owner, _, rest = name.partition(".")
        place, _, kind = rest.partition(".")
        if owner == network and kind:
            layer = int(place) // 2  # every second layer is a ReLU
            weights["wb"[kind == "bias"] + str(layer)] = np.ascontiguousarray(value.T)
        elif owner == network:
            weights[LOG_STD] = value
    return dict(sorted(weights.items()))


class NoCatalog:
    """Empty RLlib catalog: the modules here build their own networks."""

    def __init__(self, **options: Any) -> None:
        """Ignore RLlib's options."""

    def get_action_dist_cls(self, framework: str) -> None:
        """Return None, which selects torch's default distribution of the action space."""


def _sizes(module: Any) -> tuple[int, tuple[int, ...], int]:
    """Return a module's number of features, hidden units by layer, and number of actions."""
    space, (features,) = module.action_space, module.observation_space[FEATURES].shape
    out = space.n if isinstance(space, Discrete) else space.shape[0]
    return features, tuple(module.model_config["hidden"]), int(out)


class MaskedActorCritic(TorchRLModule, ValueFunctionAPI, TargetNetworkAPI):
    """Policy network and critic of PPO and APPO, with illegal actions masked.

    Entries of `model_config`: `hidden`, the units of each layer.
    """

    def setup(self) -> None:
        features, hidden, out = _sizes(self)
        kind = Mlp if isinstance(self.action_space, Discrete) else GaussianMlp
        self.policy = kind((features, *hidden, out))
        self.critic = Mlp((features, *hidden, 1))

    def _forward(self, batch: AnyDict, **rest: Any) -> AnyDict:
        return {Columns.ACTION_DIST_INPUTS: _masked_logits(self.policy, batch[Columns.OBS])}

    def compute_values(self, batch: AnyDict, embeddings: Any = None) -> Tensor:
        return self.critic(batch[Columns.OBS][FEATURES])[..., 0]

    def make_target_networks(self) -> None:
        self._target = make_target_network(self.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.policy, self._target)]

    def forward_target(self, batch: AnyDict) -> AnyDict:
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: _masked_logits(self._target, batch[Columns.OBS])}


def _masked_logits(policy: nn.Module, observation: AnyDict) -> Tensor:
    """Return the parameters of the action distribution, for discrete or continuous actions.

    Discrete actions: log-probabilities (R, A); an illegal action has the lowest float. Continuous
    actions: means and log standard deviations (R, 2 A).
    """
    out = policy(observation[FEATURES])
    if ACTION_MASK not in observation:
        return out
    logp = masked_log_softmax(out, observation[ACTION_MASK] > 0.5)
    # RLlib's KL divergence has a NaN gradient at -inf
    return logp.clamp(min=torch.finfo(logp.dtype).min)


class MaskedDqn(DefaultDQNTorchRLModule):
    """Q-network of DQN in which illegal actions have the value -inf.

    RLlib's exploration therefore never takes them. Entries of `model_config`: `hidden`, `double_q`,
    `epsilon`.
    """

    def setup(self) -> None:
        features, hidden, out = _sizes(self)
        self.uses_dueling, self.num_atoms = False, 1
        self.uses_double_q = self.model_config["double_q"]
        self.epsilon_schedule = Scheduler(self.model_config["epsilon"], framework="torch")
        self.encoder = nn.Identity()
        self.af = Mlp((features, *hidden, out))

    def _qf_forward_helper(self, batch: AnyDict, encoder: Any, head: Any) -> AnyDict:
        observation = batch[Columns.OBS]
        illegal = observation[ACTION_MASK] < 0.5
        return {"qf_preds": head(observation[FEATURES]).masked_fill(illegal, -torch.inf)}


class GaussianSac(DefaultSACTorchRLModule):
    """Gaussian policy and twin critics of SAC for continuous actions.

    Unlike in RLlib, tanh does not squash the policy, and its standard deviations do not depend on
    the observation. Entries of `model_config`: `hidden`, `twin_q`.
    """

    def setup(self) -> None:
        features, hidden, out = _sizes(self)
        self.twin_q = self.model_config["twin_q"]
        self.pi_encoder, self.pi = _StateEncoder(), GaussianMlp((features, *hidden, out))
        if not self.inference_only:
            self.qf_encoder, self.qf_twin_encoder = _StateActionEncoder(), _StateActionEncoder()
            self.qf, self.qf_twin = (Mlp((features + out, *hidden, 1)) for _ in range(2))


class _StateEncoder(nn.Module):
    def forward(self, batch: AnyDict) -> AnyDict:
        return {ENCODER_OUT: batch[Columns.OBS][FEATURES]}


class _StateActionEncoder(nn.Module):
    def forward(self, batch: AnyDict) -> AnyDict:
        # games clip actions to [-1, 1]; a critic's values outside this range would diverge
        actions = batch[Columns.ACTIONS].clamp(-1, 1)
        return {ENCODER_OUT: torch.cat([batch[Columns.OBS][FEATURES], actions], dim=-1)}


class FixedPolicyModule(RLModule):
    """RLlib module of an opponent: a fixed policy of this package.

    The policy acts on raw observations of the game, not on features. Entries of `model_config`:

    - `game` and `options`: name of the game and its options.
    - `make`: function that makes the policy.
    - `seed`: seed of the actions.
    - `canonical`: if true, relabel the suits in the policy's actions, because the environment
      expects actions with suits in canonical order.
    """

    def setup(self) -> None:
        self._game = registry.make(self.model_config["game"], **self.model_config["options"])
        self._policy = self.model_config["make"]()
        # for policies with memory: the current game of each environment and its session
        self._matches: dict[int, tuple[int, PolicySession]] = {}
        self.reseed(self.model_config["seed"])

    def reseed(self, seed: Any) -> None:
        """Seed the generator of all later actions."""
        self._rng = np.random.default_rng(seed)

    def _forward(self, batch: AnyDict, **rest: Any) -> AnyDict:
        raw = np.asarray(batch[Columns.OBS][OBSERVATION])
        if self._game.actions is not None:
            raw = raw.astype(np.int64)
        observations = observation_validation.validated_observations(self._game, raw)
        if isinstance(self._policy, PolicyWithMemory) and self._policy.remembers:
            places = np.asarray(batch[Columns.OBS][MATCH]).astype(np.int64)
            action = self._act_in_matches(observations, places)
        else:
            action = self._policy.start(len(observations), self._rng).act(observations).action
        if self.model_config.get("canonical", False):
            original = self._game.canonical_observations(observations)[1]
            action = (original == action[:, None]).argmax(axis=1)
        return {Columns.ACTIONS: torch.from_numpy(action)}

    def _act_in_matches(self, observations: Observations, places: Array) -> Array:
        """Return the actions (R,) or (R, A) of a policy with memory, with a session for each game.

        `places` (R, 2): the index of each row's environment, and the index of its current game.
        When the second index changes, the policy starts a new session.
        """
        continuous = (len(self._game.action_names),) if self._game.actions is None else ()
        action = np.zeros((len(observations), *continuous), float if continuous else np.int64)
        for env in np.unique(places[:, 0]):
            rows = np.flatnonzero(places[:, 0] == env)
            match = int(places[rows[0], 1])
            if self._matches.get(env, (None,))[0] != match:
                self._matches[env] = match, self._policy.start(1, self._rng)
            own = select_rows(observations, rows)
            own = replace(own, game=np.zeros_like(own.game))
            action[rows] = self._matches[env][1].act(own).action
        return action


MODULES = {
    "PPO": MaskedActorCritic,
    "APPO": MaskedActorCritic,
    "DQN": MaskedDqn,
    "SAC": GaussianSac,
}
