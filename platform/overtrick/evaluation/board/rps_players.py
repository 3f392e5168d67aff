"""Players of repeated rock, paper, scissors, by name, and their matches against bots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from numpy.random import Generator, default_rng

from overtrick.evaluation.board.roshambo_bots import PAYOFF, RepeatedGamePlayer, play_bot
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


def play_matches(
    player: str, opponents: Mapping[str, int], seeds: Sequence[int]
) -> dict[str, list[int]]:
    """Return the points of a player in matches against bots, by the bot's name and the seed.

    `opponents`: the index of each bot; seed and index seed the player's random generator.
    """
    return {
        bot: [play_bot(PLAYERS[player](default_rng([seed, n])), bot, seed) for seed in seeds]
        for bot, n in opponents.items()
    }
