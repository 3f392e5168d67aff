"""Perfect information Monte Carlo: what is hidden is drawn again and again, and each action played
out (Levy 1989, "The million pound bridge program"; Ginsberg 2001, "GIB")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Choice, Deals, Mixed, Player, Redealable, Turn, take, take_turn
from overtrick.solvers.lookahead.local_best_response import ROWS, Responder


class Resumable(Redealable, Protocol):
    """A game that can be taken up where a row stands."""

    def resume(self, turn: Turn, deals: Deals) -> Any:
        """(R,) games that stand where the rows do, with what is hidden as in the deals (R, C)."""


@dataclass(frozen=True)
class Sampling:
    """Plays the action that wins most on average over so many imagined deals.

    In each of them, after each action, the seat goes on by `rollout` and the other one by
    `opponent`. The deals fit what the row sees; what the opponent's choices tell is left out.
    """

    game: Resumable
    opponent: Mixed
    rollout: Mixed
    worlds: int

    def sit(self, games: int, rng: Generator) -> Player:
        return _Seated(self, rng)

    def hopes(self, turn: Turn, rng: Generator) -> Array:
        """(R, A) mean points from here on by each action; -inf where it is illegal."""
        assert turn.legal is not None
        each = max(1, ROWS // (self.worlds * turn.legal.shape[1]))
        parts = [np.arange(k, min(k + each, len(turn))) for k in range(0, len(turn), each)]
        return np.concatenate([self._hopes(take_turn(turn, rows), rng) for rows in parts])

    def _hopes(self, turn: Turn, rng: Generator) -> Array:
        legal = turn.legal
        assert legal is not None
        again = np.repeat(np.arange(len(turn)), self.worlds)
        rows = take_turn(turn, again)
        state = self.game.resume(rows, self.game.redeal(rows, rng))
        one, action = np.nonzero(legal[again])
        responder = Responder(self.game, self.opponent, (self.rollout,), self.worlds)
        seat = rows.seat[one]
        won = responder.imagine(self.rollout, take(state, one), seat, action, rng)
        place = one // self.worlds * legal.shape[1] + action
        total = np.bincount(place, won, legal.size).reshape(legal.shape)
        return np.where(legal, total / self.worlds, -np.inf)


class _Seated:
    def __init__(self, policy: Sampling, rng: Generator) -> None:
        self.policy = policy
        self.rng = rng

    def act(self, turn: Turn) -> Choice:
        assert turn.legal is not None
        action = turn.legal.argmax(axis=1)
        open_rows = np.flatnonzero(turn.legal.sum(axis=1) > 1)  # of one action nothing is asked
        if len(open_rows):
            hopes = self.policy.hopes(take_turn(turn, open_rows), self.rng)
            action[open_rows] = hopes.argmax(axis=1)
        return Choice(action, np.zeros(len(turn)))
