"""Measure steps of sumo per second with observations, beside bare steps of MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
from tests.bench.measure import Result, in_turns

import overtrick
from overtrick.core import select_rows
from overtrick.games.sumo import mujoco_model
from overtrick.games.sumo.game import Sumo, SumoState
from overtrick.games.sumo.physics import SUBSTEPS

MATCHES, STEPS, ROUNDS = 64, 20, 7


def run() -> Result:
    """Simulate the same matches under the same torques in plain MuJoCo without observations.

    Models and memory are made before the measurement.
    """
    game = overtrick.make("sumo")
    begin = game.start(game.deal(MATCHES, np.random.default_rng(0)))
    model = mujoco_model.build()
    data = [mujoco.MjData(model) for _ in range(MATCHES)]
    ours, peer = in_turns(lambda: play(game, begin), lambda: bare(model, data, begin), ROUNDS)
    return Result(
        name="sumo_steps",
        work=f"{MATCHES} matches of {STEPS} steps of 0.05 s under random torques, one thread; "
        "ours with observations, forces and rewards, peer mj_step alone",
        ours=MATCHES * STEPS / ours,
        peer=MATCHES * STEPS / peer,
        peer_name="mj_step / 5",
        unit="steps/s",
        ratio=peer / ours,
        goal=0.9,
    )


def play(game: Sumo, begin: SumoState) -> None:
    """Play all steps of all matches; no match ends earlier."""
    state = select_rows(begin, np.arange(MATCHES))
    for control in torques():
        game.step(state, game.observe(state), control.reshape(-1, 8))
    assert not state.over.any()


def bare(model: mujoco.MjModel, data: list[mujoco.MjData], begin: SumoState) -> None:
    """Simulate the same matches in plain MuJoCo."""
    for one, position, velocity in zip(data, begin.position, begin.velocity, strict=True):
        mujoco.mj_resetData(model, one)
        one.qpos[:], one.qvel[:] = position, velocity
    for control in torques():
        for one, torque in zip(data, control, strict=True):
            one.ctrl[:] = torque
            mujoco.mj_step(model, one, SUBSTEPS)


def torques() -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, (STEPS, MATCHES, 16))
