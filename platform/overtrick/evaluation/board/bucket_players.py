"""Players on a board of a game with an abstraction of hands: an oracle, and an opponent model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, BehaviouralPolicy
from overtrick.evaluation.board.board_setting import FinishedGame
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.bucket_setting import BucketSetting
from overtrick.evaluation.board.posterior_player import PosteriorPlayer
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


class BucketPosteriorPlayer(PosteriorPlayer[BehaviouralPolicy]):
    """Player that estimates the opponent by a population prior, in an abstraction of hands.

    It plays best responses of the abstraction to the estimate.
    """

    def __init__(self, setting: BucketSetting, prior: BucketPrior, rng: Generator) -> None:
        self.setting, self.estimate = setting, BucketEstimate(prior)
        super().__init__(self.estimate, UPDATE_DIVISOR, rng)

    def policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the best response to the estimate from all games so far."""
        return self._response(games)

    def next_policy(self, games: Sequence[FinishedGame]) -> BehaviouralPolicy:
        """Return the policy of the next game; see `PosteriorPlayer`."""
        return self._next_response(games)

    def _observe(self, game: FinishedGame) -> None:
        seen = game.seat, game.cards, game.actions, game.payoff
        self.estimate.observe(*self.setting.abstraction.opponent_decisions(*seen))

    def _respond(self, opponent: Array) -> BehaviouralPolicy:
        response = abstraction_response(self.setting.indexed, opponent)
        return self.setting.abstraction.policy(response)
