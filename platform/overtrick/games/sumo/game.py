"""RoboSumo with two ants as a game: an ant loses if it leaves the ring or falls on its belly.

Al-Shedivat et al. 2018; Wu et al. 2022, section 3.1.1. A match has at most 501 steps of 0.05 s. In
each step both ants act at the same time, by setting the torques of their eight motors.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, UserError, check_choice, suggestion
from overtrick.games.sumo import mujoco_model
from overtrick.games.sumo import observation as obs
from overtrick.games.sumo.mujoco_model import ANTS, BODIES, HINGES, POSITIONS, VELOCITIES
from overtrick.games.sumo.physics import STEP_SECONDS, Bodies, Physics
from overtrick.games.sumo.policy_of_view import PolicyOfView

log = logging.getLogger(__name__)

FALLEN_HEIGHT = 0.29  # m above the mat; an ant with a lower torso has fallen
STEP_LIMIT = 500  # steps; the next one ends in a draw


@dataclass(frozen=True)
class RewardWeights:
    """Weights of the terms of an ant's reward in one step, in points per unit of the term."""

    win: float = 2000.0  # 1 if the opponent alone lost in this step
    lose: float = -2000.0  # 1 if this ant alone lost in this step
    draw: float = -1000.0  # 1 if time is up or the simulation diverged
    move: float = 0.1  # speed towards the opponent in m/s, if that is positive
    push: float = -10.0  # exp(-distance of the opponent from the centre in m)
    control: float = -0.1  # sum of squared actions, before clipping
    near: float = 0.0  # decrease of the distance between the ants in m
    out: float = 0.0  # movement of the opponent towards the edge of the ring in m


RESULT_TERMS = ("win", "lose", "draw")
"""Terms of a reward that pay for the result of a match; the others are shaping terms."""

REWARDS = {
    "shaped": RewardWeights(),
    "main": RewardWeights(move=0, push=0, control=0),
    "result": RewardWeights(1, -1, 0, 0, 0, 0),
    "wins": RewardWeights(1, 0, 0, 0, 0, 0),
}
"""Reward weights by name. `shaped` has RoboSumo's weights; `main` is the same without the shaping
terms; `result` counts wins minus losses; `wins` counts matches won."""


@dataclass(slots=True)
class SumoState:
    """State of G matches in progress; the index of an ant is its seat."""

    position: Array  # (G, 30); the first four fields are the fields of physics.Bodies
    velocity: Array  # (G, 28)
    warmstart: Array  # (G, 28)
    force: Array  # (G, 2, 13, 6)
    steps: Array  # (G,) steps played so far
    over: Array  # (G,) bool
    diverged_games: Array  # (G,) bool: over because the simulation became NaN

    def bodies(self, games: Array) -> Bodies:
        """Return copies of the physical states of the matches with indices `games` (n,)."""
        return Bodies(*(getattr(self, name)[games] for name in Bodies._fields))


class Sumo:
    """RoboSumo as a simultaneous-move game of two seats with continuous actions of 8 dimensions.

    An action is the torque of each of the eight motors, as a fraction of its maximum. Observation
    fields: the 120 real numbers of `observation.FIELDS`, in the world frame. A match whose
    simulation diverges is a draw and logs a warning. Options:

    reward: a name of REWARDS, or a mapping with new values for some of RoboSumo's reward weights.
    zoo: the folder of AgentZoo's parameter files, by default the value of OVERTRICK_ZOO.
    view: `world`, `ahead` or `ahead_left`. In the view `ahead` each ant's observations and actions
        are rotated by quarter turns so that the opponent is in front of the ant. A policy that is
        trained for one direction then works in all four. In the view `ahead_left` they are also
        reflected if the opponent would be to the right, so that one direction serves all eight.
        Further observation fields are the number of turns and whether the view is reflected.
    integrator: `rk4` as in RoboSumo, or `euler`, 3.7 times as fast. Held-out evaluations use `rk4`,
        and so do matches of stored models.
    forces: stage of a Runge-Kutta step whose contact forces are observed: `last` or `first`.
    threads: number of MuJoCo's threads.
    engine: `mujoco`, or `warp` for MuJoCo Warp on a GPU, in single precision.
    """

    name = "sumo"
    seats = ANTS
    actions = None
    action_names = obs.MOTORS
    infosets = None
    clips_actions: Literal[True] = True
    default_view = "world"

    def __init__(
        self,
        reward: str | Mapping[str, float] = "shaped",
        zoo: str | None = None,
        integrator: str = "rk4",
        forces: str = "last",
        threads: int = 1,
        view: str = "world",
        engine: str = "mujoco",
    ) -> None:
        self.zoo = _absolute_folder(zoo or os.environ.get("OVERTRICK_ZOO"))
        self.reward = _reward_weights(reward)
        counted = self.reward in (REWARDS["result"], REWARDS["wins"])
        self.unit = "win" if counted else "point"
        check_choice("integrator", integrator, ("rk4", "euler"))
        check_choice("forces", forces, ("last", "first"))
        check_choice("view", view, tuple(obs.VIEW_FIELDS))
        if not isinstance(threads, int) or threads < 1:
            raise UserError(f"threads must be a whole number from 1, not {threads!r}")
        check_choice("engine", engine, ("mujoco", "warp"))
        if engine == "warp" and threads != 1:
            raise UserError("threads has no effect with engine: warp: remove it")
        self.physics = Physics(integrator, forces, threads, engine)  # type: ignore[arg-type]
        self.view = view
        self.observation_fields = obs.FIELDS + obs.VIEW_FIELDS[view]

    @property
    def zero_sum(self) -> bool:
        """Return whether the rewards of both ants always sum to zero."""
        terms = asdict(self.reward)
        return terms.pop("win") == -terms.pop("lose") and not any(terms.values())

    def portable_options(self) -> dict[str, Any]:
        """Return options that make the same game in any working folder and on any worker."""
        reward = next((n for n, r in REWARDS.items() if r == self.reward), asdict(self.reward))
        return {"reward": reward, "zoo": self.zoo, "view": self.view, **asdict(self.physics)}

    def evaluation_game(self) -> Sumo:
        """Return the game in which policies are evaluated, with RoboSumo's integrator `rk4`.

        Its reward is `wins`: 1 for a match won, otherwise 0.
        """
        physics = replace(self.physics, integrator="rk4")
        return Sumo("wins", self.zoo, view=self.view, **asdict(physics))

    def policy_of_view(self, view: str, make: Callable[[Any], Any]) -> Any:
        """Build a policy for this game with another view, and convert what it sees and does."""
        return PolicyOfView(make(Sumo(**self.portable_options() | {"view": view})), view)

    @property
    def has_shaping(self) -> bool:
        """Return whether a term of the reward depends on more than the result of the match."""
        return any(w for term, w in asdict(self.reward).items() if term not in RESULT_TERMS)

    def with_shaping(self, share: float) -> Sumo:
        """Return the same game with its shaping terms multiplied by `share` (0 to 1)."""
        reward = {
            term: weight if term in RESULT_TERMS else share * weight
            for term, weight in asdict(self.reward).items()
        }
        return Sumo(reward, self.zoo, view=self.view, **asdict(self.physics))

    def deal(self, games: int, rng: Generator) -> Deals:
        """Sample deals (G, 59): an angle in rad, and noise of 30 positions and 28 velocities.

        Ant 0 starts at the angle and ant 1 opposite. Position noise is uniform from -0.1 to 0.1 (m,
        rad). Velocity noise is normal with standard deviation 0.1 (m/s, rad/s).
        """
        angle = rng.uniform(0, 2 * np.pi, (games, 1))
        positions = rng.uniform(-0.1, 0.1, (games, ANTS * POSITIONS))
        velocities = 0.1 * rng.standard_normal((games, ANTS * VELOCITIES))
        return np.concatenate([angle, positions, velocities], axis=1)

    def start(self, deals: Deals) -> SumoState:
        """Return the initial state of G matches, with both ants in the air.

        `deals`: (G, 59) the ants' random poses and velocities, as drawn by `deal`.
        """
        count = len(deals)
        angle, noise, velocity = np.split(deals, [1, 1 + ANTS * POSITIONS], axis=1)
        angle = angle + np.arange(ANTS) * np.pi  # (G, 2)
        position = np.zeros((count, ANTS, POSITIONS))
        position[..., 0] = mujoco_model.INITIAL_RADIUS * np.cos(angle)
        position[..., 1] = mujoco_model.INITIAL_RADIUS * np.sin(angle)
        position[..., 2] = mujoco_model.INITIAL_HEIGHT
        position[..., 3] = 1  # upright
        position += noise.reshape(position.shape)
        position[..., 3:7] /= np.linalg.norm(position[..., 3:7], axis=-1, keepdims=True)
        bodies = self.physics.settle(position.reshape(count, -1), velocity)
        return SumoState(*bodies, np.zeros(count, np.int64), *np.zeros((2, count), bool))

    def observe(self, state: SumoState) -> Observations:
        """Return the observations of both seats of every match that is not over."""
        games = np.flatnonzero(~state.over)
        observation = ant_observations(state.bodies(games)).reshape(-1, len(obs.FIELDS))
        transform = obs.transform_of_view(observation, self.view)
        observation = np.column_stack([obs.from_world(observation, transform), transform])
        seat = np.tile(np.arange(ANTS), len(games))
        return Observations(np.repeat(games, ANTS), seat, observation, None, None)

    def step(self, state: SumoState, observations: Observations, action: Array) -> Array:
        """Simulate one step of 0.05 s and return the points (G, 2) that each ant gains.

        action: (R, 8) each motor's torque as a fraction of its maximum, in the order of obs.MOTORS.
        """
        games = observations.game[::ANTS]
        action = obs.to_world(action, observations.observation[:, len(obs.FIELDS) :])
        control = action.reshape(len(games), ANTS, HINGES)
        before = state.bodies(games)
        after = self.physics.advance(before, control.reshape(len(games), -1))
        finite = [np.isfinite(each.reshape(len(games), -1)).all(axis=1) for each in after]
        diverged = ~np.logical_and.reduce(finite)
        if diverged.any():
            count, when = int(diverged.sum()), state.steps[games[diverged]].max() + 1
            log.warning("sumo: %d matches became NaN by step %d and count as draws", count, when)
            for old, new in zip(before, after, strict=True):
                new[diverged] = old[diverged]
        for name, value in zip(Bodies._fields, after, strict=True):
            getattr(state, name)[games] = value
        state.steps[games] += 1
        torsos = torso_positions(after.position)
        lost = _lost(torsos)
        drawn = diverged | (state.steps[games] > STEP_LIMIT)
        state.over[games], state.diverged_games[games] = lost.any(axis=1) | drawn, diverged
        shaping = self._shaping(torso_positions(before.position), torsos, control)
        points = np.zeros((len(state.over), ANTS))
        points[games] = self._result(lost, drawn) + shaping
        return points

    def outcome(self, state: SumoState) -> Array:
        """Return (G, 2) for matches that are over: 1 for a win, -1 for a loss, 0 for a draw."""
        lost = _lost(torso_positions(state.position)) & ~state.diverged_games[:, None]
        return lost[:, ::-1].astype(float) - lost

    def _result(self, lost: Array, drawn: Array) -> Array:
        """Return the points (n, 2) of both ants for winning, losing or drawing in one step.

        The points are 0 in a match that goes on.

        `lost`: (n, 2) bool, the ants that lost in this step.
        `drawn`: (n,) bool, the matches that end as draws in this step.
        """
        alone = lost & ~lost[:, ::-1]
        reward = self.reward
        return reward.win * alone[:, ::-1] + reward.lose * alone + reward.draw * drawn[:, None]

    def _shaping(self, before: Array, after: Array, control: Array) -> Array:
        """Return the points (n, 2) that each ant gains in one step from the reward's shaping terms.

        `before`, `after`: (n, 2, 3) torso positions in m, before and after the step.
        `control`: (n, 2, 8) actions.
        """
        old, new = before[..., :2], after[..., :2]
        to_opponent = new[:, ::-1] - old
        distance = np.linalg.norm(to_opponent, axis=-1)
        speed = ((new - old) * to_opponent).sum(axis=-1) / STEP_SECONDS
        speed = speed / np.maximum(distance, 1e-9)
        push = np.exp(-np.linalg.norm(new[:, ::-1], axis=-1))
        effort = np.square(control).sum(axis=-1)
        nearer = _distance(old) - _distance(new)
        outwards = np.abs(new).max(axis=-1) - np.abs(old).max(axis=-1)
        reward = self.reward
        return (
            reward.move * np.maximum(speed, 0) + reward.push * push + reward.control * effort
            + reward.near * nearer[:, None] + reward.out * outwards[:, ::-1]
        )  # fmt: skip

    def features(self, observations: Observations) -> Array:
        """Return (R, 120) float32: the observed numbers, each divided by its typical size."""
        observation = observations.observation[:, : len(obs.FIELDS)]
        return (observation / obs.SCALES).astype(np.float32)

    def hand(self, observations: Observations) -> Array:
        """Return labels (R,) for grouping observations in figures: "ant" for every observation."""
        return np.full(len(observations), "ant")

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: the positions of both ants in the world frame."""
        at = dict(zip(obs.FIELDS, obs.in_world_axes(observation[None])[0][0], strict=True))
        own, other = (
            f"({at[f'{who}_x']:.2f}, {at[f'{who}_y']:.2f}), {at[f'{who}_height']:.2f} m high"
            for who in ("own", "other")
        )
        return f"at {own}; the opponent at {other}"


def torso_positions(position: Array) -> Array:
    """Return x, y and the height above the mat of each torso, (n, 2, 3) in m.

    `position`: (n, 30) as in `physics.Bodies`.
    """
    torsos = position.reshape(-1, ANTS, POSITIONS)[..., :3].copy()
    torsos[..., 2] -= mujoco_model.PLATFORM
    return torsos


def _lost(torsos: Array) -> Array:
    """Return whether each ant (n, 2) has fallen or left the ring, from `torso_positions`."""
    outside = np.abs(torsos[..., :2]).max(axis=-1) >= mujoco_model.RING
    return (torsos[..., 2] < FALLEN_HEIGHT) | outside


def _distance(torsos: Array) -> Array:
    """Return the distance (n,) in m between two ants whose x and y are `torsos` (n, 2, 2)."""
    return np.linalg.norm(torsos[:, 0] - torsos[:, 1], axis=-1)


def ant_observations(bodies: Bodies) -> Array:
    """Return each ant's observation (n, 2, 120) in the world frame, in the order of obs.FIELDS."""
    count = len(bodies.position)
    position = bodies.position.reshape(count, ANTS, POSITIONS).copy()
    position[..., 2] -= mujoco_model.PLATFORM
    velocity = bodies.velocity.reshape(count, ANTS, VELOCITIES)
    force = np.abs(bodies.force.clip(-obs.MAX_FORCE, obs.MAX_FORCE))
    force = force.reshape(count, ANTS, 6 * BODIES)
    other = np.concatenate([position[..., :7], force[..., :6]], axis=-1)[:, ::-1]
    return np.concatenate([position, velocity, force, other], axis=-1)


def _absolute_folder(folder: Any) -> str | None:
    """Return the absolute path of a folder, or None if `folder` is None or empty.

    Raises UserError if `folder` is not a string.
    """
    if folder and not isinstance(folder, str):
        raise UserError(f"zoo must be a folder, not {folder!r}")
    return str(Path(folder).absolute()) if folder else None


def _reward_weights(reward: str | Mapping[str, float]) -> RewardWeights:
    """Return the reward weights that the game's option `reward` asks for.

    `reward`: a name of REWARDS, or a mapping with new values for some of RoboSumo's weights. Raises
    UserError for an unknown name or term, or for a weight that is not a finite number.
    """
    if isinstance(reward, str):
        if reward not in REWARDS:
            hint = suggestion(reward, REWARDS)
            raise UserError(f"unknown reward '{reward}' in sumo: {hint}")
        return REWARDS[reward]
    if not isinstance(reward, Mapping):
        raise UserError(f"reward must be a name or a mapping of terms, not {reward!r}")
    terms = [field.name for field in fields(RewardWeights)]
    for term, weight in reward.items():
        if term not in terms:
            raise UserError(f"unknown reward term '{term}': {suggestion(term, terms)}")
        if not isinstance(weight, (int, float)) or not np.isfinite(weight):
            raise UserError(f"reward.{term} must be a number, not {weight!r}")
    return replace(RewardWeights(), **reward)
