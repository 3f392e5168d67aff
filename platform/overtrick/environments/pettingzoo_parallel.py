"""PettingZoo environment (parallel API) of a game with simultaneous continuous actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from pettingzoo import ParallelEnv

from overtrick.core import Game, UserError
from overtrick.environments.seat_agents import SeatAgents
from overtrick.environments.single_game import validated_move
from overtrick.games import registry

ByAgent = dict[str, Any]
"""One value for each agent, by the agent's name."""


class SimultaneousEnv(SeatAgents, ParallelEnv):
    """Parallel environment of a game with simultaneous continuous actions.

    Agents are called seat_0, seat_1 and so on. An observation has the K numbers named in
    `Game.observation_fields`, as float64, not the scaled features. Actions are vectors of float32
    from -1 to 1, in the order of `Game.action_names`. Rewards are the game's points. The end of the
    game terminates all agents. Episodes are never truncated.
    """

    def __init__(self, game: Game) -> None:
        """Make the environment.

        Raises UserError for a game with discrete actions. Also raises it for a game that can only
        be solved, not played. The OpenSpiel games (openspiel/NAME) are such games.
        """
        registry.check_playable(game)
        if game.actions is not None:
            raise UserError(
                f"{game.name} has discrete actions, but parallel_env needs continuous actions: "
                "use aec_env"
            )
        observation_space = Box(-np.inf, np.inf, (len(game.observation_fields),), np.float64)
        super().__init__(game, observation_space, Box(-1, 1, (len(game.action_names),), np.float32))

    def reset(
        self, seed: int | None = None, options: ByAgent | None = None
    ) -> tuple[ByAgent, ByAgent]:
        """Deal a new game; return the first observations and empty infos, both by agent.

        `options`: ignored. The same seed deals the same sequence of games.
        """
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state = self.game.start(self.game.deal(1, self._rng))
        self.agents = list(self.possible_agents)
        return self._observe(), {agent: {} for agent in self.agents}

    def step(self, actions: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Play one step; return observations, rewards, terminations, truncations and infos.

        Each result maps the names of the agents to values. When the game ends, each agent gets its
        previous observation again. Raises ValueError unless `actions` has exactly one vector of
        finite numbers for each agent in `agents`.
        """
        present = self.agents
        if set(actions) != set(present):
            raise ValueError(f"actions must be given for {present}, not for {sorted(actions)}")
        if not present:
            return {}, {}, {}, {}, {}
        width = len(self.game.action_names)
        moves = [validated_move(actions[agent], width, agent) for agent in present]
        (points,) = self.game.step(self._state, self._rows, np.stack(moves))
        observations = self._observe()
        over = not len(self._rows)
        if over:
            self.agents = []
        return (
            observations,
            dict(zip(present, points.tolist(), strict=True)),
            dict.fromkeys(present, over),
            dict.fromkeys(present, False),
            {agent: {} for agent in present},
        )

    def _observe(self) -> ByAgent:
        """Return the observation of each agent; after the end of the game, the agent's last one."""
        self._rows = self.game.observe(self._state)
        if len(self._rows):
            self._last = dict(zip(self.agents, self._rows.observation, strict=True))
        return dict(self._last)


def parallel_env(name: str = "sumo", **options: Any) -> SimultaneousEnv:
    """Make a parallel environment of a registered game with simultaneous continuous actions.

    `options`: the game's options. Raises UserError for an unknown game or option, and for a game
    with discrete actions.
    """
    return SimultaneousEnv(registry.make(name, **options))
