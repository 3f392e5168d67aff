"""Measure random card play of bridge per second beside pyspiel's bridge in a Python loop."""

from __future__ import annotations

import numpy as np
import pyspiel
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy

GAMES, PEER_GAMES, ROUNDS = 10_000, 20, 9
AUCTION = (55 + 5 * 2 + 4, 52, 52, 52)  # 3 NT and three passes, in pyspiel's numbering


def deal_at_random(game: pyspiel.Game, rng: np.random.Generator) -> pyspiel.State:
    """Return a new state of pyspiel's bridge after a random deal."""
    state = game.new_initial_state()
    while state.is_chance_node():
        actions, _ = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(int(rng.choice(actions)))
    return state


def run() -> Result:
    """Compare games per second: ours dealt and played by `play`; pyspiel's dealt, bid to 3 NT and
    played."""
    game, rng = make("minibridge"), np.random.default_rng(0)
    theirs = pyspiel.load_game("bridge(use_double_dummy_result=false)")

    def ours() -> None:
        play(game, (UniformPolicy(), UniformPolicy()), GAMES, rng, recorded=())

    def peer() -> None:
        for _ in range(PEER_GAMES):
            state = deal_at_random(theirs, rng)
            for call in AUCTION:
                state.apply_action(call)
            while not state.is_terminal():
                state.apply_action(int(rng.choice(state.legal_actions())))

    our_seconds, peer_seconds = in_turns(ours, peer, ROUNDS)
    our_rate, peer_rate = GAMES / our_seconds, PEER_GAMES / peer_seconds
    return Result(
        name="bridge_play",
        work=f"52 cards dealt and played at random, one process; "
        f"{GAMES:,} games per call of play()",
        ours=our_rate,
        peer=peer_rate,
        peer_name="pyspiel bridge, its Python loop (3 NT)",
        unit="games/s",
        ratio=our_rate / peer_rate,
        goal=20,
    )
