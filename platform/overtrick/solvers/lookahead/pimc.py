"""Perfect information Monte Carlo: what is hidden is drawn again and again, and each action played
out (Levy 1989, "The million pound bridge program"; Ginsberg 2001, "GIB")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    Actions,
    Array,
    BehaviouralPolicy,
    Observations,
    PolicySession,
    Resumable,
    select_rows,
)
from overtrick.solvers.lookahead.local_best_response import MAX_PARALLEL_GAMES, Responder


@dataclass(frozen=True)
class PimcPolicy:
    """Plays the action that wins most on average over so many imagined deals.

    In each of them, after each action, the seat goes on by `rollout` and the other one by
    `opponent`. The deals fit what the row sees; what the opponent's choices tell is left out.
    """

    game: Resumable
    opponent: BehaviouralPolicy
    rollout: BehaviouralPolicy
    worlds: int

    def start(self, games: int, rng: Generator) -> PolicySession:
        return _PimcSession(self, rng)

    def hopes(self, observations: Observations, rng: Generator) -> Array:
        """(R, A) mean points from here on by each action; -inf where it is illegal."""
        assert observations.legal is not None
        each = max(1, MAX_PARALLEL_GAMES // (self.worlds * observations.legal.shape[1]))
        parts = [
            np.arange(k, min(k + each, len(observations)))
            for k in range(0, len(observations), each)
        ]
        return np.concatenate([self._hopes(select_rows(observations, rows), rng) for rows in parts])

    def _hopes(self, observations: Observations, rng: Generator) -> Array:
        legal = observations.legal
        assert legal is not None
        again = np.repeat(np.arange(len(observations)), self.worlds)
        rows = select_rows(observations, again)
        state = self.game.resume(rows, self.game.redeal(rows, rng))
        one, action = np.nonzero(legal[again])
        responder = Responder(self.game, self.opponent, (self.rollout,), self.worlds)
        seat = rows.seat[one]
        won = responder.imagine(self.rollout, select_rows(state, one), seat, action, rng)
        place = one // self.worlds * legal.shape[1] + action
        total = np.bincount(place, won, legal.size).reshape(legal.shape)
        return np.where(legal, total / self.worlds, -np.inf)


class _PimcSession:
    def __init__(self, policy: PimcPolicy, rng: Generator) -> None:
        self.policy = policy
        self.rng = rng

    def act(self, observations: Observations) -> Actions:
        assert observations.legal is not None
        action = observations.legal.argmax(axis=1)
        open_rows = np.flatnonzero(
            observations.legal.sum(axis=1) > 1
        )  # of one action nothing is asked
        if len(open_rows):
            hopes = self.policy.hopes(select_rows(observations, open_rows), self.rng)
            action[open_rows] = hopes.argmax(axis=1)
        return Actions(action, np.zeros(len(observations)))
