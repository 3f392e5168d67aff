"""A game in which one acts after another as an environment of PettingZoo's AEC API."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import AECEnv

from overtrick.core import Array, Game, UserError
from overtrick.environments.single_game import lowest_payoff, make_single_game
from overtrick.games import registry

MaskedObservation = dict[str, Array]
"""observation: the features of a seat, `Game.features`; action_mask: 1 for each legal action."""


class TurnBasedEnv(AECEnv):
    """One game; agents are called seat_0 and so on, actions are numbers in the order of
    `Game.action_names`.

    A seat that is not to act sees what it saw last, 0 before it ever acted, and no action is open
    to it. Of those who choose at once, one is asked after another and nobody sees what was chosen.
    Rewards are the game's points. An illegal action ends the game: the worst payoff that the game
    has for the seat, nothing for the others. Nothing is truncated.
    """

    def __init__(self, game: Game) -> None:
        """Raises UserError for a game of real moves, or one that is not played."""
        registry.check_playable(game)
        if game.actions is None:
            raise UserError(f"{game.name} moves by real vectors: doors.parallel is for such")
        self.game = game
        self.metadata = {
            "name": f"overtrick_{game.name}",
            "render_modes": [],
            "is_parallelizable": False,
        }
        self.render_mode = None
        self.possible_agents = [f"seat_{seat}" for seat in range(game.seats)]
        self.agents: list[str] = []
        self.single_game = make_single_game(game)
        self._nothing = np.zeros_like(self.single_game.observation)
        self._closed = np.zeros(game.actions, np.int8)
        self._worst = lowest_payoff(game)
        self._spaces = {
            agent: Dict({
                "observation": Box(-np.inf, np.inf, self._nothing.shape, np.float32),
                "action_mask": Box(0, 1, self._closed.shape, np.int8),
            })
            for agent in self.possible_agents
        }  # fmt: skip
        self._actions = {agent: Discrete(game.actions) for agent in self.possible_agents}
        self._rng = np.random.default_rng()

    def observation_space(self, agent: str) -> Dict:
        return self._spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """A new game; the same seed deals the same games."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._last = dict.fromkeys(self.agents, self._nothing)
        self.single_game.begin(self._rng)
        self.update_turn()

    def observe(self, agent: str) -> MaskedObservation:
        acts = agent == self.agent_selection and not self.terminations[agent]
        mask = self.single_game.legal if acts else self._closed
        return {"observation": self._last[agent].copy(), "action_mask": mask.copy()}

    def step(self, action: int | None) -> None:
        """Raises ValueError before the first game and after the end of one."""
        if not self.agents:
            raise ValueError("no game is on: reset it")
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        if action is None or not (
            0 <= action < len(self._closed) and self.single_game.legal[action]
        ):
            self.rewards = dict.fromkeys(self.agents, 0.0) | {agent: self._worst}
            self._end()
        else:
            points = self.single_game.act(int(action))
            self.rewards = dict(zip(self.possible_agents, points, strict=True))
            self.update_turn()
        self._accumulate_rewards()

    def update_turn(self) -> None:
        """Whose turn it is now, if anybody's, and what they see."""
        if self.single_game.seat < 0:
            self._end()
            return
        self.agent_selection = self.possible_agents[self.single_game.seat]
        self._last[self.agent_selection] = self.single_game.observation

    def _end(self) -> None:
        self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.agents[0]


def aec_env(name: str, **options: Any) -> TurnBasedEnv:
    """A game of the registry as an environment; options are its own. Raises UserError."""
    return TurnBasedEnv(registry.make(name, **options))
