"""Compare random play of one of our games with RLCard's environment of it."""

from __future__ import annotations

import numpy as np
import rlcard
from rlcard.agents import RandomAgent
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

GAMES, CALLS, PEER_GAMES, ROUNDS = 10_000, 10, 2_000, 9


def beside_rlcard(bench: str, name: str, theirs: str, goal: float) -> Result:
    """Run batches of ours in turns with single games of RLCard's, both random against random."""
    game, rng = make(name), np.random.default_rng(0)
    env = rlcard.make(theirs, config={"seed": 0})
    env.set_agents([RandomAgent(num_actions=env.num_actions) for _ in range(env.num_players)])

    def ours() -> None:
        for _ in range(CALLS):
            play(game, (UniformPolicy(), UniformPolicy()), GAMES, rng)

    def peer() -> None:
        for _ in range(PEER_GAMES):
            env.run(is_training=False)

    our_seconds, peer_seconds = in_turns(ours, peer, ROUNDS)
    our_rate, peer_rate = CALLS * GAMES / our_seconds, PEER_GAMES / peer_seconds
    return Result(
        name=bench,
        work=f"{name}, random against random, one process; {GAMES:,} games per call of play()",
        ours=our_rate,
        peer=peer_rate,
        peer_name="rlcard env.run()",
        unit="games/s",
        ratio=our_rate / peer_rate,
        goal=goal,
    )
