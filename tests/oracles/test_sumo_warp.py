"""Sumo on MuJoCo Warp beside the same measurements, and beside MuJoCo itself."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles.test_sumo import CONTROL, HEIGHTS

import overtrick
from overtrick.core import RunError
from overtrick.games.sumo import physics, warp_simulator
from overtrick.games.sumo.physics import Physics

pytest.importorskip(
    "mujoco_warp", reason="MuJoCo Warp is not installed: pip install 'overtrick[warp]'"
)


def after(steps, control=(0.0,) * 8):
    """Return a match that begins without noise after some steps with constant torques."""
    game = overtrick.make("sumo", engine="warp")
    state = game.start(np.zeros((1, 59)))
    for _ in range(steps):
        game.step(state, game.observe(state), np.tile(control, (2, 1)))
    return state


@pytest.mark.parametrize(("steps", "height"), HEIGHTS)
def test_a_motionless_ant_falls_and_stands_as_measured(steps, height):
    state = after(steps)
    assert state.position[0, 2] == pytest.approx(height, abs=2e-5)
    if steps == 1:
        ankles = state.position[0, [8, 10, 12, 14]]
        assert ankles == pytest.approx([-0.4241, 0.4241, -0.4241, 0.4241], abs=1e-4)
    if steps >= 20:  # the mat bears its weight
        assert state.force[0, 0, :, 5].sum() == pytest.approx(22.412, abs=5e-3)


def test_an_ant_under_constant_torques_is_where_it_was_measured():
    """A foot touches the mat so near to a time step that rounding decides which one it is: of
    200 starts that differ by 1e-7, MuJoCo itself moves a tenth of them by 1.4 mm."""
    now = after(10, CONTROL).position[0]
    assert now[:3] == pytest.approx([1.1627, -0.2278, 1.0167], abs=2e-3)
    assert now[3:7] == pytest.approx([0.9742, 0.2216, -0.0093, -0.0411], abs=2e-3)


@pytest.mark.parametrize("options", [{}, {"integrator": "euler"}, {"forces": "first"}], ids=str)
def test_matches_are_those_of_mujoco_until_an_ant_touches_something(options, rng):
    """Afterwards rounding can shift a contact by a time step, and the median still agrees."""
    mujoco = overtrick.make("sumo", **options)
    warp = overtrick.make("sumo", engine="warp", **options)
    deals = mujoco.deal(32, rng)
    one, two = mujoco.start(deals), warp.start(deals)
    touched = np.zeros(32, bool)
    for _ in range(10):
        action = rng.uniform(-1, 1, (64, 8))
        for game, state in ((mujoco, one), (warp, two)):
            assert not state.over.any()
            game.step(state, game.observe(state), action)
        touched |= one.force.reshape(32, -1).any(axis=1) | two.force.reshape(32, -1).any(axis=1)
        gap = np.abs(two.position - one.position).max(axis=1)
        assert (gap[~touched] < 1e-4).all()
    assert touched.mean() > 0.5
    assert np.median(gap) < 1e-3
    assert np.median(np.abs(two.force - one.force).reshape(32, -1).max(axis=1)) < 1


def test_a_match_that_becomes_nan_is_a_draw_and_the_others_go_on(rng):
    game = overtrick.make("sumo", reward="main", engine="warp")
    state = game.start(game.deal(3, rng))
    state.velocity[1] = 1e30
    points = game.step(state, game.observe(state), np.zeros((6, 8)))
    assert points.tolist() == [[0, 0], [-1000, -1000], [0, 0]]
    assert state.diverged_games.tolist() == [False, True, False]


@pytest.fixture
def small_room(monkeypatch):
    """Let the simulators of a test have room for few constraints or contacts."""
    physics._simulator.cache_clear()
    yield lambda **room: [
        monkeypatch.setattr(warp_simulator, name, count) for name, count in room.items()
    ]
    physics._simulator.cache_clear()


def stand(rng):
    """Let motionless ants fall on the mat until their matches are over."""
    game = overtrick.make("sumo", reward="main", engine="warp")
    state = game.start(game.deal(4, rng))
    while len(rows := game.observe(state)):
        game.step(state, rows, np.zeros((len(rows), 8)))
    return state


def test_a_match_with_more_constraints_than_there_is_room_for_is_a_draw(rng, small_room):
    small_room(CONSTRAINTS=24)  # each of eight feet on the mat needs four
    assert stand(rng).diverged_games.all()


def test_more_contacts_than_there_is_room_for_end_the_run(rng, small_room):
    small_room(CONTACTS=4)
    with pytest.raises(RunError, match="4 matches have more contacts"):
        stand(rng)


def test_matches_beyond_a_batch_are_simulated_too(rng, monkeypatch):
    game = overtrick.make("sumo", engine="warp")
    start = game.start(game.deal(5, rng))
    control = rng.uniform(-1, 1, (5, 16))
    whole = Physics(engine="warp").advance(start.bodies(np.arange(5)), control)
    monkeypatch.setattr(physics, "WARP_BATCH_SIZE", 2)
    parts = Physics(engine="warp").advance(start.bodies(np.arange(5)), control)
    assert parts.position == pytest.approx(whole.position, abs=1e-6)
