"""MuJoCo model of two ants on a raised square mat, built from tables of sizes.

The scene is RoboSumo's for ants (Al-Shedivat et al. 2018, section 4.2). AgentZoo's policies were
trained in it with MuJoCo 1.50. Current MuJoCo differs in three ways, and this model corrects for
them:

                     current MuJoCo                    MuJoCo 1.50
    capsules         exact inertia                     inertia of a cylinder
    margins          sum of the margins of two geoms   the larger margin
    contact forces   computed only on demand           computed in every step
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overtrick.core import Array
from overtrick.core.lazy_modules import mujoco

ANTS = 2
TIMESTEP = 0.01  # s
TORSO = 0.25  # m, radius of the torso
LIMB = 0.08  # m, radius of every segment of a leg
DENSITY = 13.0  # kg / m^3
PLATFORM = 0.5  # m, height of the mat's top
MAT = 2.0  # m, half side of the square inside the borders
RING = MAT + 0.1  # m, an ant has lost if |x| or |y| of its torso reaches this
EDGE = MAT + 0.3  # m, half side of the platform
MARGIN = 0.005  # m, contact margin of each geom; 0.01 for a pair
GEAR = 150.0  # N m, torque of a motor at control 1

INITIAL_RADIUS = 1.15  # m from the centre
INITIAL_HEIGHT = 1.25  # m


class Leg(NamedTuple):
    """A leg of an ant: its direction, and the rotation axis and angle range of its ankle."""

    name: str
    direction: tuple[int, int]  # signs of x and y
    axis: tuple[int, int]  # x and y of the ankle's axis, not normalised
    ankle_range: tuple[int, int]  # degrees


LEGS = (
    Leg("front_left", (-1, 1), (1, 1), (-70, -30)),
    Leg("front_right", (1, 1), (-1, 1), (30, 70)),
    Leg("back_left", (-1, -1), (-1, 1), (-70, -30)),
    Leg("back_right", (1, -1), (1, 1), (30, 70)),
)
HIP_RANGE = (-30, 30)  # degrees, about the vertical
LEG_SEGMENTS = (("root", 0.2), ("upper", 0.2), ("lower", 0.4))
"""Segments of a leg, each with its extent along x and along y in m."""
HINGES = 2 * len(LEGS)  # hinges of one ant: hip and ankle of each leg
BODIES = 1 + len(LEG_SEGMENTS) * len(LEGS)  # bodies of one ant: the torso, then leg by leg
POSITIONS, VELOCITIES = 7 + HINGES, 6 + HINGES  # coordinates of one ant: free joint, then hinges


def build(integrator: str = "rk4", first_stage: bool = False) -> mujoco.MjModel:
    """Compile the MuJoCo model; ant 0 precedes ant 1 in positions, velocities, motors and bodies.

    `integrator`: `rk4`, as in RoboSumo; or `euler`, which is 3.7 times faster but gives different
        movements.
    `first_stage`: if true, MuJoCo computes the contact forces on all bodies (`cfrc_ext`) at the
        first stage of each time step. If false, call mj_rnePostConstraint to compute them.
    """
    spec = mujoco.MjSpec()
    spec.modelname = "sumo"
    spec.option.timestep = TIMESTEP
    integrators = {"rk4": mujoco.mjtIntegrator.mjINT_RK4, "euler": mujoco.mjtIntegrator.mjINT_EULER}
    spec.option.integrator = integrators[integrator]
    # a simulation that becomes NaN stays NaN; MuJoCo would silently reset it
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
    spec.memory = 2**21
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    _add_surroundings(spec.worldbody)
    for ant in range(ANTS):
        _add_ant(spec, ant)
    if first_stage:
        # any force sensor makes MuJoCo compute the forces on all bodies
        spec.add_sensor(
            type=mujoco.mjtSensor.mjSENS_FORCE,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname="ant0_centre",
        )
    return spec.compile()


def _add_surroundings(world: mujoco.MjsBody) -> None:
    """Add light, camera, floor, platform and the four borders, half sunk into the platform."""
    box, plane = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_PLANE
    cylinder = mujoco.mjtGeom.mjGEOM_CYLINDER
    rough = [1, 0.1, 0.1]
    world.add_light(pos=[0, 0, 6], dir=[0, 0, -1])
    world.add_camera(name="ring", pos=[0, -6.5, 4.5], xyaxes=[1, 0, 0, 0, 0.6, 0.8])
    world.add_geom(
        name="floor", type=plane, size=[10, 10, 1], pos=[0, 0, -0.025], friction=rough,
        margin=MARGIN, rgba=[0.3, 0.3, 0.35, 1],
    )  # fmt: skip
    world.add_geom(
        name="platform", type=box, size=[EDGE, EDGE, PLATFORM / 2], pos=[0, 0, PLATFORM / 2],
        friction=rough, margin=MARGIN, rgba=[0.85, 0.78, 0.62, 1],
    )  # fmt: skip
    for name, (x, y), (along_x, along_y) in (
        ("right", (1, 0), (0, 1)), ("left", (-1, 0), (0, 1)),
        ("front", (0, -1), (1, 0)), ("back", (0, 1), (1, 0)),
    ):  # fmt: skip
        centre, half = np.array([x, y]) * MAT, np.array([along_x, along_y]) * MAT
        world.add_geom(
            name=f"border_{name}", type=cylinder, size=[0.03, 0, 0],
            fromto=[*(centre - half), PLATFORM, *(centre + half), PLATFORM],
            margin=MARGIN, rgba=[0.6, 0.2, 0.2, 1],
        )  # fmt: skip


def _add_ant(spec: mujoco.MjSpec, ant: int) -> None:
    """Add one ant: a freely moving sphere and four legs of three capsules."""
    sign = 1 - 2 * ant
    colour = [0.2, 0.45, 0.7, 1] if ant == 0 else [0.85, 0.45, 0.15, 1]
    torso = spec.worldbody.add_body(
        name=f"ant{ant}", pos=[sign * INITIAL_RADIUS, 0, INITIAL_HEIGHT]
    )
    torso.add_site(name=f"ant{ant}_centre")
    torso.add_joint(name=f"ant{ant}_free", type=mujoco.mjtJoint.mjJNT_FREE)
    sphere = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [TORSO, 0, 0]}
    torso.add_geom(**sphere, **_geom_options(colour))
    for leg in LEGS:
        name, body = f"ant{ant}_{leg.name}", torso
        direction = np.array([*leg.direction, 0.0])
        start = np.zeros(3)
        for part, span in LEG_SEGMENTS:
            body = body.add_body(name=f"{name}_{part}", pos=start)
            end = direction * span
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[LIMB, 0, 0],
                fromto=[0, 0, 0, *end], **_geom_options(colour),
            )  # fmt: skip
            _set_inertia(body, end)
            if part != "root":
                upper = part == "upper"
                joint = f"{name}_{'hip' if upper else 'ankle'}"
                axis = [0, 0, 1] if upper else np.array([*leg.axis, 0]) / np.sqrt(2)
                body.add_joint(
                    name=joint, type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis, limited=True,
                    range=HIP_RANGE if upper else leg.ankle_range, armature=1, damping=[1, 0, 0],
                )  # fmt: skip
                motor = spec.add_actuator(
                    name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT,
                    ctrllimited=True, ctrlrange=[-1, 1],
                )  # fmt: skip
                motor.gear[0] = GEAR
            start = end


def _geom_options(rgba: list[float]) -> dict[str, object]:
    return {"density": DENSITY, "margin": MARGIN, "friction": [1, 0.5, 0.5], "rgba": rgba}


def _set_inertia(body: mujoco.MjsBody, end: Array) -> None:
    """Set the mass and inertia of a body with one capsule as MuJoCo before 2.1.1 did.

    They are those of a cylinder that extends beyond the capsule's axis by half a radius at each
    end. `end`: (3,) end of the axis, which begins at the body's origin.
    """
    high = float(np.linalg.norm(end)) + LIMB
    mass = DENSITY * np.pi * LIMB**2 * high
    across = mass * (3 * LIMB**2 + high**2) / 12
    body.explicitinertial = True
    body.mass = mass
    body.ipos = end / 2
    body.inertia = [across, across, mass * LIMB**2 / 2]
    turn = np.zeros(4)
    mujoco.mju_quatZ2Vec(turn, end / np.linalg.norm(end))
    body.iquat = turn
