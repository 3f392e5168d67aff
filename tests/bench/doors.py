"""What PettingZoo's interface costs a step: our environment beside our own game, one at a time.

Leduc, which the door walks on the tree; `doors_holdem` has a game too large for one."""

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
    """The door beside the game behind it."""
    game, rng = make(name), np.random.default_rng(0)
    peer = "our own turn, features and step of a batch of one"
    return beside(bench, name, lambda: alone(game, rng), peer, 0.5)


def beside(bench: str, name: str, peer: Callable[[], int], peer_name: str, goal: float) -> Result:
    """Games of ours through the AEC door in turns with those of a peer."""
    env, rng = TurnBasedEnv(make(name)), np.random.default_rng(0)
    door = f"{name} through PettingZoo's AEC interface"
    return compared(bench, door, lambda: through_the_door(env, rng), peer, peer_name, goal)


def compared(
    bench: str,
    door: str,
    ours: Callable[[], int],
    peer: Callable[[], int],
    peer_name: str,
    goal: float,
) -> Result:
    """Two who play games in turns, and say how many steps it took."""
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


def through_the_door(env: TurnBasedEnv, rng: np.random.Generator) -> int:
    """The steps of some games."""
    steps = 0
    for _ in range(GAMES):
        env.reset()
        while not env.terminations[env.agent_selection]:
            env.step(int(rng.choice(np.flatnonzero(env.last()[0]["action_mask"]))))
            steps += 1
    return steps


def alone(game: Game, rng: np.random.Generator) -> int:
    """The same without a door."""
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
