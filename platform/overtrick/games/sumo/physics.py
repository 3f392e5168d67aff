"""Many fights side by side in MuJoCo, which remembers nothing of them from step to step."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, NamedTuple

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError

from overtrick.core import Array
from overtrick.games.sumo.mujoco_model import ANTS, BODIES, TIMESTEP, build

log = logging.getLogger(__name__)

SUBSTEPS = 5  # of MuJoCo, for which the motors hold
STEP_SECONDS = SUBSTEPS * TIMESTEP  # of a step
BATCH_SIZE = 64  # fights that MuJoCo holds at once


class Bodies(NamedTuple):
    """Where n fights are: the first three are all that their next moment depends on."""

    position: Array  # (n, 30) both ants: x, y, z in m, quaternion w x y z, eight hinges in rad
    velocity: Array  # (n, 28) both ants: m/s in the world, rad/s of the body, rad/s of the hinges
    warm: Array  # (n, 28) accelerations from which MuJoCo's solver starts
    force: Array  # (n, 2, 13, 6) on each body by contacts: torque N m, force N, in world axes


@dataclass(frozen=True)
class Physics:
    """How fights are simulated.

    integrator: rk4 as in RoboSumo, or euler. forces: of a step's last Runge-Kutta stage, which fits
    what AgentZoo was trained with, or of its first, which MuJoCo computes by itself. threads: of
    MuJoCo; results do not depend on them.
    """

    integrator: Literal["rk4", "euler"] = "rk4"
    forces: Literal["last", "first"] = "last"
    threads: int = 1

    def advance(self, bodies: Bodies, control: Array) -> Bodies:
        """The fights one step later, under control (n, 16): the share of each motor's torque, which
        MuJoCo holds within -1 and 1. A fight that it could not follow is not a number."""
        return self._run(bodies, control)

    def settle(self, position: Array, velocity: Array) -> Bodies:
        """The fights that begin there: (n, 30) and (n, 28)."""
        n = len(position)
        start = Bodies(position, velocity, np.zeros_like(velocity), np.empty((n, ANTS, BODIES, 6)))
        return self._run(start, None)

    def _run(self, bodies: Bodies, control: Array | None) -> Bodies:
        sim = _simulator(self)
        parts = []
        for first in range(0, len(bodies.position), BATCH_SIZE):
            some = slice(first, first + BATCH_SIZE)
            part = Bodies(*(each[some] for each in bodies))
            parts.append(sim.run(part, None if control is None else control[some]))
        if not parts:
            return bodies
        return Bodies(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class _Simulator:
    """MuJoCo's memory for so many fights; it remembers nothing of them."""

    def __init__(self, physics: Physics) -> None:
        self.first = physics.forces == "first"
        self.model = build(physics.integrator, self.first)
        self.batch = Batch(self.model, BATCH_SIZE, physics.threads, persistent=not self.first)
        self.data = mujoco.MjData(self.model)
        names = ("qpos", "qvel", "qacc_warmstart", "ctrl")
        self.position, self.velocity, self.warm, self.control = map(self.batch.bind, names)
        self.force = self.batch.bind("cfrc_ext") if self.first else None

    def run(self, bodies: Bodies, control: Array | None) -> Bodies:
        n = len(bodies.position)
        self.position[:n], self.velocity[:n] = bodies.position, bodies.velocity
        self.warm[:n] = bodies.warm
        rows = np.arange(n)
        if control is None:
            self.control[:n] = 0
            self.batch.forward(rows)
        else:
            self.control[:n] = control
            try:
                self.batch.step(rows, nstep=SUBSTEPS)
            except SimulationError as error:  # too many contacts: ants that were flung into the mat
                self.position[error.ids] = np.nan
        force = self._last_forces(n) if self.force is None else self.force[:n, 1:].copy()
        state = (self.position[:n].copy(), self.velocity[:n].copy(), self.warm[:n].copy())
        return Bodies(*state, force.reshape(n, ANTS, BODIES, 6))

    def _last_forces(self, n: int) -> Array:
        """(n, 26, 6) contact forces of the stage that was computed last."""
        force = np.empty((n, ANTS * BODIES, 6))
        for k in range(n):
            self.batch.get_data(k, self.data)
            mujoco.mj_rnePostConstraint(self.model, self.data)
            force[k] = self.data.cfrc_ext[1:]
        return force


# MuJoCo would write into a file of the working directory: what goes wrong is seen in the numbers
mujoco.set_mju_user_warning(log.debug)

_simulators: dict[Physics, _Simulator] = {}


def _simulator(physics: Physics) -> _Simulator:
    """Made once by each process: 20 MB and some milliseconds."""
    if physics not in _simulators:
        _simulators[physics] = _Simulator(physics)
    return _simulators[physics]
