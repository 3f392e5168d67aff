"""One seat of a game as an environment of Gymnasium; others sit in the other seats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator

from overtrick.core import Array, Game, Policy, UserError
from overtrick.environments.single_game import lowest_payoff, make_single_game, validated_move
from overtrick.games import registry
from overtrick.policies.uniform import UniformPolicy, UniformVectorPolicy

Info = dict[str, Any]
"""action_mask: 1 for each legal action, if there are such; seat: the one that the agent has."""


class SingleSeatEnv(Env):
    """A game as one seat plays it; one of some policies, drawn for each game, plays every other.

    Observations are `Game.features`; actions numbers in the order of `Game.action_names`, or
    vectors of float32 from -1 to 1 where moves are such. The reward of an action is what the seat
    gains until it acts again. An illegal action ends the game with the worst payoff that the game
    has. seat: none draws one for each game. A game that is over before the seat has acted is dealt
    again. Nothing is truncated.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as Gymnasium has it

    def __init__(self, game: Game, others: Sequence[Policy], seat: int | None = None) -> None:
        """Raises UserError for a seat that the game has not."""
        if seat is not None and not 0 <= seat < game.seats:
            raise UserError(f"{game.name} has seats 0 to {game.seats - 1}, not {seat}")
        self.game = game
        self.others = others
        self.seat = seat
        self.single_game = make_single_game(game)
        self._on = False  # is it the seat's turn?
        self._closed = np.zeros(game.actions or 0, np.int8)
        self._seen = self.single_game.observation
        self.observation_space = Box(-np.inf, np.inf, self._seen.shape, np.float32)
        width = len(game.action_names)
        self.action_space = (
            Box(-1, 1, (width,), np.float32) if game.actions is None else Discrete(game.actions)
        )
        self._rngs: list[Generator] = []

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """The first decision of a new game; the same seed and actions bring the same games."""
        super().reset(seed=seed)
        if seed is not None or not self._rngs:
            self._rngs = self.np_random.spawn(2 + self.game.seats)
        chance, luck, *rngs = self._rngs
        self._on = False
        while not self._on:
            self._own = int(luck.integers(self.game.seats)) if self.seat is None else self.seat
            policy = self.others[int(luck.integers(len(self.others)))]
            self._players = [policy.start(1, rng) for rng in rngs]
            self.single_game.begin(chance)
            self._advance()
        return self._seen, self._told()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Raises ValueError before the first game and once a game is over, and for a move by real
        vectors unless it is as many finite numbers as there are motors."""
        if not self._on:
            raise ValueError("no game is on: reset it")
        move: Any
        if self.game.actions is None:
            move = validated_move(action, len(self.game.action_names), f"seat_{self._own}")
        elif 0 <= action < self.game.actions and self.single_game.legal[action]:
            move = int(action)
        else:
            self._on = False
            return self._seen, lowest_payoff(self.game), True, False, self._told()
        points = self.single_game.act(move)[self._own] + self._advance()
        return self._seen, points, not self._on, False, self._told()

    def action_masks(self) -> Array:
        """(A,) bool which actions are legal, as learners with masks ask for them."""
        assert self.game.actions is not None
        return self._mask() == 1

    def _mask(self) -> Array:
        """(A,) int8 which actions are legal."""
        return self.single_game.legal if self._on else self._closed

    def _told(self) -> Info:
        """What goes along with an observation."""
        told: Info = {"seat": self._own}
        if self.game.actions is not None:
            told["action_mask"] = self._mask().copy()
        return told

    def _advance(self) -> float:
        """Let the others act until the seat has to; the points that it gains meanwhile."""
        points = 0.0
        while (seat := self.single_game.seat) not in (self._own, -1):
            (move,) = self._players[seat].act(self.single_game.observations).action
            points += self.single_game.act(move)[self._own]
        self._on = seat >= 0
        if self._on:
            self._seen = self.single_game.observation
        return points


def single_env(
    name: str, others: Sequence[Policy] = (), seat: int | None = None, **options: Any
) -> SingleSeatEnv:
    """A game of the registry as an environment, against random players if there are no others;
    options are its own. Raises UserError."""
    game = registry.make(name, **options)
    registry.check_playable(game)
    real = game.actions is None
    anybody: Policy = UniformVectorPolicy(len(game.action_names)) if real else UniformPolicy()
    return SingleSeatEnv(game, others or (anybody,), seat)
