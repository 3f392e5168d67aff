"""The symmetries of sumo: a match rotated by quarter turns or reflected is the same match."""

from __future__ import annotations

import numpy as np
import pytest
from data import DATA, needed

import overtrick
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.sumo import agent_zoo
from overtrick.games.sumo.observation import (
    FIELDS,
    from_world,
    in_world_axes,
    quarter_turns_to_opponent,
    reflected,
    rotated,
)
from overtrick.policies.rollout import play

STEPS = 12


def stepped(game, deals, controls):
    """Return the observations of both ants before each step, and the points of it, with actions in
    world coordinates."""
    state = game.start(deals)
    observed, points = [], []
    for control in controls:
        observations = game.observe(state)
        observed.append(observations.observation)
        _, view = in_world_axes(observations.observation)
        points.append(game.step(state, observations, from_world(control, view)))
    return np.array(observed), np.array(points)


def quarter_turned(values):
    return rotated(values, np.ones(len(values), int))


def transformed_state(game, deals, transformed):
    """Return the start of these matches, rotated or reflected by the function `transformed`."""
    state = game.start(deals)
    now = transformed(game.observe(state).observation).reshape(-1, 2, 120)
    state.position[:] = now[:, :, :15].reshape(len(deals), -1)
    state.position[:, [2, 17]] += 0.5  # heights are observed above the mat
    state.velocity[:] = now[:, :, 15:29].reshape(len(deals), -1)
    return state


@pytest.fixture
def controls(rng):
    return rng.uniform(-1, 1, (STEPS, 6, 8))


@pytest.mark.parametrize("transformed", [quarter_turned, reflected])
def test_the_simulator_commutes_with_its_symmetries(rng, controls, transformed):
    game = overtrick.make("sumo", integrator="euler")
    deals = game.deal(3, rng)
    plain, other = game.start(deals), transformed_state(game, deals, transformed)
    plain.warmstart[:] = other.warmstart[:] = 0  # the solver's start values are not transformed
    for step, control in enumerate(controls):
        game.step(plain, game.observe(plain), control)
        game.step(other, game.observe(other), transformed(control))
        expected, observed = (
            transformed(game.observe(plain).observation),
            game.observe(other).observation,
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


def test_two_reflections_are_the_identity_and_reverse_a_turn(rng):
    for wide in (8, 120):
        values = rng.normal(size=(4, wide))
        turns = np.arange(4)
        assert np.array_equal(reflected(reflected(values)), values)
        reversed_turns = reflected(rotated(reflected(values), turns))
        assert np.array_equal(reversed_turns, rotated(values, -turns))


@pytest.mark.parametrize("view", ["ahead", "ahead_left"])
def test_a_view_is_the_same_match_with_the_other_ant_ahead(rng, controls, view):
    world = overtrick.make("sumo", integrator="euler")
    ahead = overtrick.make("sumo", integrator="euler", view=view)
    deals = world.deal(3, rng)
    observed, points = stepped(world, deals, controls)
    from_ahead, same_points = stepped(ahead, deals, controls)
    assert np.array_equal(points, same_points)
    assert (from_ahead[:, :, 120:].reshape(STEPS * 6, -1).max(axis=0) > 0).all()
    for now, before in zip(from_ahead, observed, strict=True):
        assert np.array_equal(in_world_axes(now)[0], before)
        assert not quarter_turns_to_opponent(now[:, :120]).any()
        y = now[:, FIELDS.index("other_y")] - now[:, FIELDS.index("own_y")]
        assert view == "ahead" or (y >= 0).all()
    assert ahead.features(ahead.observe(ahead.start(deals))).shape[1] == 120
    words = [ahead.describe(row) for row in from_ahead[0]]
    assert words == [world.describe(row) for row in observed[0]]


@pytest.mark.parametrize("view", ["world", "ahead"])
def test_a_stored_network_plays_the_same_match_in_a_game_with_another_view(view):
    def points(view):
        game = overtrick.make("sumo", integrator="euler", view=view)
        champion = make_opponent("champion:sumo", game, None)  # trained in the view ahead_left
        standing = make_opponent("motionless", game, None)
        deals = game.deal(3, np.random.default_rng(4))
        return play(game, [champion, standing], deals, np.random.default_rng(5)).payoff

    assert np.array_equal(points(view), points("ahead_left"))


def test_agentzoo_plays_in_world_coordinates_in_every_view(rng):
    policy = agent_zoo.load("zoo:mlp1", str(needed(DATA / "agentzoo")))
    policy.sample = False
    deals = overtrick.make("sumo").deal(8, rng)
    seen = {}
    for view in ("world", "ahead", "ahead_left"):
        game = overtrick.make("sumo", view=view)
        seen[view] = game.observe(game.start(deals))
    acted = {v: policy.start(8, rng).act(each).action for v, each in seen.items()}
    for view in ("ahead", "ahead_left"):
        _, symmetry = in_world_axes(seen[view].observation)
        assert symmetry.any(axis=0).all()
        assert np.allclose(from_world(acted["world"], symmetry), acted[view])
