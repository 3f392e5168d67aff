"""RLlib environment for any game: one agent for each seat, one episode for each game.

An observation has the features of the game and, for discrete actions, the mask of legal actions. An
observation may also have the game's own observation, from which the features are computed; policies
of this package need it to control an agent. Features, mask and actions may be in the game's
canonical form, for example with the suits in canonical order. The game's own observation is never
in canonical form.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from overtrick.core import Array, Game
from overtrick.games import registry
from overtrick.policies.network_sizes import input_size

FEATURES, ACTION_MASK, OBSERVATION, MATCH = "observations", "action_mask", "facts", "match"
AnyDict = dict[str, Any]
_env_numbers = itertools.count()  # of this process


def observation_space(game: Game, raw: bool) -> Dict:
    """Return the observation space of an agent.

    `raw`: include the game's own observation, from which the features are computed, and two numbers
    that identify the environment and the game in progress. A policy with memory uses these numbers
    to notice that a new game has begun.
    """
    spaces: dict[str, Any] = {FEATURES: Box(-np.inf, np.inf, (input_size(game),), np.float32)}
    if game.actions is not None:
        spaces[ACTION_MASK] = Box(0, 1, (game.actions,), np.float32)
    if raw:
        limit, kind = (np.inf, np.float64) if game.actions is None else (2**62, np.int64)
        spaces[OBSERVATION] = Box(-limit, limit, (len(game.observation_fields),), kind)
        spaces[MATCH] = Box(0, 2**62, (2,), np.int64)
    return Dict(spaces)


def action_space(game: Game) -> gym.Space:
    """Return an agent's action space: Discrete, or a Box from -1 to 1 for continuous actions."""
    if game.actions is not None:
        return Discrete(game.actions)
    return Box(-1, 1, (len(game.action_names),), np.float32)


class GameEnv(MultiAgentEnv):
    """Multi-agent environment of one game at a time: each seat is an agent.

    In a share of the games the learner has one random seat, and an opponent policy has all other
    seats. An agent's name is its seat's number and, if an opponent policy controls the agent, the
    name of this policy. RLlib's policy mapping finds the policy by the agent's name.

    Entries of `config`:

    - `game` and `options`: name of the game and its options (default: none).
    - `seed`: seed of the first deals, combined with RLlib's index of the worker (default: 0).
    - `opponents`: list of the opponent policies' names.
    - `opponent_share`: share of games with an opponent; it is drawn uniformly from `opponents`.
    - `raw`: add the game's own observation to the features, for all agents that an opponent policy
      controls. If `opponents` is empty, add it for all agents.
    - `canonical`: give features, masks and actions in the canonical form of a SuitSymmetric game.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.game: Any = registry.make(config["game"], **config.get("options", {}))
        self.opponents: tuple[str, ...] = tuple(config.get("opponents", ()))
        self.opponent_share: float = config.get("opponent_share", 0.0)
        self.raw: bool = config.get("raw", False)
        self.canonical: bool = config.get("canonical", False)
        self.possible_agents = [
            agent_name(seat, opponent)
            for seat in range(self.game.seats)
            for opponent in ("", *self.opponents)
        ]
        self.agents = list(self.possible_agents)
        spaces = [observation_space(self.game, raw) for raw in (False, True)]
        self.observation_spaces = {agent: spaces[self._is_raw(agent)] for agent in self.agents}
        self.action_spaces = dict.fromkeys(self.agents, action_space(self.game))
        self._number, self._match = next(_env_numbers), 0
        self.reseed([config.get("seed", 0), getattr(config, "worker_index", 0)])

    def reseed(self, seed: Any) -> None:
        """Seed the generator of all later deals, opponents and learner seats."""
        self._rng = np.random.default_rng(seed)

    def reset(
        self, *, seed: int | None = None, options: AnyDict | None = None
    ) -> tuple[AnyDict, AnyDict]:
        """Deal a new game; return the observations of the agents to act, and empty infos."""
        if seed is not None:
            self.reseed(seed)
        self._state = self.game.start(self.game.deal(1, self._rng))
        self._match += 1
        names = [""] * self.game.seats
        if self.opponents and self._rng.random() < self.opponent_share:
            names = [str(self._rng.choice(self.opponents))] * self.game.seats
            names[self._rng.integers(self.game.seats)] = ""
        self.agents = [agent_name(seat, name) for seat, name in enumerate(names)]
        return self._observe(), {}

    def step(self, action_dict: AnyDict) -> tuple[AnyDict, AnyDict, AnyDict, AnyDict, AnyDict]:
        """Play one action of each agent in `action_dict`.

        Return RLlib's five dictionaries: observations, rewards, terminated, truncated and infos.
        """
        acted = [self.agents[seat] for seat in self._observations.seat]
        actions = np.stack([np.asarray(action_dict[agent]) for agent in acted])
        if self.canonical:
            actions = self._original[np.arange(len(actions)), actions]
        (points,) = self.game.step(self._state, self._observations, actions)
        observed = self._observe()
        over = not observed
        rewarded = self.agents if over or points.any() else acted
        rewards = {agent: float(points[seat_of_agent(agent)]) for agent in rewarded}
        if over:
            self.agents = []
        return observed, rewards, {"__all__": over}, {"__all__": False}, {}

    def _observe(self) -> AnyDict:
        """Return the observations of the agents that must act now; empty at the end of the game."""
        self._observations = shown = self.game.observe(self._state)
        if not len(shown):
            return {}
        if self.canonical:
            shown, self._original = self.game.canonical_observations(shown)
        columns: dict[str, Array] = {FEATURES: self.game.features(shown)}
        if shown.legal is not None:
            columns[ACTION_MASK] = shown.legal.astype(np.float32)
        observed = {}
        for row, seat in enumerate(shown.seat):
            agent = self.agents[seat]
            observed[agent] = {name: column[row] for name, column in columns.items()}
            if self._is_raw(agent):
                observed[agent][OBSERVATION] = self._observations.observation[row]
                observed[agent][MATCH] = np.array([self._number, self._match])
        return observed

    def _is_raw(self, agent: str) -> bool:
        """Return whether an agent also gets the game's own observation, not only the features."""
        return self.raw and (bool(opponent_of_agent(agent)) or not self.opponents)


def agent_name(seat: int, opponent: str) -> str:
    """Return the name of an agent, made of its seat and the opponent policy that controls it.

    `opponent`: name of the opponent policy; "" if a learner controls the agent.
    """
    return f"{seat} {opponent}".strip()


def seat_of_agent(agent: str) -> int:
    """Return the seat of an agent by its name."""
    return int(agent.partition(" ")[0])


def opponent_of_agent(agent: str) -> str:
    """Return the name of the opponent policy that controls an agent; "" if there is none."""
    return agent.partition(" ")[2]
