"""Compare one seat of Leduc against a random opponent, one game at a time: our Gymnasium
environment beside RLCard's environment with its random agent."""

from __future__ import annotations

import numpy as np
import rlcard
from rlcard.agents import RandomAgent
from tests.bench.doors import GAMES
from tests.bench.doors_single import beside
from tests.bench.measure import Result


def run() -> Result:
    return beside_rlcard("doors_single_rlcard", "leduc", "leduc-holdem")


def beside_rlcard(bench: str, name: str, theirs: str) -> Result:
    """Compare a game of ours with RLCard's. The seat is drawn for each game, as in RLCard."""
    env, rng = rlcard.make(theirs, config={"seed": 0}), np.random.default_rng(0)
    agent = RandomAgent(env.num_actions)

    def peer() -> int:
        steps = 0
        for _ in range(GAMES):
            state, player = env.reset()
            while not env.is_over():
                if player == 0:
                    action = int(rng.choice([*state["legal_actions"]]))
                    steps += 1
                else:
                    action = agent.step(state)
                state, player = env.step(action)
        return steps

    return beside(bench, name, None, peer, "rlcard env.step() and RandomAgent", 1)
