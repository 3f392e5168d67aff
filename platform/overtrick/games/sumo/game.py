"""Sumo between two ants: who leaves the ring or falls on its belly has lost.

RoboSumo's game (Al-Shedivat et al. 2018; Wu et al. 2022, section 3.1.1). Both ants act at once, in
each of at most 501 steps of 0.05 s, by the torques of eight motors.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, UserError, nearest
from overtrick.games.sumo import mujoco_model
from overtrick.games.sumo.mujoco_model import ANTS, BODIES, HINGES, POSITIONS, VELOCITIES
from overtrick.games.sumo.observation import (
    MAX_FORCE,
    MOTORS,
    OBSERVATION_FIELDS,
    SCALES,
    in_world_axes,
    quarter_turns_to_opponent,
    rotated,
)
from overtrick.games.sumo.physics import STEP_SECONDS, Bodies, Physics

log = logging.getLogger(__name__)

FALLEN_HEIGHT = 0.29  # m above the mat; a torso that is lower has fallen
STEP_LIMIT = 500  # steps; the next one ends in a draw
QUARTER_TURNS = "quarter_turns"


@dataclass(frozen=True)
class RewardWeights:
    """What a step is worth to an ant, in points; each term by what it multiplies."""

    win: float = 2000.0  # the other one lost in this step
    lose: float = -2000.0  # it lost itself; if both did, nobody wins or loses
    draw: float = -1000.0  # time is up, or the simulator lost track
    move: float = 0.1  # speed towards the opponent in m/s, if that is positive
    push: float = -10.0  # exp(-distance of the opponent from the centre in m)
    control: float = -0.1  # sum of squared actions, as the policy gave them
    near: float = 0.0  # m that the ants came nearer to each other
    out: float = 0.0  # m that the opponent came nearer to the edge of the ring


REWARDS = {
    "shaped": RewardWeights(),
    "main": RewardWeights(move=0, push=0, control=0),
    "result": RewardWeights(1, -1, 0, 0, 0, 0),
    "wins": RewardWeights(1, 0, 0, 0, 0, 0),
}
"""shaped is RoboSumo's; result counts wins less losses, and wins the matches won."""


@dataclass(slots=True)
class SumoState:
    """G matches. An ant's index is its seat."""

    position: Array  # (G, 30) these four as physics.Bodies has them
    velocity: Array  # (G, 28)
    warm: Array  # (G, 28)
    force: Array  # (G, 2, 13, 6)
    steps: Array  # (G,) played so far
    over: Array  # (G,) bool
    diverged_games: Array  # (G,) bool: over because it became NaN

    def bodies(self, games: Array) -> Bodies:
        return Bodies(*(getattr(self, n)[games] for n in Bodies._fields))


class Sumo:
    """The match as a game of two seats that act at once: two rows of one turn.

    Facts are the 120 numbers that an ant sees, real numbers in world coordinates. reward: a name
    of REWARDS, or terms that differ from shaped. zoo: the folder of AgentZoo's parameter files, by
    default what OVERTRICK_ZOO says. view: world; or ahead, where each ant sees the match, and moves
    in it, turned by the quarters that bring the other one before it: what it learns in one of four
    ways holds in all. The other options are those of `Physics`. A match that the simulator cannot
    follow is a draw, with a line in the log.
    """

    name = "sumo"
    seats = ANTS
    actions = None
    action_names = MOTORS
    infosets = None

    def __init__(
        self,
        reward: str | Mapping[str, float] = "shaped",
        zoo: str | None = None,
        integrator: str = "rk4",
        forces: str = "last",
        threads: int = 1,
        view: str = "world",
    ) -> None:
        self.zoo = _folder(zoo or os.environ.get("OVERTRICK_ZOO"))
        self.reward = _reward(reward)
        counted = self.reward in (REWARDS["result"], REWARDS["wins"])
        self.unit = "win" if counted else "point"
        self.physics = _physics(integrator, forces, threads)
        self.view = _one_of("view", view, ("world", "ahead"))
        self.observation_fields = OBSERVATION_FIELDS + ((QUARTER_TURNS,) if view == "ahead" else ())

    @property
    def zero_sum(self) -> bool:
        """Does what one ant wins always come from the other?"""
        reward = self.reward
        rest = (reward.draw, reward.move, reward.push, reward.control, reward.near, reward.out)
        return reward.win == -reward.lose and not any(rest)

    def portable_options(self) -> dict[str, Any]:
        """The options that make the same game from any folder, and on any worker."""
        reward = next((n for n, r in REWARDS.items() if r == self.reward), asdict(self.reward))
        return {"reward": reward, "zoo": self.zoo, "view": self.view, **asdict(self.physics)}

    def evaluation_game(self) -> Sumo:
        """The same match, in which only a win counts."""
        return Sumo("wins", self.zoo, view=self.view, **asdict(self.physics))

    def deal(self, games: int, rng: Generator) -> Deals:
        """(G, 59): an angle in rad, what is added to 30 positions and what to 28 velocities."""
        angle = rng.uniform(0, 2 * np.pi, (games, 1))
        moved = rng.uniform(-0.1, 0.1, (games, ANTS * POSITIONS))
        pushed = 0.1 * rng.standard_normal((games, ANTS * VELOCITIES))
        return np.concatenate([angle, moved, pushed], axis=1)

    def start(self, deals: Deals) -> SumoState:
        """Both ants in the air, opposite each other, legs spread."""
        count = len(deals)
        angle, moved, velocity = np.split(deals, [1, 1 + ANTS * POSITIONS], axis=1)
        position = np.zeros((count, ANTS, POSITIONS))
        for ant in range(ANTS):
            place = angle[:, 0] + ant * np.pi
            position[:, ant, 0] = mujoco_model.INITIAL_RADIUS * np.cos(place)
            position[:, ant, 1] = mujoco_model.INITIAL_RADIUS * np.sin(place)
        position[..., 2] = mujoco_model.INITIAL_HEIGHT
        position[..., 3] = 1  # upright
        position += moved.reshape(position.shape)
        position[..., 3:7] /= np.linalg.norm(position[..., 3:7], axis=-1, keepdims=True)
        bodies = self.physics.settle(position.reshape(count, -1), velocity)
        return SumoState(*bodies, np.zeros(count, np.int64), *np.zeros((2, count), bool))

    def observe(self, state: SumoState) -> Observations:
        """Both seats of every match that is not over."""
        games = np.flatnonzero(~state.over)
        seen = ant_observations(state.bodies(games)).reshape(-1, len(OBSERVATION_FIELDS))
        if self.view == "ahead":
            away = quarter_turns_to_opponent(seen)
            seen = np.column_stack([rotated(seen, -away), away])
        seat = np.tile(np.arange(ANTS), len(games))
        return Observations(np.repeat(games, ANTS), seat, seen, None, None)

    def step(self, state: SumoState, observations: Observations, action: Array) -> Array:
        """(G, 2) points; action (R, 8) in the order of MOTORS."""
        games = observations.game[::ANTS]
        if self.view == "ahead":
            action = rotated(action, observations.observation[:, -1].astype(np.int64))
        control = action.reshape(len(games), ANTS, HINGES)
        bodies = state.bodies(games)
        before = torso_positions(bodies.position)
        now = self.physics.advance(bodies, control.reshape(len(games), -1))
        astray = ~np.isfinite(np.concatenate([a.reshape(len(a), -1) for a in now], axis=1)).all(1)
        if astray.any():
            count, when = int(astray.sum()), state.steps[games[astray]].max() + 1
            log.warning("sumo: %d matches became NaN by step %d and count as draws", count, when)
            now = Bodies(
                *(_instead(astray, old, new) for old, new in zip(bodies, now, strict=True))
            )
        for name, value in zip(Bodies._fields, now, strict=True):
            getattr(state, name)[games] = value
        state.steps[games] += 1
        after = torso_positions(now.position)
        lost = (after[..., 2] < FALLEN_HEIGHT) | (
            np.abs(after[..., :2]).max(axis=-1) >= mujoco_model.RING
        )
        drawn = astray | (state.steps[games] > STEP_LIMIT)
        state.over[games], state.diverged_games[games] = lost.any(axis=1) | drawn, astray
        points = np.zeros((len(state.over), ANTS))
        points[games] = self._main(lost, drawn) + self._shaping(before, after, control)
        return points

    def _main(self, lost: Array, drawn: Array) -> Array:
        """(n, 2) points for the end of a match, from who lost (n, 2) and what was drawn (n,)."""
        alone = lost & ~lost[:, ::-1]
        reward = self.reward
        return reward.win * alone[:, ::-1] + reward.lose * alone + reward.draw * drawn[:, None]

    def _shaping(self, before: Array, after: Array, control: Array) -> Array:
        """(n, 2) points for how the ants moved, from torsos (n, 2, 3) and actions (n, 2, 8)."""
        old, new = before[..., :2], after[..., :2]
        way = new[:, ::-1] - old  # to where the other one is now
        distance = np.linalg.norm(way, axis=-1)
        speed = ((new - old) * way).sum(axis=-1) / STEP_SECONDS / np.maximum(distance, 1e-9)
        out = np.exp(-np.linalg.norm(new[:, ::-1], axis=-1))
        effort = np.square(control).sum(axis=-1)
        nearer = _apart(old) - _apart(new)
        edge = np.abs(new).max(axis=-1) - np.abs(old).max(axis=-1)
        reward = self.reward
        return (
            reward.move * np.maximum(speed, 0) + reward.push * out + reward.control * effort
            + reward.near * nearer[:, None] + reward.out * edge[:, ::-1]
        )  # fmt: skip

    def features(self, observations: Observations) -> Array:
        """(R, 120) float32: what is seen, each kind of number divided by its usual size."""
        return (observations.observation[:, : len(OBSERVATION_FIELDS)] / SCALES).astype(np.float32)

    def hand(self, observations: Observations) -> Array:
        """An ant has nothing to hide."""
        return np.full(len(observations), "ant")

    def describe(self, seen: Array) -> str:
        """Where both ants are, in the world."""
        at = dict(zip(OBSERVATION_FIELDS, in_world_axes(seen[None])[0][0], strict=True))
        own, other = (
            f"({at[f'{who}_x']:.2f}, {at[f'{who}_y']:.2f}), {at[f'{who}_height']:.2f} m high"
            for who in ("own", "other")
        )
        return f"at {own}; the opponent at {other}"


def torso_positions(position: Array) -> Array:
    """(n, 2, 3) where the torsos are: x, y and height above the mat in m."""
    place = position.reshape(-1, ANTS, POSITIONS)[..., :3].copy()
    place[..., 2] -= mujoco_model.PLATFORM
    return place


def _apart(places: Array) -> Array:
    """(n,) m between the ants of places (n, 2, 2)."""
    return np.linalg.norm(places[:, 0] - places[:, 1], axis=-1)


def ant_observations(bodies: Bodies) -> Array:
    """(n, 2, 120) what each ant sees, in the order of FACTS."""
    count = len(bodies.position)
    position = bodies.position.reshape(count, ANTS, POSITIONS).copy()
    position[..., 2] -= mujoco_model.PLATFORM
    velocity = bodies.velocity.reshape(count, ANTS, VELOCITIES)
    force = np.abs(bodies.force.clip(-MAX_FORCE, MAX_FORCE)).reshape(count, ANTS, 6 * BODIES)
    other = np.concatenate([position[..., :7], force[..., :6]], axis=-1)[:, ::-1]
    return np.concatenate([position, velocity, force, other], axis=-1)


def _instead(rows: Array, old: Array, new: Array) -> Array:
    """New values, but in some rows the old ones."""
    return np.where(rows.reshape(-1, *(1,) * (new.ndim - 1)), old, new)


def _folder(given: Any) -> str | None:
    """A folder as it is found from anywhere. Raises UserError."""
    if given and not isinstance(given, str):
        raise UserError(f"zoo must be a folder, not {given!r}")
    return str(Path(given).absolute()) if given else None


def _reward(given: str | Mapping[str, float]) -> RewardWeights:
    """Raises UserError."""
    if not isinstance(given, (str, Mapping)):
        raise UserError(f"reward must be a name or a mapping of terms, not {given!r}")
    if isinstance(given, str):
        if given not in REWARDS:
            near = nearest(given, REWARDS)
            raise UserError(f"unknown reward '{given}' in sumo: did you mean '{near}'?")
        return REWARDS[given]
    terms = [field.name for field in fields(RewardWeights)]
    for term in given:
        if term not in terms:
            raise UserError(f"unknown reward term '{term}': did you mean '{nearest(term, terms)}'?")
        if not isinstance(given[term], (int, float)) or not np.isfinite(given[term]):
            raise UserError(f"reward.{term} must be a number, not {given[term]!r}")
    return replace(RewardWeights(), **given)


def _one_of(name: str, value: str, known: tuple[str, str]) -> str:
    """Raises UserError."""
    if value not in known:
        raise UserError(f"{name} must be {' or '.join(known)}, not '{value}'")
    return value


def _physics(integrator: str, forces: str, threads: int) -> Physics:
    """Raises UserError."""
    _one_of("integrator", integrator, ("rk4", "euler"))
    _one_of("forces", forces, ("last", "first"))
    if not isinstance(threads, int) or threads < 1:
        raise UserError(f"threads must be a whole number from 1, not {threads!r}")
    return Physics(integrator, forces, threads)  # type: ignore[arg-type]
