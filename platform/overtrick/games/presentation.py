"""Presentation of a game to people: seat names, action words, one seat's view, and the deal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overtrick.core import Array

PlayedActions = Sequence[tuple[int, int]]
"""Actions so far, as (seat, action) in the order of play."""


class Presentation:
    """Text presentation of a game. A game overrides the methods for which it has better words.

    Parameter `signs` writes card suits as symbols instead of letters.
    """

    def __init__(self, game: Any) -> None:
        self.game = game

    def seat_names(self) -> tuple[str, ...]:
        """Return the names of the seats."""
        return tuple(str(1 + seat) for seat in range(self.game.seats))

    def default_human_seat(self) -> int | None:
        """Return the seat that a person takes by default; None if people take turns."""
        return None

    def action_name_of(self, word: str) -> str:
        """Translate a customary word for an action to the action's name; return others as is."""
        return word

    def format_actions(self, names: Sequence[str]) -> str:
        """Format the names of the legal actions in one line, numbered from 1."""
        return "  ".join(f"{number} {name}" for number, name in enumerate(names, 1))

    def describe_observation(
        self, observation: Array, played: PlayedActions, signs: bool = True
    ) -> str:
        """Describe one observation (K,) in words or as a diagram, after the actions played."""
        return str(self.game.describe(observation))

    def describe_deal(self, deal: Array, played: PlayedActions, signs: bool = True) -> str:
        """Describe the deal (C,), with all hidden chance, and the result of a finished game."""
        names = self.game.action_names
        return ", ".join(f"seat {1 + seat} {names[action]}" for seat, action in played)


def action_array(played: PlayedActions) -> Array:
    """Return the actions without their seats, (T,) int64."""
    return np.array([action for _, action in played], np.int64)
