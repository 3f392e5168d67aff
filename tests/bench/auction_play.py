"""Measure random auctions per second beside pyspiel's bridge in a Python loop."""

from __future__ import annotations

import numpy as np
import pyspiel
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

GAMES, PEER_GAMES, ROUNDS = 10_000, 100, 9
PASS = 52  # pyspiel's index of the first call


def run() -> Result:
    """Compare auctions per second: ours by `play`, scored in IMPs against par; pyspiel's up to the
    opening lead. Double-dummy tricks are random numbers, because both would use the same solver."""
    game, rng = make("auction"), np.random.default_rng(0)
    theirs = pyspiel.load_game("bridge(use_double_dummy_result=false)")
    deals = game.deal(GAMES, rng)
    deals[:, -20:] = rng.integers(14, size=(GAMES, 20))
    dealt = theirs.new_initial_state()
    while dealt.is_chance_node():
        actions, _ = zip(*dealt.chance_outcomes(), strict=True)
        dealt.apply_action(int(rng.choice(actions)))

    def ours() -> None:
        play(game, [UniformPolicy()] * 4, deals, rng, recorded=())

    def peer() -> None:
        for _ in range(PEER_GAMES):
            state = dealt.clone()
            while not state.is_terminal() and PASS in (legal := state.legal_actions()):
                state.apply_action(int(rng.choice(legal)))

    our_seconds, peer_seconds = in_turns(ours, peer, ROUNDS)
    our_rate, peer_rate = GAMES / our_seconds, PEER_GAMES / peer_seconds
    return Result(
        name="auction_play",
        work=f"random auctions, one process; {GAMES:,} per call of play()",
        ours=our_rate,
        peer=peer_rate,
        peer_name="pyspiel bridge, its Python loop",
        unit="games/s",
        ratio=our_rate / peer_rate,
        goal=5,
    )
