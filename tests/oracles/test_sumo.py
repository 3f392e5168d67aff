"""Sumo beside measurements of RoboSumo's scene and of AgentZoo's parameter files."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch, SimulationError
from tests.data import DATA, needed

import overtrick
from overtrick.core import Observations, UserError
from overtrick.evaluation.reference_opponents import make_opponent
from overtrick.games.sumo import agent_zoo, mujoco_model
from overtrick.games.sumo.game import FALLEN_HEIGHT, STEP_LIMIT, ant_observations
from overtrick.games.sumo.observation import FIELDS
from overtrick.games.sumo.physics import Bodies, Physics
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformVectorPolicy

HEIGHTS = [(1, 1.27213), (5, 1.11882), (20, 1.08596), (100, 1.07213)]
"""Steps of a motionless ant, and the height of its torso in m above the floor."""

CONTROL = [0.5, -0.5, 0.3, 0.3, -0.2, 0.4, 0.1, -0.6]

# deterministic actions at the stored mean observation, and at zeros
GOLDEN = {
    "mlp1": (
        [-0.2181, 0.3377, 0.0348, -0.1932, 0.0283, 0.3966, 0.1335, -0.1119],
        [-0.4530, 0.2321, -0.2959, 0.5161, 0.6661, -0.0023, -0.1222, -0.2115],
    ),
    "mlp2": (
        [-0.1586, 0.3731, 0.0498, -0.2367, 0.0013, 0.3900, 0.0577, -0.1359],
        [-0.3219, 0.3728, -0.2230, 0.5230, 0.6244, -0.0399, -0.1444, -0.3660],
    ),
    "mlp3": (
        [-0.1762, 0.3368, 0.0801, -0.2156, -0.0179, 0.3746, 0.1005, -0.0944],
        [-0.1671, 0.3890, 0.0173, 0.4326, 0.5068, -0.1801, -0.0924, -0.3037],
    ),
    "lstm1": (
        [0.0511, 0.0130, -0.0247, 0.0072, -0.0690, 0.0074, 0.0198, -0.0310],
        [-0.0453, 0.6792, -0.0973, -0.1509, 0.0907, 0.2190, 0.3216, -0.3903],
    ),
    "lstm2": (
        [0.0542, -0.0035, -0.0323, 0.0234, -0.0626, -0.0087, 0.0160, -0.0169],
        [-0.0447, 0.6661, -0.2106, -0.1677, 0.1938, 0.2507, 0.3914, -0.4560],
    ),
    "lstm3": (
        [0.0561, -0.0023, -0.0315, 0.0182, -0.0690, -0.0026, 0.0187, -0.0187],
        [-0.0351, 0.6371, -0.1717, -0.1976, 0.1369, 0.2663, 0.4194, -0.4389],
    ),
}


@pytest.fixture(scope="module")
def folder():
    """Return the folder of AgentZoo's parameter files, if this machine has it."""
    return str(needed(DATA / "agentzoo"))


def at_rest():
    """Return a match that begins without noise, at angle 0."""
    game = overtrick.make("sumo")
    return game, game.start(np.zeros((1, 59)))


def after(steps, control=(0.0,) * 8):
    """Return the match after some steps with constant torques of both ants."""
    game, state = at_rest()
    for _ in range(steps):
        game.step(state, game.observe(state), np.tile(control, (2, 1)))
    return state


def one_observation(observation):
    return Observations(np.array([0]), np.array([0]), np.asarray(observation)[None], None, None)


def test_the_scene_has_the_parts_of_robosumo():
    model = mujoco_model.build()
    sizes = (model.nq, model.nv, model.nu, model.nbody, model.ngeom, model.njnt)
    assert sizes == (30, 28, 16, 27, 32, 18)
    assert model.opt.timestep == 0.01
    assert model.body_mass.sum() / 2 == pytest.approx(2.2846, abs=1e-4)
    assert (model.geom_margin == 0.005).all()
    hinges = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
    assert np.degrees(model.jnt_range[hinges][:8]).round(9).tolist() == [
        [-30, 30], [-70, -30], [-30, 30], [30, 70], [-30, 30], [-70, -30], [-30, 30], [30, 70],
    ]  # fmt: skip


@pytest.mark.parametrize(("steps", "height"), HEIGHTS)
def test_a_motionless_ant_falls_and_stands_as_measured(steps, height):
    state = after(steps)
    assert state.position[0, 2] == pytest.approx(height, abs=1e-5)
    if steps == 1:
        ankles = state.position[0, [8, 10, 12, 14]]
        assert ankles == pytest.approx([-0.4241, 0.4241, -0.4241, 0.4241], abs=1e-4)
    if steps >= 20:  # the mat bears its weight
        assert state.force[0, 0, :, 5].sum() == pytest.approx(22.412, abs=1e-3)


def test_an_ant_under_constant_torques_is_where_it_was_measured():
    now = after(10, CONTROL).position[0]
    assert now[:3] == pytest.approx([1.1627, -0.2278, 1.0167], abs=1e-4)
    assert now[3:7] == pytest.approx([0.9742, 0.2216, -0.0093, -0.0411], abs=1e-4)


def test_an_ant_of_modern_mujoco_falls_and_stands_as_measured_too():
    """The same scene with exact capsules, and margins at their intended larger values."""
    model = mujoco_model.build()
    capsules = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE)
    ants = model.geom_bodyid > 0
    model.geom_margin[:] = np.where(ants, 0.01, 0)
    for geom in capsules:
        radius, half, _ = model.geom_size[geom]
        tube = 13 * np.pi * radius**2 * 2 * half
        balls = 13 * np.pi * radius**3 * 4 / 3
        across = (
            tube * (3 * radius**2 + 4 * half**2) / 12
            + balls * (2 / 5 * radius**2 + half**2 + 3 / 4 * radius * half)
        )  # fmt: skip
        body = model.geom_bodyid[geom]
        model.body_mass[body] = tube + balls
        model.body_inertia[body] = across, across, radius**2 * (tube / 2 + balls * 2 / 5)
    assert model.body_mass.sum() / 2 == pytest.approx(2.3683, abs=1e-4)
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    mujoco.mj_resetData(model, data)
    for steps, height in ((1, 1.27229), (4, 1.11786), (15, 1.08845), (80, 1.07530)):
        mujoco.mj_step(model, data, 5 * steps)
        assert data.qpos[2] == pytest.approx(height, abs=1e-5)


def test_batched_matches_equal_single_matches_in_plain_mujoco(rng):
    """Bit by bit, with the forces of the stage that was computed last."""
    game = overtrick.make("sumo")
    state = game.start(game.deal(3, rng))
    controls = rng.uniform(-1.5, 1.5, (12, 3, 2, 8))
    model = mujoco_model.build()
    single = [mujoco.MjData(model) for _ in range(3)]
    for data, position, velocity in zip(single, state.position, state.velocity, strict=True):
        data.qpos[:], data.qvel[:] = position, velocity
        mujoco.mj_forward(model, data)
        data.qacc_warmstart[:] = state.warmstart[single.index(data)]
    for control in controls:
        game.step(state, game.observe(state), control.reshape(6, 8))
        for match, data in enumerate(single):
            data.ctrl[:] = control[match].ravel()
            mujoco.mj_step(model, data, 5)
            mujoco.mj_rnePostConstraint(model, data)
            assert np.array_equal(state.position[match], data.qpos)
            assert np.array_equal(state.velocity[match], data.qvel)
            assert np.array_equal(state.force[match].reshape(26, 6), data.cfrc_ext[1:])


def test_an_ant_observes_120_numbers_in_the_documented_order():
    state = after(20)
    bodies = state.bodies(np.array([0]))
    bodies.force[0, 0, 1] = [-300, 5, -6, 7, 8, 250]  # on a leg's root
    own, other = ant_observations(bodies)[0]
    named = dict(zip(FIELDS, own, strict=True))
    assert len(FIELDS) == len(set(FIELDS)) == 120
    assert own[:15] == pytest.approx(state.position[0, :15] - np.eye(15)[2] / 2)
    assert own[15:29] == pytest.approx(state.velocity[0, :14])
    assert own[35:41].tolist() == [100, 5, 6, 7, 8, 100]
    assert named["front_left_root_torque_x"] == named["front_left_root_force_z"] == 100
    assert own[107:114] == pytest.approx(other[:7])
    assert own[114:120] == pytest.approx(other[29:35])


def placed(ants, reward="shaped"):
    """Return a match with torsos at (x, y, height); low ones on their back."""
    game, (_, state) = overtrick.make("sumo", reward=reward), at_rest()
    for ant, (x, y, height) in enumerate(ants):
        state.position[0, 15 * ant : 15 * ant + 3] = x, y, height + 0.5
        state.position[0, 15 * ant + 3 : 15 * ant + 7] = np.eye(4)[
            0 if height > FALLEN_HEIGHT else 1
        ]
    return game, state


UP = 0.75  # m, where no leg touches the mat


@pytest.mark.parametrize(
    ("ants", "main"),
    [
        ([(0, 0, UP), (1, 1, UP)], [0, 0]),
        ([(0, 0, UP), (2.2, 0, UP)], [2000, -2000]),
        ([(0, -2.2, UP), (1, 1, UP)], [-2000, 2000]),
        ([(0, 0, 0.27), (1, 1, UP)], [-2000, 2000]),
        ([(0, -2.2, UP), (2.2, 0, UP)], [0, 0]),
    ],
)
def test_an_ant_that_leaves_the_ring_or_falls_loses(ants, main):
    game, state = placed(ants)
    before = state.position[0].reshape(2, 15)[:, :2].copy()
    action = np.array([[2.0] * 8, [0.5] * 8])
    points = game.step(state, game.observe(state), action)[0]
    now = state.position[0].reshape(2, 15)[:, :2]
    for seat, effort in enumerate((32, 2)):
        way = now[1 - seat] - before[seat]
        toward = (now[seat] - before[seat]) @ way / np.linalg.norm(way) / 0.05
        shaped = 0.1 * max(0, toward) - 10 * np.exp(-np.linalg.norm(now[1 - seat])) - 0.1 * effort
        assert points[seat] == pytest.approx(main[seat] + shaped, abs=1e-9)
    lost = any(abs(x) > 2.1 or abs(y) > 2.1 or z < 0.29 for x, y, z in ants)
    assert state.over[0] == lost


def test_nobody_wins_when_both_ants_lose_in_the_same_step():
    game, state = placed([(0, -2.2, UP), (2.2, 0, UP)], "wins")
    assert game.step(state, game.observe(state), np.zeros((2, 8)))[0].tolist() == [0, 0]
    assert state.over[0]


def test_a_match_ends_after_501_steps():
    game, (_, state) = overtrick.make("sumo", reward="main"), at_rest()
    state.steps[:] = STEP_LIMIT - 1
    still = np.zeros((2, 8))
    assert game.step(state, game.observe(state), still).tolist() == [[0, 0]]
    assert not state.over[0]
    assert game.step(state, game.observe(state), still).tolist() == [[-1000, -1000]]
    assert state.over[0]
    game, state = placed([(0, 0, UP), (2.2, 0, UP)], "main")
    state.steps[:] = STEP_LIMIT  # an ant that falls in that step loses as well
    assert game.step(state, game.observe(state), still).tolist() == [[1000, -3000]]


def test_a_match_that_mujoco_refuses_to_step_is_a_draw(rng, monkeypatch):
    """For example when ants collide with more contacts than its memory holds."""
    game = overtrick.make("sumo", reward="main")
    state, twin = (game.start(game.deal(3, np.random.default_rng(8))) for _ in range(2))
    right = Batch.step

    def stepped(batch, ids, nstep):
        right(batch, ids, nstep)
        raise SimulationError(np.array([1]), "out of memory", len(ids))

    still = np.zeros((6, 8))
    monkeypatch.setattr(Batch, "step", stepped)
    assert game.step(state, game.observe(state), still).tolist() == [[0, 0], [-1000, -1000], [0, 0]]
    monkeypatch.undo()
    game.step(twin, game.observe(twin), still)
    assert np.array_equal(state.position[[0, 2]], twin.position[[0, 2]])
    game.step(state, game.observe(state), still[:4])
    game.step(twin, game.observe(twin), still)
    assert np.array_equal(state.position[[0, 2]], twin.position[[0, 2]])


def test_a_match_that_becomes_nan_is_a_draw_and_the_others_go_on(rng, caplog):
    game = overtrick.make("sumo", reward="main")
    state = game.start(game.deal(3, rng))
    state.velocity[1] = 1e200
    points = game.step(state, game.observe(state), np.zeros((6, 8)))
    assert points.tolist() == [[0, 0], [-1000, -1000], [0, 0]]
    assert state.over.tolist() == state.diverged_games.tolist() == [False, True, False]
    assert np.isfinite(state.position).all()
    assert "1 matches became NaN by step 1 and count as draws" in caplog.text
    assert np.unique(game.observe(state).game).tolist() == [0, 2]


def test_forces_of_the_first_stage_do_not_change_the_movement(rng):
    position = np.tile(after(20).position, (2, 1))
    start = Physics().settle(position, rng.normal(0, 1, (2, 28)))
    control = rng.uniform(-1, 1, (2, 16))
    last, first = (Physics(forces=kind).advance(start, control) for kind in ("last", "first"))
    assert np.allclose(last.position, first.position, atol=1e-9)
    assert np.abs(last.force - first.force).max() > 1
    euler = Physics(integrator="euler").advance(start, control)
    assert 1e-6 < np.abs(euler.position - last.position).max() < 0.05


def test_zero_matches_can_be_advanced():
    nothing = Bodies(*(np.zeros((0, *shape)) for shape in [(30,), (28,), (28,), (2, 13, 6)]))
    assert len(Physics().advance(nothing, np.zeros((0, 16))).position) == 0


@pytest.mark.parametrize("name", GOLDEN)
def test_a_policy_of_agentzoo_acts_as_measured(folder, name):
    policy = agent_zoo.load(f"zoo:{name}", folder)
    policy.sample = False
    for observation, golden in zip((policy.mean, np.zeros(120)), GOLDEN[name], strict=True):
        (action,) = (
            policy.start(1, np.random.default_rng(0)).act(one_observation(observation)).action
        )
        assert action == pytest.approx(golden, abs=6e-5)


def test_a_policy_of_agentzoo_samples_around_its_mean(folder, rng):
    policy = agent_zoo.load("zoo:mlp3", folder)
    observations = Observations(
        np.arange(4000), np.zeros(4000, int), np.zeros((4000, 120)), None, None
    )
    choice = policy.start(4000, rng).act(observations)
    noise = choice.action - GOLDEN["mlp3"][1]
    std = np.exp(policy.log_std)
    assert noise.std(axis=0) == pytest.approx(std, rel=0.05)
    density = -np.square(noise / std) / 2 - np.log(std * np.sqrt(2 * np.pi))
    assert choice.logp == pytest.approx(density.sum(axis=1), abs=0.05)


def test_an_lstm_remembers_each_seat_of_each_match(folder, rng):
    """Two matches side by side, one of them every other time, equal each of them alone."""
    policy = agent_zoo.load("zoo:lstm2", folder)
    policy.sample = False
    observation = policy.mean + policy.std * rng.normal(size=(6, 2, 120))
    together = policy.start(2, rng)
    rows = [[0, 1], [0], [1], [0, 1], [1], [0]]
    acted = {0: [], 1: []}
    for step, games in enumerate(rows):
        at = np.array(games)
        observations = Observations(at, at, observation[step, at], None, None)
        for game, action in zip(games, together.act(observations).action, strict=True):
            acted[game].append(action)
    for game, actions in acted.items():
        single = policy.start(1, rng)
        steps = [step for step, games in enumerate(rows) if game in games]
        for step, action in zip(steps, actions, strict=True):
            assert np.allclose(
                single.act(one_observation(observation[step, game])).action[0], action
            )


def test_agentzoo_wins_against_random_actions_in_both_seats(folder):
    game = overtrick.make("sumo", reward="result", zoo=folder)
    strong, weak = make_opponent("zoo:lstm2", game, None), UniformVectorPolicy(8)
    seating = np.tile([[0, 1], [1, 0]], (10, 1))
    played = play(game, (strong, weak), 20, np.random.default_rng(5), seating, recorded=[0])
    won = np.where(seating == 0, played.payoff, 0).sum(axis=1)
    assert (won > 0).mean() >= 0.9
    assert 20 < len(played.batch) / 20 < 80  # steps of a match


def test_missing_or_invalid_zoo_files_are_refused_with_the_remedy(tmp_path):
    def refused(folder):
        with pytest.raises(UserError) as error:
            agent_zoo.load("zoo:mlp2", folder)
        return str(error.value)

    assert "set game.zoo (or OVERTRICK_ZOO) to the folder" in refused(None)
    assert f"there is no {tmp_path / 'mlp' / 'agent-params-v2.npy'}" in refused(str(tmp_path))
    (tmp_path / "mlp").mkdir()
    file = tmp_path / "mlp" / "agent-params-v2.npy"
    file.write_bytes(b"what is this")
    assert "is not a file of numbers" in refused(str(tmp_path))
    np.save(file, np.zeros(24_644, np.float32))
    assert "24644 numbers, but an mlp policy of AgentZoo has 24645" in refused(str(tmp_path))
    whole = file.read_bytes()
    np.save(file, np.ones((1, 24_645), np.float32))
    assert "1x24645 numbers, but an mlp policy of AgentZoo has 24645" in refused(str(tmp_path))
    np.save(file, np.float32(1))
    assert "1 numbers, but an mlp policy" in refused(str(tmp_path))
    for broken in (b"PK\x03\x04", whole[:5000], whole.replace(b"(24644,)", b"(9999999999999,)")):
        file.write_bytes(broken)
        assert "is not a file of numbers" in refused(str(tmp_path))
    np.save(file, np.zeros(24_645, np.float32))
    assert "its statistics count 0 observations" in refused(str(tmp_path))
    np.save(file, np.array(["text"]))
    assert "is not a file of numbers: fetch it again" in refused(str(tmp_path))
    np.save(file, np.full(24_645, np.nan, np.float32))
    assert "some of its numbers are NaN" in refused(str(tmp_path))
