"""Who can sit in sumo without having learnt it: an ant that does nothing, and AgentZoo's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Observations, Policy
from overtrick.games.sumo import agent_zoo
from overtrick.games.sumo.game import Sumo
from overtrick.games.sumo.observation import MOTORS


class Motionless:
    """All motors at rest; the ant stands where it fell."""

    def start(self, games: int, rng: Generator) -> Motionless:
        return self

    def act(self, observations: Observations) -> Actions:
        return Actions(np.zeros((len(observations), len(MOTORS))), np.zeros(len(observations)))


def _of_the_zoo(name: str, game: Sumo) -> Policy:
    return agent_zoo.load(name, game.zoo)


PLAYERS: dict[str, Callable[[Sumo], Policy]] = {
    "motionless": lambda game: Motionless(),
    **{name: partial(_of_the_zoo, name) for name in agent_zoo.POLICY_NAMES},
}
