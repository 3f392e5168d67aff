"""A game of single actions as environments of RLlib, and its DQN with illegal actions masked.

Two views: `OneSeat`, with everybody else inside the environment, and `Seats`, in which each seat is
an agent. An observation has the game's features, which actions are legal, and the facts, by which
a scripted player can sit in an agent's place.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from torch import Tensor

from overtrick import games
from overtrick.core import Array, Choice, Game, Mixed, Player, Turn
from overtrick.policies import Memoryless, inputs
from overtrick.trainers.strangers import stranger

SEEN, LEGAL, FACTS = "observations", "action_mask", "facts"
LEARNER, OTHERS = "learner", "others"

Told = dict[str, Any]


def _space(game: Game) -> Dict:
    assert game.actions is not None
    return Dict({
        SEEN: Box(-np.inf, np.inf, (inputs(game),), np.float32),
        LEGAL: Box(0, 1, (game.actions,), np.float32),
        FACTS: Box(-(2**62), 2**62, (len(game.facts),), np.int64),
    })  # fmt: skip


def _observation(game: Game, turn: Turn) -> Told:
    assert turn.legal is not None
    return {
        SEEN: game.features(turn)[0], LEGAL: turn.legal[0].astype(np.float32),
        FACTS: turn.seen[0],
    }  # fmt: skip


class OneSeat(gym.Env):
    """One seat of a game of turns, a game an episode; a stranger inside plays all others.
    Games in which the seat never has to act are not shown.

    config: game, options, seat, others (a stranger's name), and the seed of the first deals.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.game: Game = games.make(config["game"], **config["options"])
        self.seat = config["seat"]
        self.others: Mixed = stranger(config["others"], self.game, None)
        self.observation_space = _space(self.game)
        self.action_space = Discrete(self.game.actions)
        super().reset(seed=config["seed"])

    def reset(self, *, seed: int | None = None, options: Told | None = None) -> tuple[Told, Told]:
        super().reset(seed=seed)
        while True:
            self._state = self.game.start(self.game.deal(1, self.np_random))
            self._player: Player = self.others.sit(1, self.np_random)
            self._advance()
            if len(self._turn):
                return self._seen, {}

    def step(self, action: int) -> tuple[Told, float, bool, bool, Told]:
        """The next observation (the last one again, once it is over), and points gained."""
        gained = self.game.step(self._state, self._turn, np.array([action]))[0, self.seat]
        gained += self._advance()
        return self._seen, float(gained), not len(self._turn), False, {}

    def _advance(self) -> float:
        """On to the seat's next decision: points gained on the way."""
        gained = 0.0
        while len(turn := self.game.turn(self._state)) and turn.seat[0] != self.seat:
            action = self._player.act(turn).action
            gained += float(self.game.step(self._state, turn, action)[0, self.seat])
        self._turn = turn
        if len(turn):
            self._seen = _observation(self.game, turn)
        return gained


class Seats(MultiAgentEnv):
    """Every seat is an agent, called by its number; a game an episode. config: game, options, and
    the seed of the first deals."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.game: Game = games.make(config["game"], **config["options"])
        self.possible_agents = [str(seat) for seat in range(self.game.seats)]
        self.agents = list(self.possible_agents)
        self.observation_spaces = dict.fromkeys(self.agents, _space(self.game))
        self.action_spaces = {a: Discrete(self.game.actions) for a in self.agents}
        self._rng = np.random.default_rng(config["seed"])

    def reset(self, *, seed: int | None = None, options: Told | None = None) -> tuple[Told, Told]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._state = self.game.start(self.game.deal(1, self._rng))
        return self._look(), {}

    def step(self, action_dict: Told) -> tuple[Told, Told, Told, Told, Told]:
        ((acted, action),) = action_dict.items()
        (points,) = self.game.step(self._state, self._turn, np.array([action]))
        seen = self._look()
        over = not seen
        told = self.possible_agents if over or points.any() else [acted]
        gained = {agent: float(points[int(agent)]) for agent in told}
        if over:
            self.agents = []
        return seen, gained, {"__all__": over}, {"__all__": False}, {}

    def _look(self) -> Told:
        self._turn = self.game.turn(self._state)
        if not len(self._turn):
            return {}
        return {str(self._turn.seat[0]): _observation(self.game, self._turn)}


class MaskedDqn(DefaultDQNTorchRLModule):
    """RLlib's network of values; illegal actions have -inf, the only ones its exploration drops."""

    def __init__(self, *, observation_space: Any = None, **rest: Any) -> None:
        self._whole = observation_space
        super().__init__(observation_space=observation_space[SEEN], **rest)

    def setup(self) -> None:
        super().setup()
        self.observation_space = self._whole

    def _qf_forward_helper(self, batch: Told, encoder: Any, head: Any) -> Told:
        seen = batch["obs"]
        out = super()._qf_forward_helper({**batch, "obs": seen[SEEN]}, encoder, head)
        out["qf_preds"] = out["qf_preds"].masked_fill(seen[LEGAL] < 0.5, -torch.inf)
        return out


class Scripted(RLModule):
    """A stranger in an agent's place; model_config: game, options, name and seed."""

    def setup(self) -> None:
        made = games.make(self.model_config["game"], **self.model_config["options"])
        self._policy = stranger(self.model_config["name"], made, None)
        self._rng = np.random.default_rng(self.model_config["seed"])

    def _forward(self, batch: Told, **rest: Any) -> Told:
        seen = {name: np.asarray(column) for name, column in batch["obs"].items()}
        rows = np.arange(len(seen[FACTS]))
        turn = Turn(rows, rows, seen[FACTS].astype(np.int64), seen[LEGAL] > 0.5, None)
        choice: Choice = self._policy.sit(len(turn), self._rng).act(turn)
        return {"actions": torch.from_numpy(choice.action)}


class OfModule(Memoryless):
    """The action of the highest value of a trained module, as a policy of ours."""

    def __init__(self, game: Game, module: Any) -> None:
        self.game = game
        self.module = module

    def probs(self, turn: Turn) -> Array:
        assert turn.legal is not None
        seen = {SEEN: self.game.features(turn), LEGAL: turn.legal.astype(np.float32)}
        obs: dict[str, Tensor] = {name: torch.from_numpy(each) for name, each in seen.items()}
        with torch.inference_mode():
            values = self.module.compute_q_values({"obs": obs})["qf_preds"]
        return np.eye(turn.legal.shape[1])[values.argmax(dim=1).numpy()]


def dqn(
    game: str, options: Told, seats: Sequence[int], others: str, decisions: int, seed: int,
    whole: bool = False, room: int = 100_000, **training: Any,
) -> tuple[OfModule, int]:  # fmt: skip
    """RLlib's DQN for some seats of a game against a stranger in the others; the policy and the
    games that it took.

    whole: the view in which every seat is an agent; else one seat, and the rest inside. decisions:
    of all agents, so in the whole view of all seats. room:
    decisions remembered. training: what else `DQNConfig.training` takes.
    """
    made = games.make(game, **options)
    about = {"game": game, "options": options, "seed": seed}
    network = RLModuleSpec(
        module_class=MaskedDqn,
        model_config={
            "fcnet_hiddens": [256, 256],
            "fcnet_activation": "relu",
            "head_fcnet_hiddens": [],
        },
    )
    memory = "MultiAgentEpisodeReplayBuffer" if whole else "EpisodeReplayBuffer"
    config = (
        DQNConfig()
        # whole games: its replay cannot join games that were cut while an agent waits for its turn
        .env_runners(num_env_runners=0, batch_mode="complete_episodes")
        .training(**training, replay_buffer_config={"type": memory, "capacity": room})
        .debugging(log_level="ERROR", seed=seed)
    )
    if whole:
        scripted = RLModuleSpec(module_class=Scripted, model_config={**about, "name": others})
        both, mine = {LEARNER: network, OTHERS: scripted}, {str(seat) for seat in seats}
        config = (
            config.environment(Seats, env_config=about, disable_env_checking=True)
            .env_runners(episodes_to_numpy=False)  # else every step converts all episodes
            .multi_agent(
                policies={LEARNER, OTHERS},
                policies_to_train=[LEARNER],
                policy_mapping_fn=lambda agent, *_, **__: LEARNER if agent in mine else OTHERS,
            )
            .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=both))
        )
    else:
        inside = {**about, "seat": seats[0], "others": others}
        config = config.environment(OneSeat, env_config=inside, disable_env_checking=True)
        config = config.rl_module(rl_module_spec=network)
    algorithm = config.build_algo()
    done = played = 0
    while done < decisions:
        found = algorithm.train()["env_runners"]
        done = int(found["num_env_steps_sampled_lifetime"])
        played = int(found["num_episodes_lifetime"])
    module = algorithm.get_module(LEARNER) if whole else algorithm.get_module()
    algorithm.stop()
    shutil.rmtree(algorithm.logdir, ignore_errors=True)  # an empty folder in the home of the user
    return OfModule(made, module), played
