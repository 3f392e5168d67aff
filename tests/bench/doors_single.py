"""Measure the cost of Gymnasium's interface per step: one seat of Leduc against a random opponent
in the environment, beside our game with the same opponent, one game at a time."""

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
    peer = "our observe, features and step with a batch of one and the same opponent"
    return beside("doors_single", "leduc", 0, lambda: steps_in_game(game, rng), peer, 0.5)


def beside(
    bench: str, name: str, seat: int | None, peer: Callable[[], int], peer_name: str, goal: float
) -> Result:
    """Compare one seat in our Gymnasium environment with that of a peer."""
    env, rng = SingleSeatEnv(make(name), [UniformPolicy()], seat), np.random.default_rng(0)
    door = f"{name} through Gymnasium's interface"
    return compared(bench, door, lambda: steps_in_environment(env, rng), peer, peer_name, goal)


def steps_in_environment(env: SingleSeatEnv, rng: np.random.Generator) -> int:
    """Play some games in an environment and return the seat's number of steps."""
    steps = 0
    for _ in range(GAMES):
        env.reset()
        over = False
        while not over:
            _, _, over, *_ = env.step(int(rng.choice(np.flatnonzero(env.action_masks()))))
            steps += 1
    return steps


def steps_in_game(game: Game, rng: np.random.Generator) -> int:
    """Play some games without an environment and return the seat's steps. A game in which the seat
    never acts counts as no game."""
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
