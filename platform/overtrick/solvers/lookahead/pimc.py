"""Perfect information Monte Carlo (PIMC): sample hidden cards, and simulate each action.

Source: Levy 1989, "The million pound bridge program"; Ginsberg 2001, "GIB: imperfect information in
a computationally challenging game".
"""

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
    """Perfect information Monte Carlo: take the action of highest mean return over sampled deals.

    After each tried action the seat follows the policy `rollout`, and the other seat the policy
    `opponent`. The sampled deals agree with the seat's observation. They are not weighted by the
    opponent's earlier actions.
    """

    game: Resumable
    opponent: BehaviouralPolicy
    rollout: BehaviouralPolicy
    worlds: int  # deals sampled at each decision

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session in which each decision samples its own deals."""
        return _PimcSession(self, rng)

    def action_values(self, observations: Observations, rng: Generator) -> Array:
        """Return (R, A) mean points from each decision onwards for each action; -inf if illegal.

        The mean is over the deals sampled for the decision, the same for all its actions.
        """
        assert observations.legal is not None
        chunk = max(1, MAX_PARALLEL_GAMES // (self.worlds * observations.legal.shape[1]))
        chunks = [
            np.arange(k, min(k + chunk, len(observations)))
            for k in range(0, len(observations), chunk)
        ]
        return np.concatenate(
            [self._chunk(select_rows(observations, rows), rng) for rows in chunks]
        )

    def _chunk(self, observations: Observations, rng: Generator) -> Array:
        legal = observations.legal
        assert legal is not None
        row_of_particle = np.repeat(np.arange(len(observations)), self.worlds)
        rows = select_rows(observations, row_of_particle)
        state = self.game.resume(rows, self.game.redeal(rows, rng))
        particle, action = np.nonzero(legal[row_of_particle])
        responder = Responder(self.game, self.opponent, (self.rollout,), self.worlds)
        seat = rows.seat[particle]
        returns = responder.simulate(self.rollout, select_rows(state, particle), seat, action, rng)
        index = particle // self.worlds * legal.shape[1] + action
        total = np.bincount(index, returns, legal.size).reshape(legal.shape)
        return np.where(legal, total / self.worlds, -np.inf)


@dataclass(eq=False)
class _PimcSession:
    policy: PimcPolicy
    rng: Generator

    def act(self, observations: Observations) -> Actions:
        """Return the best action of each row; ties go to the first action.

        A row with one legal action is not searched. All log-probabilities are 0.
        """
        assert observations.legal is not None
        action = observations.legal.argmax(axis=1)
        choices = np.flatnonzero(observations.legal.sum(axis=1) > 1)
        if len(choices):
            values = self.policy.action_values(select_rows(observations, choices), self.rng)
            action[choices] = values.argmax(axis=1)
        return Actions(action, np.zeros(len(observations)))
