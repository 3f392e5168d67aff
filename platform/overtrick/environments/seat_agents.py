"""Agents of the PettingZoo environments: one agent for each seat of a game."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import Space

from overtrick.core import Game


class SeatAgents:
    """Base class of the PettingZoo environments: agents called seat_0, seat_1 and so on."""

    render_mode: str | None = None

    def __init__(self, game: Game, observation_space: Space, action_space: Space) -> None:
        """Make one agent for each seat, each with its own copies of the two spaces.

        With copies, the agents sample from their spaces independently.
        """
        self.game = game
        self.metadata: dict[str, Any] = {"name": f"overtrick_{game.name}", "render_modes": []}
        self.possible_agents = [f"seat_{seat}" for seat in range(game.seats)]
        self.agents: list[str] = []
        self._spaces = {
            agent: deepcopy((observation_space, action_space)) for agent in self.possible_agents
        }
        self._rng = np.random.default_rng()

    def observation_space(self, agent: str) -> Space:
        """Return the space of an agent's observations."""
        return self._spaces[agent][0]

    def action_space(self, agent: str) -> Space:
        """Return the space of an agent's actions."""
        return self._spaces[agent][1]
