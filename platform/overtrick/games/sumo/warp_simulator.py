"""Simulation of sumo matches by MuJoCo Warp: thousands of matches side by side on a GPU.

It computes in single precision. Without a GPU it runs on the CPU, slower than MuJoCo itself.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from overtrick.core import Array, RunError
from overtrick.core.lazy_modules import mujoco, mujoco_warp, warp
from overtrick.games.sumo.mujoco_model import ANTS, BODIES, build
from overtrick.games.sumo.physics import SUBSTEPS, Bodies

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

CONTACTS = 256  # pairs of geoms close to each other, per match; all matches share the room
CONSTRAINTS = 512  # per match: four for each contact, one for each hinge at its limit


class WarpSimulator:
    """Simulator of up to `capacity` matches; each call overwrites the arrays on the device.

    `first`: keep the contact forces of the first Runge-Kutta stage, not of the last.
    """

    def __init__(self, integrator: str, first: bool, capacity: int) -> None:
        self.capacity, self.first = capacity, first
        warp.config.quiet = True
        device = warp.get_preferred_device()
        if not device.is_cuda:
            log.warning("sumo: MuJoCo Warp finds no GPU; without one engine=mujoco is faster")
        model = build(integrator, first)
        # Warp never resets a match that becomes NaN, and refuses the flag that says so
        model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        with warp.ScopedDevice(device):
            self.model = mujoco_warp.put_model(model)
            self.model.opt.warn_overflow = 0  # `run` reports them
            self.data = mujoco_warp.make_data(
                model, nworld=capacity, nconmax=CONTACTS, njmax=CONSTRAINTS
            )
        self.device = device
        self.launchers: dict[bool, Callable[[], None]] = {}

    def run(self, bodies: Bodies, control: Array | None) -> Bodies:
        """Simulate one game step of at most `capacity` matches.

        If `control` is None, no time passes: only the forces and accelerations are computed. A
        match with more constraints than there is room for is returned as NaN. Raises RunError if
        all matches together have more contacts.
        """
        launch = self._launcher(control is not None)
        n, data = len(bodies.position), self.data
        rows = np.arange(self.capacity) % n  # matches beyond n are copies
        torques = np.zeros((n, self.model.nu)) if control is None else control
        for array, values in (
            (data.qpos, bodies.position), (data.qvel, bodies.velocity),
            (data.qacc_warmstart, bodies.warmstart), (data.ctrl, torques),
        ):  # fmt: skip
            array.assign(values[rows].astype(np.float32))
        launch()
        position, velocity, warmstart, force = (
            array.numpy()[:n].astype(float)
            for array in (data.qpos, data.qvel, data.qacc_warmstart, data.cfrc_ext)
        )
        overflow, kinds = data.overflow.numpy()[:n], mujoco_warp.OverflowType
        if (overflow & (kinds.BROADPHASE | kinds.NARROWPHASE)).any():
            raise RunError(
                f"sumo: {n} matches have more contacts than MuJoCo Warp has room for: use fewer "
                "games per shard, or engine: mujoco"
            )
        position[(overflow & kinds.NEFC) != 0] = np.nan
        return Bodies(position, velocity, warmstart, force[:, 1:].reshape(n, ANTS, BODIES, 6))

    def _launcher(self, time_passes: bool) -> Callable[[], None]:
        """Return the function that launches a step, or a forward pass if no time passes.

        On a GPU its kernels are recorded once as a CUDA graph, so that a step is one launch.
        """
        if time_passes not in self.launchers:
            launch: Callable[[], None] = lambda: self._launch(time_passes)  # noqa: E731
            if self.device.is_cuda:
                # kernels cannot be compiled while a graph is recorded
                self._launch(time_passes)
                with warp.ScopedDevice(self.device), warp.ScopedCapture() as capture:
                    self._launch(time_passes)
                graph: Any = capture.graph
                launch = lambda: warp.capture_launch(graph)  # noqa: E731
            self.launchers[time_passes] = launch
        return self.launchers[time_passes]

    def _launch(self, time_passes: bool) -> None:
        """Launch the kernels of a game step, or of a forward pass in which no time passes."""
        with warp.ScopedDevice(self.device):
            self.data.overflow.zero_()
            if not time_passes:
                mujoco_warp.forward(self.model, self.data)
            for _ in range(SUBSTEPS if time_passes else 0):
                mujoco_warp.step(self.model, self.data)
            if not self.first:
                mujoco_warp.rne_postconstraint(self.model, self.data)
