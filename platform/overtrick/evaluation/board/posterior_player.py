"""Base class of players that best-respond to a posterior estimate of the opponent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from numpy.random import Generator

from overtrick.core import Array
from overtrick.evaluation.board.board_setting import FinishedGame
from overtrick.evaluation.board.updating_player import UpdatingPlayer

EXPLORATION_INTERVAL = 5
"""Games from one game of exploration to the next."""

Response = TypeVar("Response")


class PosteriorEstimate(Protocol):
    """Estimate of an opponent's strategy (N, A) from the games that it has been shown."""

    def update(self) -> None:
        """Compute the estimate from all games so far."""

    def strategy(self) -> Array:
        """Return the estimated strategy (N, A)."""

    def sample(self, rng: Generator) -> Array:
        """Draw a strategy (N, A) from the posterior."""


class PosteriorPlayer(UpdatingPlayer, Generic[Response]):
    """Player that estimates the opponent after each game and best-responds to the estimate.

    In every fifth game it best-responds to a strategy that is drawn from the posterior (Thompson
    1933), so as to learn how the opponent answers actions that it would not take otherwise. After n
    games it updates the estimate every max(1, n // divisor) games.
    """

    def __init__(self, estimate: PosteriorEstimate, divisor: int, rng: Generator) -> None:
        super().__init__(divisor)
        self._estimate, self._rng = estimate, rng
        self._respond_to_estimate()

    @abstractmethod
    def _respond(self, opponent: Array) -> Response:
        """Return the best response to a strategy (N, A)."""

    def _response(self, games: Sequence[FinishedGame]) -> Response:
        """Return the best response to the estimate from all games so far."""
        self._update_at_checkpoint(games)
        return self._to_estimate

    def _next_response(self, games: Sequence[FinishedGame]) -> Response:
        """Return the response of the next game: to the estimate, or to a draw from it."""
        self._update_before_game(games)
        explores = self._observed % EXPLORATION_INTERVAL == EXPLORATION_INTERVAL - 1
        return self._to_sample if explores else self._to_estimate

    def _update(self) -> None:
        self._estimate.update()
        self._respond_to_estimate()

    def _respond_to_estimate(self) -> None:
        self._to_estimate = self._respond(self._estimate.strategy())
        self._to_sample = self._respond(self._estimate.sample(self._rng))
