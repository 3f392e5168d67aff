"""One seat of a game as an environment of Gymnasium; others sit in the other seats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import Env
from gymnasium.spaces import Box, Discrete

from overtrick import games
from overtrick.core import Array, Game, Policy, Refused, take_turn
from overtrick.policies import Uniform, UniformMoves

Told = dict[str, Any]
"""action_mask: 1 for each legal action, if there are such; seat: the one that the agent has."""


class Single(Env):
    """A game as one seat plays it; one of some policies, drawn for each game, plays every other.

    Observations are `Game.features`; actions numbers in the order of `Game.action_names`, or
    vectors of float32 from -1 to 1 where moves are such. The reward of an action is what the seat
    gains until it acts again. An illegal action ends the game with the worst payoff that the game
    has. seat: none draws one for each game. A game that is over before the seat has acted is dealt
    again. Nothing is truncated.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # as Gymnasium has it

    def __init__(self, game: Game, others: Sequence[Policy], seat: int | None = None) -> None:
        """Raises Refused for a seat that the game has not."""
        if seat is not None and not 0 <= seat < game.seats:
            raise Refused(f"{game.name} has seats 0 to {game.seats - 1}, not {seat}")
        self.game = game
        self.others = others
        self.seat = seat
        self._row: int  # of the seat in it
        self._seen: Array
        first = game.turn(game.start(game.deal(1, np.random.default_rng(0))))
        self._turn = take_turn(first, np.zeros(0, np.int64))  # empty while no game is on
        wide = game.features(first).shape[1]
        self.observation_space = Box(-np.inf, np.inf, (wide,), np.float32)
        width = len(game.action_names)
        self.action_space = (
            Box(-1, 1, (width,), np.float32) if game.actions is None else Discrete(game.actions)
        )

    def reset(self, *, seed: int | None = None, options: Told | None = None) -> tuple[Array, Told]:
        """The first decision of a new game; the same seed brings the same games."""
        super().reset(seed=seed)
        while True:
            luck, *rngs = self.np_random.spawn(1 + self.game.seats)
            self._own = int(luck.integers(self.game.seats)) if self.seat is None else self.seat
            policy = self.others[int(luck.integers(len(self.others)))]
            self._players = [policy.sit(1, rng) for rng in rngs]
            self._state = self.game.start(self.game.deal(1, luck))
            self._advance()
            if len(self._turn):
                return self._seen, self._told()

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Told]:
        """Raises ValueError before the first game and once a game is over."""
        if not len(self._turn):
            raise ValueError("no game is on: reset it")
        legal = self._turn.legal
        if legal is not None and not (0 <= action < legal.shape[1] and legal[self._row, action]):
            self._turn = take_turn(self._turn, np.zeros(0, np.int64))
            return self._seen, float(self.game.worst), True, False, self._told()  # type: ignore[attr-defined]
        points = self._play(action) + self._advance()
        return self._seen, points, not len(self._turn), False, self._told()

    def action_masks(self) -> Array:
        """(A,) bool which actions are legal, as learners with masks ask for them."""
        assert self.game.actions is not None
        if not len(self._turn):
            return np.zeros(self.game.actions, bool)
        assert self._turn.legal is not None
        found: Array = self._turn.legal[self._row]
        return found

    def _told(self) -> Told:
        """What goes along with an observation."""
        told: Told = {"seat": self._own}
        if self.game.actions is not None:
            told["action_mask"] = self.action_masks().astype(np.int8)
        return told

    def _advance(self) -> float:
        """Let the others act until the seat has to; the points that it gains meanwhile."""
        points = 0.0
        while True:
            self._turn = self.game.turn(self._state)
            own = np.flatnonzero(self._turn.seat == self._own)
            if len(own):
                self._row = int(own[0])
                self._seen = self.game.features(self._turn)[self._row]
                return points
            if not len(self._turn):
                return points
            points += self._play(None)

    def _play(self, action: Any) -> float:
        """One step of all who must act, of the seat by an action; the points that it gains."""
        parts = []
        for row, seat in enumerate(self._turn.seat.tolist()):
            if seat == self._own:
                kind = np.float64 if self.game.actions is None else np.int64
                parts.append(np.asarray([action], kind))
            else:
                parts.append(self._players[seat].act(take_turn(self._turn, np.array([row]))).action)
        return float(self.game.step(self._state, self._turn, np.concatenate(parts))[0, self._own])


def single_env(
    name: str, others: Sequence[Policy] = (), seat: int | None = None, **options: Any
) -> Single:
    """A game of the registry as an environment, against random players if there are no others;
    options are its own. Raises Refused."""
    game = games.make(name, **options)
    games.check_played(game)
    real = game.actions is None
    anybody: Policy = UniformMoves(len(game.action_names)) if real else Uniform()
    return Single(game, others or (anybody,), seat)
