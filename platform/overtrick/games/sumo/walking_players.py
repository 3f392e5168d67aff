"""Scripted ants that walk: `pusher` towards the opponent, `circler` around the centre of the mat.

Both trot: the two legs of a diagonal swing together, half a period after those of the other
diagonal. A leg on the ground swings its foot against the direction of the walk. The ankle of a leg
in the air is straighter, which lifts the foot. Each motor acts as a damped spring: it pulls its
hinge to the gait's angle. The gait does not turn the body: because a leg's hip can swing either
way, the ant walks in every direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations
from overtrick.games.sumo.mujoco_model import INITIAL_RADIUS, LEGS
from overtrick.games.sumo.observation import FIELDS, MOTORS, from_world, in_world_axes, position
from overtrick.games.sumo.physics import STEP_SECONDS

# found by random search, with Euler, for the surest and quickest win against a motionless ant
FREQUENCY = 1.3  # periods of the gait per second
SWING = 0.3  # rad, largest angle of a hip
ANKLE_DOWN, ANKLE_UP = np.radians([68, 55])  # angles of an ankle whose foot is down, or lifted
LIFT_LAG = 0.55  # rad of the gait's phase, from the start of the swing forwards to the lift
STIFFNESS = 1.6  # 1/rad: torque as a fraction of the largest torque
DAMPING = 0.083  # s/rad: torque as a fraction of the largest torque

CIRCLE_RADIUS = INITIAL_RADIUS  # m, of the circler's path around the centre
TURN_TO_CIRCLE = 1.5  # rad/m: turn of the circler's walk for its distance from this path

LEG_ANGLE = np.array([np.arctan2(*leg.direction[::-1]) for leg in LEGS])  # rad, from the torso
ANKLE_SIGN = np.array([np.sign(leg.ankle_range[0]) for leg in LEGS])
# front left and back right
ON_SECOND_DIAGONAL = np.array([leg.direction[0] != leg.direction[1] for leg in LEGS])
HINGE_ANGLES = [FIELDS.index(f"angle_{motor}") for motor in MOTORS]
HINGE_VELOCITIES = [FIELDS.index(f"angle_velocity_{motor}") for motor in MOTORS]

Heading = Callable[[Array], Array]
"""Function from observations (R, 120) in the world frame to directions (R,) of the walk.

A direction is in rad, counter-clockwise from the world's x axis.
"""


@dataclass(frozen=True)
class WalkingPolicy:
    """Policy of an ant that trots in the direction that `heading` computes at each step."""

    heading: Heading

    remembers = True

    def start(self, games: int, rng: Generator) -> _WalkingSession:
        """Start a session of G matches; the phases of the gaits are drawn at random."""
        return _WalkingSession(self.heading, rng.uniform(0, 2 * np.pi, (games, 2)))


@dataclass
class _WalkingSession:
    """Walk in G matches. `phase` (G, 2): phase of the gait of each seat in rad."""

    heading: Heading
    phase: Array

    def act(self, observations: Observations) -> Actions:
        """Return the torques (R, 8) of the gait, with log probability 0."""
        observation, transform = in_world_axes(observations.observation)
        at = observations.game, observations.seat
        self.phase[at] += 2 * np.pi * FREQUENCY * STEP_SECONDS
        target = hinge_targets(self.phase[at], self.heading(observation) - _yaw(observation))
        error = target - observation[:, HINGE_ANGLES]
        torque = STIFFNESS * error - DAMPING * observation[:, HINGE_VELOCITIES]
        return Actions(from_world(torque.clip(-1, 1), transform), np.zeros(len(torque)))


def hinge_targets(phase: Array, direction: Array) -> Array:
    """Return the angles (R, 8) of all hinges in a trot, in rad, in the order of MOTORS.

    `phase` (R,): phase of the gait in rad. `direction` (R,): direction of the walk in rad, from the
    torso's x axis.
    """
    phase = phase[:, None] + np.pi * ON_SECOND_DIAGONAL
    # speed of the foot against the walk per unit of the hip's velocity
    backward = np.sin(LEG_ANGLE - direction[:, None])
    # the square root makes the swings of all legs more equal
    hip = -SWING * np.sign(backward) * np.sqrt(np.abs(backward)) * np.cos(phase)
    down = np.sin(phase - LIFT_LAG) > 0
    ankle = ANKLE_SIGN * np.where(down, ANKLE_DOWN, ANKLE_UP)
    return np.stack([hip, ankle], axis=-1).reshape(len(phase), len(MOTORS))


def around_the_centre(observation: Array) -> Array:
    """Return the direction (R,) of a counter-clockwise walk on a circle around the mat's centre.

    Off the circle the ant also walks inwards or outwards, by up to 1 rad.
    """
    x, y = position(observation, "own")
    inwards = TURN_TO_CIRCLE * (np.hypot(x, y) - CIRCLE_RADIUS)
    return np.arctan2(y, x) + np.pi / 2 + inwards.clip(-1, 1)


def _yaw(observation: Array) -> Array:
    """Return the angle (R,) in rad by which the own torso is turned about the vertical axis."""
    w, i, j, k = (observation[:, FIELDS.index(f"own_{part}")] for part in "wijk")
    return np.arctan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k))
