"""Gymnasium vector environment: one seat of many games that are played in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.random import Generator

from overtrick.core import (
    Array,
    Game,
    Observations,
    Policy,
    PolicyWithMemory,
    UserError,
    select_rows,
)
from overtrick.environments.gymnasium_env import check_seat, uniform_policy
from overtrick.games import registry

Info = dict[str, Any]
AGENT = -1  # in place of the number of a policy
NO_ROWS = np.zeros(0, np.int64)


class BatchVectorEnv(VectorEnv):
    """Vector environment of G games in one batch: the agent has one seat of each game.

    Observations, actions, rewards and illegal actions are those of `SingleSeatEnv`, with a leading
    axis G. A finished game is replaced at once by a new game (AutoresetMode.SAME_STEP): the
    returned observation is the first of the new game, `info["final_info"]["seat"]` the agent's seat
    in the finished one, and `info["final_obs"]` zeros, because a finished game has no observation.

    `others`: in each game one of these policies, drawn at random, plays all other seats. They must
    have no memory. `seat`: the agent's seat; None draws a seat in each game. The attribute
    `decisions` has the agent's current decisions, for policies of this package.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  # as Gymnasium has it
        "render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP
    }  # fmt: skip

    def __init__(
        self, game: Game, num_envs: int, others: Sequence[Policy] = (), seat: int | None = None
    ) -> None:
        """Make the environment.

        Raises UserError for a game that cannot be played, for a seat that it does not have, and for
        policies with memory.
        """
        registry.check_playable(game)
        check_seat(game, seat)
        if any(isinstance(each, PolicyWithMemory) and each.remembers for each in others):
            raise UserError("the other seats of a vector environment need policies without memory")
        self.game = game
        self.num_envs = num_envs
        self.others = others or (uniform_policy(game),)
        self.seat = seat
        width = game.features(_first_observations(game)).shape[1]
        self.single_observation_space = Box(-np.inf, np.inf, (width,), np.float32)
        self.single_action_space = (
            Box(-1, 1, (len(game.action_names),), np.float32)
            if game.actions is None
            else Discrete(game.actions)
        )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._nothing = np.zeros((num_envs, width), np.float32)
        self._nothing.flags.writeable = False  # every step returns it
        self._rngs: list[Generator] = []

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """Deal G new games; return the observations (G, F) and info of the first decisions.

        `options`: ignored. The same seed and actions give the same games.
        """
        super().reset(seed=seed)
        if seed is not None or not self._rngs:
            self._rngs = self.np_random.spawn(2 + len(self.others))
        self._deal_rng, self._choice_rng, *policy_rngs = self._rngs
        self._sessions = [
            policy.start(self.num_envs, rng)
            for policy, rng in zip(self.others, policy_rngs, strict=True)
        ]
        self._own, self._who = self._draw(self.num_envs)
        self._state = self.game.start(self.game.deal(self.num_envs, self._deal_rng))
        self._advance(np.zeros(self.num_envs), np.ones(self.num_envs, bool))
        return self._features(), self._info()

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Info]:
        """Play an action in each game.

        `actions`: (G,), or (G, A) if actions are continuous. Returns observations (G, F), rewards
        (G,) float64, terminated and truncated (G,) bool, and info. Raises ValueError before reset.
        """
        if not self._rngs:
            raise ValueError("no game in progress: call reset")
        actions, seats = np.asarray(actions), self._own.copy()
        rewards, finished = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        illegal = self._illegal(actions)
        rows = self._observations
        if illegal.any():
            rewards[illegal], finished[illegal] = registry.lowest_payoff(self.game), True
            rows = select_rows(rows, ~illegal[rows.game])
            self._restart(np.flatnonzero(illegal))
        every = np.arange(self.num_envs)
        own = np.flatnonzero(rows.seat == self._own[rows.game])
        points = self._play(self._state, rows, every, own, actions[rows.game[own]])
        rewards += np.where(illegal, 0, points[every, self._own])
        self._advance(rewards, finished)
        info = self._info()
        if finished.any():
            info |= {
                "final_obs": self._nothing,
                "_final_obs": finished.copy(),
                "final_info": {"seat": seats, "_seat": finished.copy()},
                "_final_info": finished.copy(),
            }
        return self._features(), rewards, finished, np.zeros(self.num_envs, bool), info

    def _advance(self, rewards: Array, finished: Array) -> None:
        """Let the other seats act, and replace finished games, until the agent must act in all.

        `rewards` (G,) and `finished` (G,) of this step are changed in place. Games that are marked
        as finished have been replaced: what happens in their successors gives no reward.
        """
        games = np.arange(self.num_envs)  # those in which it may not be the agent's turn
        while len(games):
            part = select_rows(self._state, games)
            rows, seats = self.game.observe(part), self._own[games]
            waiting, over = np.zeros(len(games), bool), np.ones(len(games), bool)
            waiting[rows.game[rows.seat == seats[rows.game]]] = True
            over[rows.game] = False
            others = select_rows(rows, ~waiting[rows.game])
            if len(others):
                points = self._play(part, others, games)
                gained = points[np.arange(len(games)), seats]
                rewards[games] += np.where(finished[games], 0, gained)
                moved = ~(waiting | over)
                self._write(games[moved], select_rows(part, moved))
            if over.any():
                finished[games[over]] = True
                self._restart(games[over])
            games = games[~waiting]
        self._observations = self.game.observe(self._state)
        own = self._observations.seat == self._own[self._observations.game]
        self.decisions = select_rows(self._observations, own)

    def _play(
        self, state: Any, rows: Observations, games: Array, own: Array = NO_ROWS, actions: Any = ()
    ) -> Array:
        """Play one action in each row of some games; return the points (games, S) of all seats.

        `games`: the numbers of the games in `state`. `own`: the rows in which the agent acts, with
        its `actions`.
        """
        if not len(rows):
            return np.zeros((len(games), self.game.seats))
        choices = [(own, actions)] if len(own) else []
        numbered = replace(rows, game=games[rows.game])  # as the sessions number the games
        policy = self._who[numbered.game]
        policy[own] = AGENT
        for number, session in enumerate(self._sessions):
            others = np.flatnonzero(policy == number)
            if len(others):
                choices.append((others, session.act(select_rows(numbered, others)).action))
        where, chosen = (np.concatenate(each) for each in zip(*choices, strict=True))
        return self.game.step(state, rows, chosen[np.argsort(where)])

    def _restart(self, games: Array) -> None:
        """Deal new games in place of the games with these numbers."""
        self._write(games, self.game.start(self.game.deal(len(games), self._deal_rng)))
        self._own[games], self._who[games] = self._draw(len(games))

    def _write(self, games: Array, states: Any) -> None:
        """Replace the states of games by those of `states`, in this order."""
        for column in fields(states):
            getattr(self._state, column.name)[games] = getattr(states, column.name)

    def _draw(self, games: int) -> tuple[Array, Array]:
        """Draw the agent's seat, and the policy of the other seats, in each of some new games."""
        seats = self._choice_rng.integers(self.game.seats, size=games)
        own = seats if self.seat is None else np.full(games, self.seat)
        return own, self._choice_rng.integers(len(self.others), size=games)

    def _by_game(self, values: Array) -> Array:
        """Return values of the agent's decisions in the order of the games."""
        ordered = np.empty_like(values)
        ordered[self.decisions.game] = values
        return ordered

    def _features(self) -> Array:
        """Return the agent's observations (G, F)."""
        return self._by_game(self.game.features(self.decisions))

    def _legal(self) -> Array:
        """Return the mask (G, A) of the agent's legal actions."""
        assert self.decisions.legal is not None
        return self._by_game(self.decisions.legal)

    def _illegal(self, actions: Array) -> Array:
        """Return a mask (G,) of the games in which the agent's action is not legal.

        Raises ValueError for actions of a wrong shape, and for continuous ones that are not finite.
        """
        wanted, continuous = self.action_space.shape, self.game.actions is None
        if actions.shape != wanted or (continuous and not np.isfinite(actions).all()):
            raise ValueError(f"actions must be finite numbers of shape {wanted}")
        if continuous:
            return np.zeros(self.num_envs, bool)
        if not np.issubdtype(actions.dtype, np.integer):
            raise ValueError(f"actions must be integers, not {actions.dtype}")
        known = (actions >= 0) & (actions < self.game.actions)
        legal = self._legal()[np.arange(self.num_envs), np.where(known, actions, 0)]
        return ~(known & legal)

    def _info(self) -> Info:
        """Return the agent's seats (G,) and, for discrete actions, their masks (G, A) int8."""
        info: Info = {"seat": self._own.copy()}
        if self.game.actions is not None:
            info["action_mask"] = self._legal().astype(np.int8)
        return info


def vector_env(
    name: str,
    num_envs: int,
    others: Sequence[Policy] = (),
    seat: int | None = None,
    **options: Any,
) -> BatchVectorEnv:
    """Make a vector environment of one seat of `num_envs` games; arguments as of `single_env`."""
    return BatchVectorEnv(registry.make(name, **options), num_envs, others, seat)


def _first_observations(game: Game) -> Observations:
    """Return the observations at the start of some game."""
    return game.observe(game.start(game.deal(1, np.random.default_rng(0))))
