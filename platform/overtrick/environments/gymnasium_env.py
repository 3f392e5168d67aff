"""Gymnasium environment of one seat of a game; policies play the other seats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator

from overtrick.core import Array, Game, Policy, UserError
from overtrick.environments.game_text import GameText
from overtrick.environments.single_game import make_single_game, validated_move
from overtrick.games import registry
from overtrick.policies.uniform import UniformPolicy, UniformVectorPolicy

Info = dict[str, Any]
"""Keys: `seat`, the agent's seat; for discrete actions `action_mask`, 1 for each legal action."""


class SingleSeatEnv(Env):
    """Gymnasium environment of one seat of a game; a policy plays the other seats.

    Observations are `Game.features`. Discrete actions are indices in the order of
    `Game.action_names`. Continuous actions are vectors of float32 from -1 to 1. The reward of an
    action is the points that the seat gains until it acts again. An illegal action ends the game
    with the game's lowest payoff. If a game ends before the seat has acted, a new game is dealt.
    Episodes are never truncated.

    `others`: in each game one of these policies is drawn at random and plays all other seats.
    `seat`: the agent's seat; None draws a seat in each game.
    `render_mode`: "ansi" makes `render` return the agent's observation as text, with all actions of
    the game so far; None: there is nothing to render.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012  # as Gymnasium has it
        "render_modes": ["ansi"], "render_fps": 1
    }  # fmt: skip

    def __init__(
        self,
        game: Game,
        others: Sequence[Policy],
        seat: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the environment.

        Raises UserError for a game that cannot be played, for a seat that it does not have, and for
        an unknown render mode.
        """
        registry.check_playable(game)
        check_seat(game, seat)
        self.game = game
        self.others = others
        self.seat = seat
        self.single_game = make_single_game(game)
        self.render_mode = render_mode
        self._text = GameText(game, render_mode)
        self._must_act = False
        self._no_action = np.zeros(game.actions or 0, np.int8)
        self._last = self.single_game.observation
        self.observation_space = Box(-np.inf, np.inf, self._last.shape, np.float32)
        width = len(game.action_names)
        self.action_space = (
            Box(-1, 1, (width,), np.float32) if game.actions is None else Discrete(game.actions)
        )
        self._rngs: list[Generator] = []

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """Deal a new game; return the observation (F,) and info of the seat's first decision.

        `options`: ignored. The same seed and actions give the same sequence of games.
        """
        super().reset(seed=seed)
        if seed is not None or not self._rngs:
            self._rngs = self.np_random.spawn(2 + self.game.seats)
        deal_rng, choice_rng, *policy_rngs = self._rngs
        self._must_act = False
        while not self._must_act:
            seats = self.game.seats
            self._own = int(choice_rng.integers(seats)) if self.seat is None else self.seat
            policy = self.others[int(choice_rng.integers(len(self.others)))]
            self._sessions = [policy.start(1, rng) for rng in policy_rngs]
            self.single_game.begin(deal_rng)
            self._text.begin()
            self._advance()
        return self._last, self._info()

    def render(self) -> str | None:
        """Return the agent's latest observation as text or, once the game is over, all actions.

        Returns None without a render mode.
        """
        return self._text.text

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Play an action; return observation (F,), reward, terminated, truncated and info.

        Raises ValueError if no game is in progress, and for a continuous action that has a wrong
        length or is not finite.
        """
        if not self._must_act:
            raise ValueError("no game in progress: call reset")
        move: Any
        if self.game.actions is None:
            move = validated_move(action, len(self.game.action_names), f"seat_{self._own}")
        elif 0 <= action < self.game.actions and self.single_game.legal[action]:
            move = int(action)
        else:
            self._must_act = False
            self._text.end()
            return self._last, registry.lowest_payoff(self.game), True, False, self._info()
        points = self._act(move) + self._advance()
        return self._last, points, not self._must_act, False, self._info()

    def action_masks(self) -> Array:
        """Return the mask (A,) bool of legal actions, for MaskablePPO of sb3-contrib."""
        assert self.game.actions is not None
        return self._mask() == 1

    def _mask(self) -> Array:
        """Return the mask (A,) int8 of legal actions; all 0 once the game is over."""
        return self.single_game.legal if self._must_act else self._no_action

    def _info(self) -> Info:
        """Return the info: the agent's seat and, for discrete actions, a copied action mask."""
        info: Info = {"seat": self._own}
        if self.game.actions is not None:
            info["action_mask"] = self._mask().copy()
        return info

    def _advance(self) -> float:
        """Let the other seats act until the agent's turn; return the points the agent gains."""
        points = 0.0
        while (seat := self.single_game.seat) not in (self._own, -1):
            (move,) = self._sessions[seat].act(self.single_game.observations).action
            points += self._act(move)
        self._must_act = seat >= 0
        if self._must_act:
            self._last = self.single_game.observation
        self._text.update(self.single_game)
        return points

    def _act(self, move: Any) -> float:
        """Play an action of the seat to act; return the points that the agent gains."""
        self._text.add(self.single_game.seat, move)
        return self.single_game.act(move)[self._own]


def single_env(
    name: str,
    others: Sequence[Policy] = (),
    seat: int | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> SingleSeatEnv:
    """Make a Gymnasium environment of one seat of a registered game.

    `others`: in each game one of these policies is drawn at random and plays all other seats; by
        default a uniformly random policy.
    `seat`: the agent's seat; None draws a seat in each game.
    `render_mode`: "ansi", or None for no rendering.
    `options`: the game's options.

    Raises UserError for a game that is unknown or cannot be played, and for a wrong seat, render
    mode or option.
    """
    game = registry.make(name, **options)
    return SingleSeatEnv(game, others or (uniform_policy(game),), seat, render_mode)


def uniform_policy(game: Game) -> Policy:
    """Return the policy that acts uniformly at random in a game."""
    return UniformPolicy() if game.actions else UniformVectorPolicy(len(game.action_names))


def check_seat(game: Game, seat: int | None) -> None:
    """Raise UserError for a seat that a game does not have; None means any seat."""
    if seat is not None and not 0 <= seat < game.seats:
        raise UserError(f"{game.name} has seats 0 to {game.seats - 1}, not {seat}")
