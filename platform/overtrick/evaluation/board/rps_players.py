"""Players of repeated rock, paper, scissors, by name."""

from __future__ import annotations

from collections.abc import Callable

from numpy.random import Generator

from overtrick.evaluation.board.roshambo_bots import PAYOFF, RepeatedGamePlayer
from overtrick.learners.repeated_game import LevelKMixture


class UniformPlayer:
    """Player that chooses each action with equal probability."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng

    def act(self) -> int:
        """Choose a random action."""
        return int(self.rng.integers(3))

    def observe(self, own: int, opponent: int) -> None:
        """Learn nothing."""


PLAYERS: dict[str, Callable[[Generator], RepeatedGamePlayer]] = {
    "level_k_mixture": lambda rng: LevelKMixture(PAYOFF, rng),
    "uniform": UniformPlayer,
}
"""Functions that make the player of a match; its random draws are by the generator."""
