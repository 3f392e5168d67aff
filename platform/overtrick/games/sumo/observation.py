"""Names of an ant's observation fields and motors, and their symmetries.

Ant and ring are symmetric under a quarter turn about the vertical axis, and under the reflection
that changes the sign of y. A match after any of these is therefore a valid match. Its observations
and actions are a permutation of the original numbers with some signs changed.
"""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.sumo.mujoco_model import LEG_SEGMENTS, LEGS

MAX_FORCE = 100.0  # N and N m; observed forces are clipped to it
MOTORS = tuple(f"{part}_{leg.name}" for leg in LEGS for part in ("hip", "ankle"))
QUARTERS = 4  # quarter turns in a full turn
VIEW_FIELDS = {
    "world": (), "ahead": ("quarter_turns",), "ahead_left": ("quarter_turns", "reflected"),
}  # fmt: skip
"""Observation fields that each view adds: the transform from the view back to the world.

Reflect first, if `reflected` is 1, then rotate by `quarter_turns`.
"""


def _fields_and_scales() -> dict[str, float]:
    """Return the names of the 120 observation fields, each with the typical size of its values."""
    place = {"x": 2.0, "y": 2.0, "height": 1.0}
    orientation = dict.fromkeys(("w", "i", "j", "k"), 1.0)
    parts = ["torso"] + [f"{leg.name}_{part}" for leg in LEGS for part, _ in LEG_SEGMENTS]
    push = [f"{kind}_{axis}" for kind in ("torque", "force") for axis in "xyz"]
    return {
        **{f"own_{name}": size for name, size in (place | orientation).items()},
        **{f"angle_{motor}": 1.0 for motor in MOTORS},
        **{f"velocity_{axis}": 3.0 for axis in "xyz"},
        **{f"spin_{axis}": 5.0 for axis in "xyz"},
        **{f"angle_velocity_{motor}": 5.0 for motor in MOTORS},
        **{f"{part}_{name}": MAX_FORCE / 5 for part in parts for name in push},
        **{f"other_{name}": size for name, size in (place | orientation).items()},
        **{f"other_torso_{name}": MAX_FORCE / 5 for name in push},
    }


FIELDS = tuple(_fields_and_scales())
SCALES = np.array(list(_fields_and_scales().values()))


def position(observation: Array, ant: str) -> Array:
    """Return x and y of an ant, (2, R) in m.

    observation: (R, 120) in the world frame. ant: `own` or `other`.
    """
    return observation[:, [FIELDS.index(f"{ant}_{axis}") for axis in "xy"]].T


def direction_to_opponent(observation: Array) -> Array:
    """Return the direction (R,) of the opponent, in rad counter-clockwise from the x axis.

    observation: (R, 120) in the world frame.
    """
    x, y = position(observation, "other") - position(observation, "own")
    return np.arctan2(y, x)


def quarter_turns_to_opponent(observation: Array) -> Array:
    """Return the direction (R,) of the opponent: 0 to 3 quarter turns from the x axis.

    observation: (R, 120) in the world frame. Turns are counter-clockwise.
    """
    turns = direction_to_opponent(observation) / (np.pi / 2)
    return np.rint(turns).astype(np.int64) % QUARTERS


def rotated(values: Array, turns: Array) -> Array:
    """Rotate observations (R, 120) or actions (R, 8) by quarter turns (R,), counter-clockwise."""
    source, sign = ROTATIONS[values.shape[1]]
    turns = turns % QUARTERS
    return np.take_along_axis(values, source[turns], axis=1) * sign[turns]


def reflected(values: Array) -> Array:
    """Reflect observations (R, 120) or actions (R, 8), so that y changes its sign."""
    source, sign = REFLECTIONS[values.shape[1]]
    return values[:, source] * sign


def transform_of_view(observation: Array, view: str) -> Array:
    """Return the transform (R, V) of observations (R, 120) in the world frame: `VIEW_FIELDS[view]`.

    - `world`: the numbers stay as they are, and V is 0.
    - `ahead`: the opponent is ahead, at most 45 degrees to either side.
    - `ahead_left`: it is also not to the right.
    """
    if view == "world":
        return np.zeros((len(observation), 0))
    turns = quarter_turns_to_opponent(observation)
    if view == "ahead":
        return turns[:, None]
    return np.column_stack([turns, _opponent_is_right(rotated(observation, -turns))])


def to_world(values: Array, transform: Array) -> Array:
    """Convert observations (R, 120) or actions (R, 8) of a view to the world frame."""
    if transform.shape[1] > 1:
        values = np.where(transform[:, 1:] == 1, reflected(values), values)
    return rotated(values, transform[:, 0].astype(np.int64)) if transform.shape[1] else values


def from_world(values: Array, transform: Array) -> Array:
    """Convert observations (R, 120) or actions (R, 8) of the world frame to a view."""
    if transform.shape[1]:
        values = rotated(values, -transform[:, 0].astype(np.int64))
    if transform.shape[1] > 1:
        values = np.where(transform[:, 1:] == 1, reflected(values), values)
    return values


def in_world_axes(observation: Array) -> tuple[Array, Array]:
    """Convert observations (R, 120 + V) of any view to the world frame.

    Returns them (R, 120) and the transform (R, V) of the view.
    """
    values, transform = np.split(observation, [len(FIELDS)], axis=1)
    return to_world(values, transform), transform


def _opponent_is_right(observation: Array) -> Array:
    """Return whether the opponent is to the right of the x axis, (R,) bool."""
    return position(observation, "other")[1] < position(observation, "own")[1]


def _quarter_turn() -> dict[str, tuple[str, int]]:
    """Return the effect of one counter-clockwise quarter turn on each observation field and motor.

    Both ants turn about the vertical axis. The result maps the name of each field or motor to a
    pair (source, sign), so that after[name] = sign * before[source].
    """
    axes = {"x": ("y", -1), "y": ("x", 1), "i": ("j", -1), "j": ("i", 1)}
    turn = {name: (name, 1) for name in (*FIELDS, *MOTORS)}
    for name in FIELDS:
        stem, _, last = name.rpartition("_")
        if last in axes:
            other, sign = axes[last]
            # observed forces are absolute values
            turn[name] = (f"{stem}_{other}", 1 if "torque" in name or "force" in name else sign)
    for leg in LEGS:
        x, y = leg.direction
        before = next(each for each in LEGS if each.direction == (y, -x))
        a, b = before.axis
        bends = 1 if leg.axis == (-b, a) else -1
        for name in [name for name in turn if leg.name in name]:
            source, sign = turn[name]
            sign *= bends if "ankle" in name else 1
            turn[name] = (source.replace(leg.name, before.name), sign)
    return turn


def _reflection_table(names: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the effect of the reflection on N observation fields or motors.

    names: the N fields or motors. Return two arrays (N,), `source` and `sign`, so that after[j] =
    sign[j] * before[source[j]]. Positions and velocities change the sign of y, and axes of rotation
    the signs of x and z. Each leg changes places with the one across the x axis; the angles of hips
    change their sign, those of ankles do not.
    """
    by_direction = {leg.direction: leg.name for leg in LEGS}
    source, signs = [], []
    for name in names:
        at, stem, last = name, *name.rpartition("_")[::2]
        for leg in LEGS:
            x, y = leg.direction
            if leg.name in name:
                at = name.replace(leg.name, by_direction[x, -y])
        positive = "torque" in name or "force" in name  # observed forces are absolute values
        pseudo = stem in ("own", "other") and last in ("i", "k")
        pseudo |= stem == "spin" and last in ("x", "z")
        flips = (last == "y" and stem != "spin") or pseudo or "hip" in name
        source.append(names.index(at))
        signs.append(-1 if flips and not positive else 1)
    return np.array(source), np.array(signs)


def _rotation_table(names: tuple[str, ...]) -> tuple[Array, Array]:
    """Return the effect of 0 to 3 quarter turns on N observation fields or motors.

    names: the N fields or motors. Return two arrays (4, N), `source` and `sign`, so that
    after[j] = sign[k, j] * before[source[k, j]] for k turns.
    """
    turn = _quarter_turn()
    once = np.array([names.index(turn[name][0]) for name in names])
    signs = np.array([turn[name][1] for name in names])
    source, sign = [np.arange(len(names))], [np.ones(len(names))]
    for _ in range(QUARTERS - 1):
        source.append(source[-1][once])
        sign.append(sign[-1][once] * signs)
    return np.array(source), np.array(sign)


ROTATIONS = {len(names): _rotation_table(names) for names in (FIELDS, MOTORS)}
"""Results of `_rotation_table` for observations (key 120) and actions (key 8), by their width."""
REFLECTIONS = {len(names): _reflection_table(names) for names in (FIELDS, MOTORS)}
"""Results of `_reflection_table` for observations (key 120) and actions (key 8), by their width."""
