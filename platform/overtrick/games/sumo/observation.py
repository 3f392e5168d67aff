"""What an ant sees and moves, by name; and the same from another side of the mat.

Ants and ring look the same after a quarter turn, so a match turned by one is a match as well: every
place, way, leg and motor gives its part to the next one, some with the other sign.
"""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.sumo.mujoco_model import LEG_SEGMENTS, LEGS

MAX_FORCE = 100.0  # N and N m at which observed forces are cut
MOTORS = tuple(f"{part}_{leg.name}" for leg in LEGS for part in ("hip", "ankle"))
QUARTERS = 4  # turns that make a whole one


def _facts() -> dict[str, float]:
    """What an ant sees, by name, and by what it is divided for a network."""
    place = {"x": 2.0, "y": 2.0, "height": 1.0}
    turned = dict.fromkeys(("w", "i", "j", "k"), 1.0)
    parts = ["torso"] + [f"{leg.name}_{part}" for leg in LEGS for part, _ in LEG_SEGMENTS]
    push = [f"{kind}_{axis}" for kind in ("torque", "force") for axis in "xyz"]
    return {
        **{f"own_{name}": size for name, size in (place | turned).items()},
        **{f"angle_{motor}": 1.0 for motor in MOTORS},
        **{f"velocity_{axis}": 3.0 for axis in "xyz"},
        **{f"spin_{axis}": 5.0 for axis in "xyz"},
        **{f"angle_velocity_{motor}": 5.0 for motor in MOTORS},
        **{f"{part}_{name}": MAX_FORCE / 5 for part in parts for name in push},
        **{f"other_{name}": size for name, size in (place | turned).items()},
        **{f"other_torso_{name}": MAX_FORCE / 5 for name in push},
    }


OBSERVATION_FIELDS = tuple(_facts())
SCALES = np.array(list(_facts().values()))


def quarter_turns_to_opponent(seen: Array) -> Array:
    """(R,) by how many quarter turns, against the clock, the other ant is away from ahead (x), from
    facts (R, 120)."""
    at = OBSERVATION_FIELDS.index("own_x")
    other = OBSERVATION_FIELDS.index("other_x")
    x, y = (seen[:, other : other + 2] - seen[:, at : at + 2]).T
    found: Array = np.rint(np.arctan2(y, x) / (np.pi / 2)).astype(np.int64) % QUARTERS
    return found


def rotated(values: Array, turns: Array) -> Array:
    """Facts (R, 120) or actions (R, 8) of a match that is turned by so many quarters (R,), against
    the clock."""
    source, sign = ROTATIONS[values.shape[1]]
    turns = turns % QUARTERS
    return np.take_along_axis(values, source[turns], axis=1) * sign[turns]


def in_world_axes(seen: Array) -> tuple[Array, Array]:
    """(R, 120) facts of a match in any view as those of the world, and (R,) by how many quarters
    what is done there has to be turned to be meant so too."""
    turns = (
        seen[:, len(OBSERVATION_FIELDS) :].astype(np.int64).sum(axis=1)
    )  # a view of the world has no column
    return rotated(seen[:, : len(OBSERVATION_FIELDS)], turns), turns


def _quarter() -> dict[str, tuple[str, int]]:
    """For each fact and motor what it takes over in a quarter turn, and with which sign."""
    ways = {"x": ("y", -1), "y": ("x", 1), "i": ("j", -1), "j": ("i", 1)}
    found = {name: (name, 1) for name in (*OBSERVATION_FIELDS, *MOTORS)}
    for name in OBSERVATION_FIELDS:
        stem, _, last = name.rpartition("_")
        if last in ways:
            other, sign = ways[last]
            # of forces only the size is seen
            found[name] = (f"{stem}_{other}", 1 if "torque" in name or "force" in name else sign)
    for leg in LEGS:
        x, y = leg.way
        before = next(each for each in LEGS if each.way == (y, -x))
        a, b = before.axis
        bends = 1 if leg.axis == (-b, a) else -1
        for name in [name for name in found if leg.name in name]:
            old, sign = found[name]
            sign *= bends if "ankle" in name else 1
            found[name] = (old.replace(leg.name, before.name), sign)
    return found


def _table(names: tuple[str, ...]) -> tuple[Array, Array]:
    """(4, N) where each comes from, and its sign, after so many quarter turns."""
    quarter = _quarter()
    once = np.array([names.index(quarter[name][0]) for name in names])
    signs = np.array([quarter[name][1] for name in names])
    source, sign = [np.arange(len(names))], [np.ones(len(names))]
    for _ in range(QUARTERS - 1):
        source.append(source[-1][once])
        sign.append(sign[-1][once] * signs)
    return np.array(source), np.array(sign)


ROTATIONS = {len(names): _table(names) for names in (OBSERVATION_FIELDS, MOTORS)}
