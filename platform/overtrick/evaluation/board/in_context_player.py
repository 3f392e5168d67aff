"""Player on a board whose network reads the finished games of the match, without gradient steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from overtrick.core import Array, UserError
from overtrick.evaluation.board.board_setting import BoardSetting, FinishedGame
from overtrick.evaluation.board.players import UPDATE_DIVISOR
from overtrick.evaluation.board.sampled_matches import MatchSampler
from overtrick.evaluation.board.updating_player import UpdatingPlayer
from overtrick.learners.policy_gradient.match_network import match_strategies
from overtrick.solvers.safe_exploitation import nearest_safe_strategy

BOUNDED_UPDATE_DIVISOR = 10
"""After n games a player of bounded exploitability computes a new strategy every max(1, n // 10)
games, by linear programmes."""


class InContextPlayer(UpdatingPlayer):
    """Player that follows a match network (see `learners/policy_gradient/match_network.py`).

    After n games it computes a new strategy every max(1, n // UPDATE_DIVISOR) games, with a bound
    every max(1, n // BOUNDED_UPDATE_DIVISOR).

    - `weights`: of the network, trained in the same setting.
    - `equilibrium`: strategy (N, A).
    - `exploitability_bound`: largest exploitability of the player's strategies beyond that of the
      equilibrium, in points per game; None: no bound. A strategy that exceeds it is replaced by the
      nearest strategy within it.

    Raises UserError if the network is for another game or setting.
    """

    def __init__(
        self,
        setting: BoardSetting,
        weights: Mapping[str, Array],
        equilibrium: Array,
        exploitability_bound: float | None = None,
    ) -> None:
        unbounded = exploitability_bound is None
        super().__init__(UPDATE_DIVISOR if unbounded else BOUNDED_UPDATE_DIVISOR)
        self._tree, self._sampler = setting.tree, MatchSampler(setting)
        self._weights, self._equilibrium = dict(weights), equilibrium
        self._bound = exploitability_bound
        self._counts = np.zeros(self._sampler.observation_count)
        trained_on, here = len(self._weights["scores"]), len(self._counts)
        if trained_on != here:
            raise UserError(
                f"the network reads {trained_on} kinds of observations at the end of a game, not "
                f"the {here} of {setting.game.name} told {setting.told}: train it in this setting"
            )
        self._update()

    def strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy of a checkpoint, after all games of the match so far."""
        self._update_at_checkpoint(games)
        return self._strategy

    def next_strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy of the next game, which is not computed anew for each game."""
        self._update_before_game(games)
        return self._strategy

    def _observe(self, game: FinishedGame) -> None:
        self._counts[self._sampler.count_index(game.seat, game.number)] += 1

    def _update(self) -> None:
        found = match_strategies(self._weights, self._counts[None], self._tree.legal)[0]
        if self._bound is not None:
            found = nearest_safe_strategy(self._tree, self._equilibrium, found, self._bound)
        self._strategy = found
