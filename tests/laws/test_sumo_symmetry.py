"""The symmetry of sumo: a match rotated by quarter turns is the same match."""

from __future__ import annotations

import numpy as np
import pytest
from data import DATA, needed

import overtrick
from overtrick.games.sumo import agent_zoo
from overtrick.games.sumo.observation import FIELDS, quarter_turns_to_opponent, rotated

STEPS = 12


def stepped(game, deals, controls, view="world"):
    """Return the observations of both ants before each step, and the points of it, with actions in
    world coordinates."""
    state = game.start(deals)
    observed, points = [], []
    for control in controls:
        observations = game.observe(state)
        observed.append(observations.observation)
        action = control
        if view == "ahead":
            action = rotated(control, -observations.observation[:, -1].astype(int))
        points.append(game.step(state, observations, action))
    return np.array(observed), np.array(points)


def rotated_state(game, deals):
    """Return the start of these matches, rotated by a quarter turn."""
    state = game.start(deals)
    rows = game.observe(state).observation
    now = rotated(rows, np.ones(len(rows), int)).reshape(-1, 2, 120)
    state.position[:] = now[:, :, :15].reshape(len(deals), -1)
    state.position[:, [2, 17]] += 0.5  # heights are observed above the mat
    state.velocity[:] = now[:, :, 15:29].reshape(len(deals), -1)
    return state


@pytest.fixture
def controls(rng):
    return rng.uniform(-1, 1, (STEPS, 6, 8))


def test_the_simulator_commutes_with_rotation(rng, controls):
    game = overtrick.make("sumo", integrator="euler")
    deals = game.deal(3, rng)
    plain, around = game.start(deals), rotated_state(game, deals)
    plain.warmstart[:] = around.warmstart[:] = 0  # the solver's start values are not rotated
    once = np.ones(6, int)
    for step, control in enumerate(controls):
        game.step(plain, game.observe(plain), control)
        game.step(around, game.observe(around), rotated(control, once))
        expected, observed = (
            rotated(game.observe(plain).observation, once),
            game.observe(around).observation,
        )
        if step < 4:  # in the air
            assert np.allclose(observed, expected, atol=1e-9)
    # after landing only nearly
    moved = [k for k, name in enumerate(FIELDS) if name.startswith(("own", "angle_hip"))]
    assert np.allclose(observed[:, moved], expected[:, moved], atol=0.01)


def test_four_quarter_turns_are_the_identity(rng):
    for wide in (8, 120):
        values = rng.normal(size=(4, wide))
        turns = np.arange(4)
        assert np.array_equal(rotated(rotated(values, turns), -turns), values)
        assert np.array_equal(rotated(values, turns + 4), rotated(values, turns))


def test_the_view_ahead_is_the_same_match_with_the_other_ant_ahead(rng, controls):
    world = overtrick.make("sumo", integrator="euler")
    ahead = overtrick.make("sumo", integrator="euler", view="ahead")
    deals = world.deal(3, rng)
    observed, points = stepped(world, deals, controls)
    from_ahead, same_points = stepped(ahead, deals, controls, "ahead")
    assert np.array_equal(points, same_points)
    turns = from_ahead[:, :, -1].astype(int)
    assert len(np.unique(turns)) > 1
    for now, before, observations in zip(from_ahead, observed, turns, strict=True):
        assert np.array_equal(rotated(now[:, :-1], observations), before)
        assert not quarter_turns_to_opponent(now[:, :-1]).any()
    assert ahead.features(ahead.observe(ahead.start(deals))).shape[1] == 120
    words = [ahead.describe(row) for row in from_ahead[0]]
    assert words == [world.describe(row) for row in observed[0]]


def test_agentzoo_plays_in_world_coordinates_in_every_view(rng):
    policy = agent_zoo.load("zoo:mlp1", str(needed(DATA / "agentzoo")))
    policy.sample = False
    deals = overtrick.make("sumo").deal(3, rng)
    turns = {}
    for view in ("world", "ahead"):
        game = overtrick.make("sumo", view=view)
        turns[view] = game.observe(game.start(deals))
    acted = {v: policy.start(3, rng).act(observations).action for v, observations in turns.items()}
    away = turns["ahead"].observation[:, -1].astype(int)
    assert away.any()
    assert np.allclose(rotated(acted["ahead"], away), acted["world"])
