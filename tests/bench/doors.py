"""Measure the cost of PettingZoo's interface per step: our environment beside our game, one game at
a time.

The environment of Leduc walks the game tree; the bench `doors_holdem` has a game without one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.core import Game
from overtrick.environments.pettingzoo_aec import TurnBasedEnv

GAMES, ROUNDS = 500, 9


def run() -> Result:
    return beside_ourselves("doors", "leduc")


def beside_ourselves(bench: str, name: str) -> Result:
    """Compare the environment with its game."""
    game, rng = make(name), np.random.default_rng(0)
    peer = "our observe, features and step with a batch of one"
    return beside(bench, name, lambda: steps_in_game(game, rng), peer, 0.5)


def beside(bench: str, name: str, peer: Callable[[], int], peer_name: str, goal: float) -> Result:
    """Compare games of our AEC environment with those of a peer."""
    env, rng = TurnBasedEnv(make(name)), np.random.default_rng(0)
    door = f"{name} through PettingZoo's AEC interface"
    return compared(bench, door, lambda: steps_in_environment(env, rng), peer, peer_name, goal)


def compared(
    bench: str,
    door: str,
    ours: Callable[[], int],
    peer: Callable[[], int],
    peer_name: str,
    goal: float,
) -> Result:
    """Run two players of games in turns and compare their steps per second."""
    steps = {}

    def our_turn() -> None:
        steps["ours"] = ours()

    def their_turn() -> None:
        steps["peer"] = peer()

    seconds = in_turns(our_turn, their_turn, ROUNDS)
    our_rate, peer_rate = steps["ours"] / seconds[0], steps["peer"] / seconds[1]
    return Result(
        name=bench,
        work=f"{door}, {GAMES} games, random legal actions",
        ours=our_rate,
        peer=peer_rate,
        peer_name=peer_name,
        unit="steps/s",
        ratio=our_rate / peer_rate,
        goal=goal,
    )


def steps_in_environment(env: TurnBasedEnv, rng: np.random.Generator) -> int:
    """Play some games in an environment and return their number of steps."""
    steps = 0
    for _ in range(GAMES):
        env.reset()
        while not env.terminations[env.agent_selection]:
            env.step(int(rng.choice(np.flatnonzero(env.last()[0]["action_mask"]))))
            steps += 1
    return steps


def steps_in_game(game: Game, rng: np.random.Generator) -> int:
    """Play some games without an environment and return their number of steps."""
    steps = 0
    for _ in range(GAMES):
        state = game.start(game.deal(1, rng))
        while len(observations := game.observe(state)):
            game.features(observations)
            game.step(
                state, observations, np.array([rng.choice(np.flatnonzero(observations.legal[0]))])
            )
            steps += 1
    return steps
