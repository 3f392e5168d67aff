"""Scripted players of sumo: a motionless ant, two that walk, and AgentZoo's policies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Observations, Policy
from overtrick.games.sumo import agent_zoo
from overtrick.games.sumo.game import Sumo
from overtrick.games.sumo.observation import MOTORS, direction_to_opponent
from overtrick.games.sumo.walking_players import WalkingPolicy, around_the_centre


class MotionlessPolicy:
    """Policy of an ant that never turns on a motor and stays where it lands."""

    def start(self, games: int, rng: Generator) -> MotionlessPolicy:
        """Return the policy itself as the session, because it has no memory."""
        return self

    def act(self, observations: Observations) -> Actions:
        """Return zero torques (R, 8) with log probability 0."""
        return Actions(np.zeros((len(observations), len(MOTORS))), np.zeros(len(observations)))


def _load_from_zoo(name: str, game: Sumo) -> Policy:
    return agent_zoo.load(name, game.zoo)


PLAYERS: dict[str, Callable[[Sumo], Policy]] = {
    "motionless": lambda game: MotionlessPolicy(),
    "pusher": lambda game: WalkingPolicy(direction_to_opponent),
    "circler": lambda game: WalkingPolicy(around_the_centre),
    **{name: partial(_load_from_zoo, name) for name in agent_zoo.POLICY_NAMES},
}
"""Functions that make the scripted players from the game, by the player's name."""
