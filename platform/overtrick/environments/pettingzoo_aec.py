"""PettingZoo environment (AEC API) of a game with discrete actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import AECEnv

from overtrick.core import Array, Game, UserError
from overtrick.environments.game_text import GameText
from overtrick.environments.seat_agents import SeatAgents
from overtrick.environments.single_game import make_single_game
from overtrick.games import registry

MaskedObservation = dict[str, Array]
"""Keys: `observation`, the seat's `Game.features`; `action_mask`, 1 for each legal action."""


class TurnBasedEnv(SeatAgents, AECEnv):
    """AEC environment of a game with discrete actions; agents are called seat_0, seat_1 and so on.

    Actions are indices in the order of `Game.action_names`. An agent that is not to act has no
    legal action, and its observation is its last observation, or zeros before its first turn. Seats
    that act at the same time act one after another, without observing each other's actions. Rewards
    are the game's points. An illegal action ends the game: the agent that took it gets the game's
    lowest payoff, the other agents get 0. Episodes are never truncated.

    `render_mode`: "ansi" makes `render` return the observation of the agent to act as text, with
    all actions of the game so far; None: there is nothing to render.
    """

    def __init__(self, game: Game, render_mode: str | None = None) -> None:
        """Make the environment.

        Raises UserError for an unknown render mode, for a game with continuous actions, and for a
        game that can only be solved, not played, such as the OpenSpiel games (openspiel/NAME).
        """
        registry.check_playable(game)
        if game.actions is None:
            raise UserError(f"{game.name} has continuous actions: use parallel_env")
        self.single_game = make_single_game(game)
        self._zeros = np.zeros_like(self.single_game.observation)
        self._no_action = np.zeros(game.actions, np.int8)
        self._lowest_payoff = registry.lowest_payoff(game)
        features = Box(-np.inf, np.inf, self._zeros.shape, np.float32)
        mask = Box(0, 1, self._no_action.shape, np.int8)
        observation_space = Dict({"observation": features, "action_mask": mask})
        super().__init__(game, observation_space, Discrete(game.actions))
        self.metadata |= {"is_parallelizable": False, "render_modes": ["ansi"]}
        self.render_mode = render_mode
        self._text = GameText(game, render_mode)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Deal a new game. The same seed deals the same sequence of games. `options`: ignored."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._last = dict.fromkeys(self.agents, self._zeros)
        self.single_game.begin(self._rng)
        self._text.begin()
        self.update_turn()

    def render(self) -> str | None:
        """Return the observation of the agent to act as text or, after the game, all actions.

        Returns None without a render mode.
        """
        return self._text.text

    def close(self) -> None:
        """Do nothing: the environment holds no window and no file."""

    def observe(self, agent: str) -> MaskedObservation:
        """Return the observation and the action mask of an agent."""
        acts = agent == self.agent_selection and not self.terminations[agent]
        mask = self.single_game.legal if acts else self._no_action
        return {"observation": self._last[agent].copy(), "action_mask": mask.copy()}

    def step(self, action: int | None) -> None:
        """Play an action of the selected agent; None only for an agent whose game is over.

        Raises ValueError if no game is in progress.
        """
        if not self.agents:
            raise ValueError("no game in progress: call reset")
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        game, actions = self.single_game, len(self._no_action)
        if action is None or not (0 <= action < actions and game.legal[action]):
            self.rewards = dict.fromkeys(self.agents, 0.0) | {agent: self._lowest_payoff}
            self._text.end()
            self._end()
        else:
            self._text.add(game.seat, action)
            self.rewards = dict(zip(self.possible_agents, game.act(int(action)), strict=True))
            self.update_turn()
        self._accumulate_rewards()

    def update_turn(self) -> None:
        """Select the agent to act and store its observation; if no agent acts, end the game."""
        self._text.update(self.single_game)
        if self.single_game.seat < 0:
            self._end()
            return
        self.agent_selection = self.possible_agents[self.single_game.seat]
        self._last[self.agent_selection] = self.single_game.observation

    def _end(self) -> None:
        """Mark all agents as terminated, because the game is over."""
        self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.agents[0]


def aec_env(name: str, render_mode: str | None = None, **options: Any) -> TurnBasedEnv:
    """Make an AEC environment of a registered game with discrete actions.

    `render_mode`: "ansi", or None for no rendering. `options`: the game's options. Raises UserError
    for an unknown game, render mode or option, and for a game with continuous actions.
    """
    return TurnBasedEnv(registry.make(name, **options), render_mode)
