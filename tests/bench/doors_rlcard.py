"""Compare Leduc one game at a time: our PettingZoo environment beside RLCard's environment."""

from __future__ import annotations

import numpy as np
import rlcard
from tests.bench.doors import GAMES, beside
from tests.bench.measure import Result


def run() -> Result:
    return beside_rlcard("doors_rlcard", "leduc", "leduc-holdem")


def beside_rlcard(bench: str, name: str, theirs: str) -> Result:
    """Compare a game of ours with RLCard's, which does not compute payoffs here."""
    env, rng = rlcard.make(theirs, config={"seed": 0}), np.random.default_rng(0)

    def peer() -> int:
        steps = 0
        for _ in range(GAMES):
            state, _ = env.reset()
            while not env.is_over():
                state, _ = env.step(int(rng.choice([*state["legal_actions"]])))
                steps += 1
        return steps

    return beside(bench, name, peer, "rlcard env.step()", 1)
