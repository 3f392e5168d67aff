"""Players on a board of a game with an abstraction of hands: an oracle, and an opponent model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy
from overtrick.evaluation.board.board_setting import FinishedGame
from overtrick.evaluation.board.bucket_match import BucketSetting
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.players import EXPLORATION_INTERVAL
from overtrick.learners.supervised.bucket_posterior import BucketEstimate, BucketPrior
from overtrick.solvers.lookahead.abstraction_response import abstraction_response

UPDATE_DIVISOR = 20
"""After n games a player updates its estimate every max(1, n // 20) games."""


class FixedPolicyPlayer:
    """Player that follows one policy and does not adapt."""

    def __init__(self, policy: BehaviouralPolicy) -> None:
        self._policy = policy

    def policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the policy."""
        return self._policy


def oracle_policy(setting: BucketSetting, opponent: BucketOpponent) -> BehaviouralPolicy:
    """Return the best response in the abstraction to an opponent's policy, which is known."""
    strategy = setting.abstraction.tabulate(opponent.policy, np.random.default_rng(0))
    return setting.abstraction.policy(abstraction_response(setting.indexed, strategy))


class BucketPosteriorPlayer:
    """Player that estimates the opponent by a population prior, in an abstraction of hands.

    The counterpart of `players.PopulationPosteriorPlayer`: it plays the best response in the
    abstraction to the estimate and, in every fifth game, to a strategy drawn from the posterior.
    """

    def __init__(self, setting: BucketSetting, prior: BucketPrior, rng: Generator) -> None:
        self.setting, self.rng = setting, rng
        self.estimate = BucketEstimate(prior)
        self.observed = self.updated = 0  # games
        self.response = self._respond(self.estimate.strategy())
        self.exploration = self._respond(self.estimate.sample(rng))

    def policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the best response to the estimate from all games so far."""
        self._observe(games)
        if self.updated < self.observed:
            self._update()
        return self.response

    def next_policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the policy of the next game.

        In every fifth game it is the response to a strategy drawn from the posterior. After n games
        the estimate is updated every max(1, n // UPDATE_DIVISOR) games.
        """
        self._observe(games)
        interval = max(1, self.observed // UPDATE_DIVISOR)
        if self.updated < self.observed and self.observed % interval == 0:
            self._update()
        explores = self.observed % EXPLORATION_INTERVAL == EXPLORATION_INTERVAL - 1
        return self.exploration if explores else self.response

    def _observe(self, games: Sequence[FinishedGame]) -> None:
        for game in games[self.observed :]:
            seen = game.seat, game.cards, game.actions, game.payoff
            self.estimate.observe(*self.setting.abstraction.opponent_decisions(*seen))
        self.observed = len(games)

    def _update(self) -> None:
        self.estimate.update()
        self.updated = self.observed
        self.response = self._respond(self.estimate.strategy())
        self.exploration = self._respond(self.estimate.sample(self.rng))

    def _respond(self, opponent: Array) -> BehaviouralPolicy:
        response = abstraction_response(self.setting.indexed, opponent)
        return self.setting.abstraction.policy(response)
