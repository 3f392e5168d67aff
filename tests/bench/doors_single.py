"""What Gymnasium's interface costs a step: one seat of Leduc against a random player in it, beside
our own game and the same player, one game at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.bench.doors import GAMES, compared
from tests.bench.measure import Result

from overtrick import make
from overtrick.core import Game
from overtrick.environments.gymnasium_env import SingleSeatEnv
from overtrick.policies.uniform import UniformPolicy


def run() -> Result:
    game, rng = make("leduc"), np.random.default_rng(0)
    peer = "our own turn, features and step of a batch of one, with the same opponent"
    return beside("doors_single", "leduc", 0, lambda: alone(game, rng), peer, 0.5)


def beside(
    bench: str, name: str, seat: int | None, peer: Callable[[], int], peer_name: str, goal: float
) -> Result:
    """One seat of ours through the Gymnasium door in turns with that of a peer."""
    env, rng = SingleSeatEnv(make(name), [UniformPolicy()], seat), np.random.default_rng(0)
    door = f"{name} through Gymnasium's interface"
    return compared(bench, door, lambda: through_the_door(env, rng), peer, peer_name, goal)


def through_the_door(env: SingleSeatEnv, rng: np.random.Generator) -> int:
    """The steps of the seat in some games."""
    steps = 0
    for _ in range(GAMES):
        env.reset()
        over = False
        while not over:
            _, _, over, *_ = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
            steps += 1
    return steps


def alone(game: Game, rng: np.random.Generator) -> int:
    """The same without a door; a game in which the seat never acts counts as none."""
    steps, games = 0, 0
    while games < GAMES:
        player, state, acted = UniformPolicy().start(1, rng), game.start(game.deal(1, rng)), 0
        while len(observations := game.observe(state)):
            if observations.seat[0] == 0:
                game.features(observations)
                assert observations.legal is not None
                action = np.array([rng.choice(np.flatnonzero(observations.legal[0]))])
                acted += 1
            else:
                action = player.act(observations).action
            game.step(state, observations, action)
        steps += acted
        games += acted > 0
    return steps
