"""Measure whole random bridge boards per second beside pyspiel's bridge in a Python loop."""

from __future__ import annotations

import numpy as np
import pyspiel
from tests.bench.bridge_play import deal_at_random
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

GAMES, PEER_GAMES, ROUNDS = 5_000, 20, 9


def run() -> Result:
    """Compare boards per second: dealt, bid and played at random; auctions are long, or passed."""
    game, rng = make("bridge", seats=2), np.random.default_rng(0)
    theirs = pyspiel.load_game("bridge(use_double_dummy_result=false)")

    def ours() -> None:
        play(game, (UniformPolicy(), UniformPolicy()), GAMES, rng, recorded=())

    def peer() -> None:
        for _ in range(PEER_GAMES):
            state = deal_at_random(theirs, rng)
            while not state.is_terminal():
                state.apply_action(int(rng.choice(state.legal_actions())))

    our_seconds, peer_seconds = in_turns(ours, peer, ROUNDS)
    our_rate, peer_rate = GAMES / our_seconds, PEER_GAMES / peer_seconds
    return Result(
        name="bridge_boards",
        work=f"whole boards dealt, bid and played at random, one process; "
        f"{GAMES:,} games per call of play()",
        ours=our_rate,
        peer=peer_rate,
        peer_name="pyspiel bridge, its Python loop",
        unit="games/s",
        ratio=our_rate / peer_rate,
        goal=15,
    )
