"""The walking players of sumo: their gait, the pusher's wins, and the circler's path."""

from __future__ import annotations

import numpy as np
import pytest

import overtrick
from overtrick.games.sumo import walking_players
from overtrick.games.sumo.game import torso_positions
from overtrick.games.sumo.mujoco_model import HIP_RANGE, LEGS
from overtrick.games.sumo.observation import FIELDS, rotated, to_world
from overtrick.games.sumo.scripted_players import PLAYERS
from overtrick.policies.rollout import play


def test_the_gait_in_a_direction_turned_by_a_quarter_is_the_gait_with_the_legs_renamed(rng):
    """A quarter turn takes each leg to the other diagonal, half a period away."""
    phase, direction = rng.uniform(-np.pi, np.pi, (2, 100))
    targets = walking_players.hinge_targets(phase, direction)
    turned = walking_players.hinge_targets(phase + np.pi, direction + np.pi / 2)
    assert turned == pytest.approx(rotated(targets, np.ones(100, int)))


def test_the_gait_stays_within_the_ranges_of_the_hinges(rng):
    targets = np.degrees(walking_players.hinge_targets(*rng.uniform(-np.pi, np.pi, (2, 100))))
    low, high = np.array([(HIP_RANGE, leg.ankle_range) for leg in LEGS]).reshape(-1, 2).T
    assert (targets > low).all()
    assert (targets < high).all()


@pytest.mark.parametrize("name", ["pusher", "circler"])
def test_a_walking_ant_moves_alike_in_every_view(name):
    """Torques differ only by rounding."""
    torques = []
    for view in ("world", "ahead", "ahead_left"):
        game = overtrick.make("sumo", integrator="euler", view=view)
        state, rng = game.start(game.deal(4, np.random.default_rng(0))), np.random.default_rng(1)
        session = PLAYERS[name](game).start(4, rng)
        for _ in range(25):  # the ants land after about 10
            observations = game.observe(state)
            action = session.act(observations).action
            game.step(state, observations, action)
        torques.append(to_world(action, observations.observation[:, len(FIELDS) :]))
    assert torques[1] == pytest.approx(torques[0], abs=1e-4)
    assert torques[2] == pytest.approx(torques[0], abs=1e-4)


def test_the_pusher_throws_a_motionless_ant_out_of_the_ring(rng):
    """In 32 matches the pusher won 27 and drew 5."""
    game = overtrick.make("sumo", reward="result")
    players = [PLAYERS[name](game) for name in ("pusher", "motionless")]
    outcome = play(game, players, 12, rng).outcome[:, 0]
    assert (outcome == 1).sum() >= 7
    assert (outcome >= 0).all()


def test_the_circler_walks_around_the_centre_counter_clockwise(rng):
    game = overtrick.make("sumo", integrator="euler")
    state = game.start(game.deal(8, rng))
    session = PLAYERS["circler"](game).start(8, rng)
    angle = []
    for _ in range(100):
        x, y, _ = torso_positions(state.position).T
        angle.append(np.arctan2(y, x))
        observations = game.observe(state)
        game.step(state, observations, session.act(observations).action)
    assert not state.over.any()  # both ants walk, on opposite sides
    turned = np.unwrap(np.array(angle), axis=0)
    turned = turned[-1] - turned[0]
    assert (turned > 0.5).all()
    radius = np.hypot(x, y)
    assert (radius > 0.7).all()
    assert (radius < 1.6).all()
