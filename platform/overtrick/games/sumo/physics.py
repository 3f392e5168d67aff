"""Batched MuJoCo simulation of sumo matches; `Bodies` holds the complete state of a match."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from overtrick.core import Array
from overtrick.core.lazy_modules import mujoco
from overtrick.games.sumo.mujoco_model import ANTS, BODIES, TIMESTEP, build

if TYPE_CHECKING:
    from overtrick.games.sumo.warp_simulator import WarpSimulator

log = logging.getLogger(__name__)

SUBSTEPS = 5  # MuJoCo steps per step of the game, in which the torques are constant
STEP_SECONDS = SUBSTEPS * TIMESTEP
BATCH_SIZE = 64  # matches that one MuJoCo batch simulates side by side
WARP_BATCH_SIZE = 4096  # most matches that MuJoCo Warp simulates side by side


class Bodies(NamedTuple):
    """Physical state of n matches.

    The next state depends on position, velocity and warmstart alone.
    """

    position: Array  # (n, 30) both ants: x, y, z in m, quaternion w x y z, eight hinges in rad
    velocity: Array  # (n, 28) both ants: m/s in the world, rad/s of the body, rad/s of the hinges
    warmstart: Array  # (n, 28) accelerations from which MuJoCo's solver starts
    force: Array  # (n, 2, 13, 6) contact torque in N m and force in N on each body, world frame


@dataclass(frozen=True)
class Physics:
    """Simulation of sumo matches with given settings.

    `integrator`: `rk4` as in RoboSumo, or `euler`, which is 3.7 times as fast.
    `forces`: observe the contact forces of the `first` or the `last` Runge-Kutta stage. AgentZoo's
        policies were trained with `last`. MuJoCo computes `first` without extra work.
    `threads`: number of MuJoCo's threads; results do not depend on it.
    `engine`: `mujoco`, or `warp` for MuJoCo Warp (extra `warp`), which runs on a GPU in single
        precision. Its results differ by rounding, also between two runs.
    """

    integrator: Literal["rk4", "euler"] = "rk4"
    forces: Literal["last", "first"] = "last"
    threads: int = 1
    engine: Literal["mujoco", "warp"] = "mujoco"

    def settle(self, position: Array, velocity: Array) -> Bodies:
        """Return the state of n new matches at given positions and velocities, with contact forces.

        `position`: (n, 30), `velocity`: (n, 28), as in `Bodies`.
        """
        n = len(position)
        start = Bodies(position, velocity, np.zeros_like(velocity), np.empty((n, ANTS, BODIES, 6)))
        return self.advance(start, None)

    def advance(self, bodies: Bodies, control: Array | None) -> Bodies:
        """Return the physical state of n matches one game step (0.05 s) later.

        `control`: (n, 16) each motor's torque as a fraction of its maximum, which MuJoCo clips to
        -1 and 1. If `control` is None, no time passes: only the forces and accelerations are
        computed. A match whose simulation diverges is returned as NaN.
        """
        count = len(bodies.position)
        if not count:
            return bodies
        size = BATCH_SIZE
        if self.engine == "warp":
            # a power of two, because each size keeps a simulator in memory
            size = min(WARP_BATCH_SIZE, 1 << (count - 1).bit_length())
        simulator = _simulator(self, size)
        batches = []
        for first in range(0, count, size):
            rows = slice(first, first + size)
            batch = Bodies(*(each[rows] for each in bodies))
            batches.append(simulator.run(batch, None if control is None else control[rows]))
        return Bodies(*(np.concatenate(each) for each in zip(*batches, strict=True)))


class _Simulator:
    """Simulator of up to BATCH_SIZE matches; each call overwrites MuJoCo's buffers."""

    def __init__(self, physics: Physics) -> None:
        # MuJoCo would write warnings to a file in the working folder; diverged matches show as NaN
        mujoco.set_mju_user_warning(log.debug)
        from mujoco.batch import Batch

        self.first = physics.forces == "first"
        self.model = build(physics.integrator, self.first)
        self.batch = Batch(self.model, BATCH_SIZE, physics.threads, persistent=not self.first)
        self.data = mujoco.MjData(self.model)
        names = ("qpos", "qvel", "qacc_warmstart", "ctrl")
        self.position, self.velocity, self.warmstart, self.control = map(self.batch.bind, names)
        self.force = self.batch.bind("cfrc_ext") if self.first else None

    def run(self, bodies: Bodies, control: Array | None) -> Bodies:
        """Simulate one game step of at most BATCH_SIZE matches.

        If `control` is None, no time passes: only the forces and accelerations are computed.
        """
        n = len(bodies.position)
        self.position[:n], self.velocity[:n] = bodies.position, bodies.velocity
        self.warmstart[:n] = bodies.warmstart
        rows = np.arange(n)
        if control is None:
            self.control[:n] = 0
            self.batch.forward(rows)
        else:
            self.control[:n] = control
            from mujoco.batch import SimulationError

            try:
                self.batch.step(rows, nstep=SUBSTEPS)
            except SimulationError as error:  # too many contacts, as of ants flung into the mat
                self.position[error.ids] = np.nan
        force = self._last_forces(n) if self.force is None else self.force[:n, 1:].copy()
        buffers = (self.position, self.velocity, self.warmstart)
        position, velocity, warmstart = (each[:n].copy() for each in buffers)
        return Bodies(position, velocity, warmstart, force.reshape(n, ANTS, BODIES, 6))

    def _last_forces(self, n: int) -> Array:
        """Return contact torques and forces (n, 26, 6) in the last Runge-Kutta stage of the step.

        The first axis has the first n matches of the batch, the second the 13 bodies of ant 0 and
        of ant 1.
        """
        force = np.empty((n, ANTS * BODIES, 6))
        for k in range(n):
            self.batch.get_data(k, self.data)
            mujoco.mj_rnePostConstraint(self.model, self.data)
            force[k] = self.data.cfrc_ext[1:]
        return force


@cache
def _simulator(physics: Physics, size: int) -> _Simulator | WarpSimulator:
    """Return the simulator of `size` matches at a time (for MuJoCo BATCH_SIZE).

    Each process makes it once. MuJoCo's takes 20 MB.
    """
    if physics.engine == "warp":
        from overtrick.games.sumo.warp_simulator import WarpSimulator

        return WarpSimulator(physics.integrator, physics.forces == "first", size)
    return _Simulator(physics)
