"""Base class of players that learn from each finished game and update on a schedule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from overtrick.evaluation.board.board_setting import FinishedGame


class UpdatingPlayer(ABC):
    """Player that observes each finished game, and updates from all games so far on a schedule.

    After n games of a match it updates if max(1, n // divisor) games have been played since the
    last update. It also updates at each checkpoint. A subclass computes its first strategies in its
    constructor.
    """

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor
        self._observed = self._updated = 0  # games

    @abstractmethod
    def _observe(self, game: FinishedGame) -> None:
        """Take in a finished game."""

    @abstractmethod
    def _update(self) -> None:
        """Compute the strategies from all games so far."""

    def _update_at_checkpoint(self, games: Sequence[FinishedGame]) -> None:
        """Observe the games of a match that are new, and update unless the player is up to date.

        `games`: all games of the match so far. The player is up to date if it has observed no game
        since its last update.
        """
        self._observe_new(games)
        if self._updated < self._observed:
            self._update_now()

    def _update_before_game(self, games: Sequence[FinishedGame]) -> None:
        """Observe the new games of a match, and update if the schedule says so."""
        self._observe_new(games)
        if self._observed - self._updated >= max(1, self._observed // self._divisor):
            self._update_now()

    def _observe_new(self, games: Sequence[FinishedGame]) -> None:
        for game in games[self._observed :]:
            self._observe(game)
        self._observed = len(games)

    def _update_now(self) -> None:
        self._update()
        self._updated = self._observed
