"""What Gymnasium's interface costs a step: one seat of Leduc against a random player in it, beside
our own game and the same player, one game at a time."""

from __future__ import annotations

import numpy as np
from tests.bench.doors import GAMES, ROUNDS
from tests.bench.measure import Result, in_turns

from overtrick import make
from overtrick.core import Game
from overtrick.doors.single import Single
from overtrick.policies import Uniform


def run() -> Result:
    game, steps = make("leduc"), {}
    env, rng = Single(game, [Uniform()], seat=0), np.random.default_rng(0)

    def ours() -> None:
        steps["ours"] = through_the_door(env, rng)

    def theirs() -> None:
        steps["peer"] = alone(game, rng)

    seconds = in_turns(ours, theirs, ROUNDS)
    our_rate, peer_rate = steps["ours"] / seconds[0], steps["peer"] / seconds[1]
    return Result(
        name="doors_single",
        work=f"leduc through Gymnasium's interface, {GAMES} games, random legal actions",
        ours=our_rate,
        peer=peer_rate,
        peer_name="our own turn, features and step of a batch of one, with the same opponent",
        unit="steps/s",
        ratio=our_rate / peer_rate,
        goal=0.5,
    )


def through_the_door(env: Single, rng: np.random.Generator) -> int:
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
        player, state, acted = Uniform().sit(1, rng), game.start(game.deal(1, rng)), 0
        while len(turn := game.turn(state)):
            if turn.seat[0] == 0:
                game.features(turn)
                assert turn.legal is not None
                action = np.array([rng.choice(np.flatnonzero(turn.legal[0]))])
                acted += 1
            else:
                action = player.act(turn).action
            game.step(state, turn, action)
        steps += acted
        games += acted > 0
    return steps
