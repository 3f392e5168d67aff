"""Players on a board: an equilibrium, an oracle, and a Bayesian opponent model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.random import Generator

from overtrick.core import Array
from overtrick.evaluation.board.board_setting import BoardSetting, FinishedGame
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.evaluation.board.posterior_player import PosteriorPlayer
from overtrick.learners.supervised.population_posterior import OpponentEstimate, PopulationPrior
from overtrick.solvers.extensive import best_response
from overtrick.solvers.extensive.tree import Tree
from overtrick.solvers.safe_exploitation import safe_best_response

UPDATE_DIVISOR = 50
"""After n games a player updates its estimate every max(1, n // 50) games."""

BOUNDED_UPDATE_DIVISOR = 20
"""The same for players of bounded exploitability, whose responses are linear programmes."""


class FixedPlayer:
    """Player that follows one strategy (N, A) and does not adapt."""

    def __init__(self, strategy: Array) -> None:
        self._strategy = strategy

    def strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy."""
        return self._strategy


class OraclePlayer:
    """Player that knows the opponent's strategy, also after a change, and best-responds to it.

    `exploitability_bound`: the largest exploitability of its strategies, in points per game; None:
    no bound.
    """

    def __init__(
        self, tree: Tree, opponent: BoardOpponent, exploitability_bound: float | None = None
    ) -> None:
        self.opponent = opponent
        self.responses = [respond(tree, each, exploitability_bound) for each in opponent.phases]

    def strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the response to the opponent's strategy in the next game."""
        return self.responses[self.opponent.phase_index(len(games))]


class PopulationPosteriorPlayer(PosteriorPlayer[Array]):
    """Player that estimates the opponent by a population prior and best-responds to the estimate.

    `exploitability_bound`: the largest exploitability of its strategies, in points per game; None:
    no bound.
    """

    def __init__(
        self, prior: PopulationPrior, rng: Generator, exploitability_bound: float | None = None
    ) -> None:
        self.estimate, self.bound = OpponentEstimate(prior), exploitability_bound
        divisor = UPDATE_DIVISOR if self.bound is None else BOUNDED_UPDATE_DIVISOR
        super().__init__(self.estimate, divisor, rng)

    def strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the best response to the estimate from all games so far."""
        return self._response(games)

    def next_strategy(self, games: Sequence[FinishedGame]) -> Array:
        """Return the strategy of the next game; see `PosteriorPlayer`."""
        return self._next_response(games)

    def _observe(self, game: FinishedGame) -> None:
        self.estimate.observe(game.seat, game.number)

    def _respond(self, opponent: Array) -> Array:
        return respond(self.estimate.prior.tree, opponent, self.bound)


@dataclass(frozen=True, eq=False)
class PosteriorPlayerFactory:
    """Makes `PopulationPosteriorPlayer`s of one prior."""

    prior: PopulationPrior

    @classmethod
    def of_members(cls, setting: BoardSetting, members: Array) -> PosteriorPlayerFactory:
        """Return the factory for a population (M, N, A) in a setting."""
        return cls(PopulationPrior(setting.tree, members, setting.end_observations))

    def new_player(self, rng: Generator, bound: float | None = None) -> PopulationPosteriorPlayer:
        """Return the player of one match. `bound`: on its exploitability; None: no bound."""
        return PopulationPosteriorPlayer(self.prior, rng, bound)


def respond(tree: Tree, opponent: Array, bound: float | None) -> Array:
    """Return the best response (N, A) to a strategy among those of bounded exploitability.

    `bound`: the largest exploitability, in points per game; None: any.
    """
    if bound is None:
        return best_response.best_responses(tree, opponent)
    return safe_best_response(tree, opponent, bound)
