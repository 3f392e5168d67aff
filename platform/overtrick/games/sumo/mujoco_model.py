"""Two ants on a raised square mat, as a MuJoCo model generated from tables.

The scene of RoboSumo's ants (Al-Shedivat et al. 2018, section 4.2), in which the AgentZoo policies
were trained on MuJoCo 1.50. Modern MuJoCo differs from it in three places that matter here: it
computes a capsule's inertia exactly, it adds the margins of two geoms where the old one took the
larger, and it computes contact forces only on demand.
"""

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np

from overtrick.core import Array

ANTS = 2
TIMESTEP = 0.01  # s
TORSO = 0.25  # m, its radius
LIMB = 0.08  # m, radius of every part of a leg
DENSITY = 13.0  # kg / m^3
PLATFORM = 0.5  # m, height of the mat's top
MAT = 2.0  # m, half side of the square that is marked by the borders
RING = MAT + 0.1  # m, an ant whose torso is as far out as this has lost
EDGE = MAT + 0.3  # m, half side of the platform
MARGIN = 0.005  # m a geom; modern MuJoCo adds those of a pair, which makes 0.01
GEAR = 150.0  # N m of a motor at control 1

INITIAL_RADIUS = 1.15  # m from the centre
INITIAL_HEIGHT = 1.25  # m


class Leg(NamedTuple):
    """Where a leg points, and how its ankle bends."""

    name: str
    way: tuple[int, int]  # signs of x and y, along which all its parts lie
    axis: tuple[int, int]  # of the ankle
    bend: tuple[int, int]  # degrees


LEGS = (
    Leg("front_left", (-1, 1), (1, 1), (-70, -30)),
    Leg("front_right", (1, 1), (-1, 1), (30, 70)),
    Leg("back_left", (-1, -1), (-1, 1), (-70, -30)),
    Leg("back_right", (1, -1), (1, 1), (30, 70)),
)
HIP = (-30, 30)  # degrees, about the vertical
LEG_SEGMENTS = (
    ("root", 0.2),
    ("upper", 0.2),
    ("lower", 0.4),
)  # each spans so much of the leg's way
HINGES = 2 * len(LEGS)  # of an ant: hip and ankle of each leg
BODIES = 1 + len(LEG_SEGMENTS) * len(LEGS)  # of an ant: the torso, then leg by leg
POSITIONS, VELOCITIES = 7 + HINGES, 6 + HINGES  # of an ant: free joint, then hinges


def build(integrator: str = "rk4", first_stage: bool = False) -> mujoco.MjModel:
    """The compiled scene: ant 0 before ant 1 in positions, velocities, motors and bodies.

    integrator: rk4 as RoboSumo has it; euler is 3.7 times faster and another simulator. With
    first_stage a step computes contact forces by itself, but in the first stage of RK4.
    """
    spec = mujoco.MjSpec()
    spec.modelname = "sumo"
    spec.option.timestep = TIMESTEP
    integrators = {"rk4": mujoco.mjtIntegrator.mjINT_RK4, "euler": mujoco.mjtIntegrator.mjINT_EULER}
    spec.option.integrator = integrators[integrator]
    # a fight that becomes NaN stays so, where MuJoCo would quietly begin another one
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_AUTORESET
    spec.memory = 2**21
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    _surroundings(spec.worldbody)
    for ant in range(ANTS):
        _ant(spec, ant)
    if first_stage:
        # any force sensor makes MuJoCo compute the forces on all bodies
        spec.add_sensor(
            type=mujoco.mjtSensor.mjSENS_FORCE,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            objname="ant0_centre",
        )
    return spec.compile()


def _surroundings(world: mujoco.MjsBody) -> None:
    """Floor, platform, and the four borders that stick out of it by their radius."""
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


def _ant(spec: mujoco.MjSpec, ant: int) -> None:
    """One ant: a sphere that moves freely, and four legs of three capsules."""
    sign = 1 - 2 * ant
    look = [0.2, 0.45, 0.7, 1] if ant == 0 else [0.85, 0.45, 0.15, 1]
    torso = spec.worldbody.add_body(
        name=f"ant{ant}", pos=[sign * INITIAL_RADIUS, 0, INITIAL_HEIGHT]
    )
    torso.add_site(name=f"ant{ant}_centre")
    torso.add_joint(name=f"ant{ant}_free", type=mujoco.mjtJoint.mjJNT_FREE)
    sphere = {"type": mujoco.mjtGeom.mjGEOM_SPHERE, "size": [TORSO, 0, 0]}
    torso.add_geom(**sphere, **_skin(look))
    for leg in LEGS:
        name, body = f"ant{ant}_{leg.name}", torso
        way = np.array([*leg.way, 0.0])
        start = np.zeros(3)
        for part, span in LEG_SEGMENTS:
            body = body.add_body(name=f"{name}_{part}", pos=start)
            end = way * span
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_CAPSULE, size=[LIMB, 0, 0],
                fromto=[0, 0, 0, *end], **_skin(look),
            )  # fmt: skip
            _inertia(body, end)
            if part != "root":
                upper = part == "upper"
                joint = f"{name}_{'hip' if upper else 'ankle'}"
                axis = [0, 0, 1] if upper else np.array([*leg.axis, 0]) / np.sqrt(2)
                body.add_joint(
                    name=joint, type=mujoco.mjtJoint.mjJNT_HINGE, axis=axis, limited=True,
                    range=HIP if upper else leg.bend, armature=1, damping=[1, 0, 0],
                )  # fmt: skip
                motor = spec.add_actuator(
                    name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT,
                    ctrllimited=True, ctrlrange=[-1, 1],
                )  # fmt: skip
                motor.gear[0] = GEAR
            start = end


def _skin(look: list[float]) -> dict[str, object]:
    return {"density": DENSITY, "margin": MARGIN, "friction": [1, 0.5, 0.5], "rgba": look}


def _inertia(body: mujoco.MjsBody, end: Array) -> None:
    """A capsule's mass and inertia as MuJoCo before 2.1.1 had them: those of a cylinder that is
    longer by half a radius at each end."""
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
