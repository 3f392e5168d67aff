"""A game in which everybody moves at once as an environment of PettingZoo's parallel API."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box
from pettingzoo import ParallelEnv

from overtrick.core import Array, Game, UserError
from overtrick.environments.single_game import validated_move
from overtrick.games import registry

ByAgent = dict[str, Any]
"""What each agent is told, by its name."""


class SimultaneousEnv(ParallelEnv):
    """One match; agents are called seat_0 and so on.

    Observations are the facts that a seat sees, float64, in the order of `Game.facts`; moves are
    vectors of float32 from -1 to 1, in the order of `Game.action_names`. Rewards are the game's
    points. A match ends, terminated for all, where its rules end it; nothing is truncated.
    """

    def __init__(self, game: Game) -> None:
        """Raises UserError for a game of single actions, or one that is not played."""
        registry.check_playable(game)
        if game.actions is not None:
            raise UserError(f"{game.name} has single actions: the parallel door is for real moves")
        self.game = game
        self.metadata = {"name": f"overtrick_{game.name}", "render_modes": []}
        self.render_mode = None
        self.possible_agents = [f"seat_{seat}" for seat in range(game.seats)]
        self.agents: list[str] = []
        moves = len(game.action_names)
        self._seen = {
            a: Box(-np.inf, np.inf, (len(game.observation_fields),), np.float64)
            for a in self.possible_agents
        }
        self._moves = {a: Box(-1, 1, (moves,), np.float32) for a in self.possible_agents}
        self._rng = np.random.default_rng()

    def observation_space(self, agent: str) -> Box:
        return self._seen[agent]

    def action_space(self, agent: str) -> Box:
        return self._moves[agent]

    def reset(
        self, seed: int | None = None, options: ByAgent | None = None
    ) -> tuple[ByAgent, ByAgent]:
        """The first observations of a new match; the same seed deals the same matches."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state = self.game.start(self.game.deal(1, self._rng))
        self.agents = list(self.possible_agents)
        return self._look(), {agent: {} for agent in self.agents}

    def step(self, actions: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Observations (the last ones again, once it is over), rewards, ends, truncations, and
        empty infos. Raises ValueError unless everybody who is there moves by as many finite numbers
        as there are motors, and nobody else."""
        present = self.agents
        if set(actions) != set(present):
            raise ValueError(f"moves are needed of {present}, not of {sorted(actions)}")
        if not present:
            return {}, {}, {}, {}, {}
        width = len(self.game.action_names)
        moves = [validated_move(actions[agent], width, agent) for agent in present]
        (points,) = self.game.step(self._state, self._turn, np.stack(moves))
        seen = self._look()
        over = not len(self._turn)
        if over:
            self.agents = []
        return (
            seen,
            {agent: float(p) for agent, p in zip(present, points, strict=True)},
            dict.fromkeys(present, over),
            dict.fromkeys(present, False),
            {agent: {} for agent in present},
        )

    def _look(self) -> dict[str, Array]:
        self._turn = self.game.observe(self._state)
        if len(self._turn):
            self._last = dict(zip(self.agents, self._turn.observation, strict=True))
        return dict(self._last)


def parallel_env(name: str = "sumo", **options: Any) -> SimultaneousEnv:
    """A game of the registry as an environment; options are its own. Raises UserError."""
    return SimultaneousEnv(registry.make(name, **options))
