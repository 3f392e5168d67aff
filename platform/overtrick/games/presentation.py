"""Text presentation of a game to people: seat names, action names, observations and deals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from overtrick.core import Array

PlayedActions = Sequence[tuple[int, int]]
"""All actions of a game so far, as pairs (seat, action) in the order of play."""


class Presentation:
    """Text presentation of any game to people; a subclass adapts the words to its game.

    `signs`: write card suits as symbols instead of letters.
    """

    card_pattern: re.Pattern[str] | None = None
    """Regular expression that matches each card in the texts below; None: there are no cards."""

    def __init__(self, game: Any, signs: bool = True) -> None:
        self.game = game
        self.signs = signs

    def seat_names(self) -> tuple[str, ...]:
        """Return the names of the seats."""
        return tuple(str(1 + seat) for seat in range(self.game.seats))

    def default_human_seat(self) -> int | None:
        """Return the seat of a person by default; None: the seat changes from game to game."""
        return None

    @property
    def numbered_actions(self) -> bool:
        """True if a person may type an action's number, its index plus 1.

        False if names of actions begin with digits, such as 1C.
        """
        return not any(name[0].isdigit() for name in self.game.action_names)

    def action_name_of(self, word: str) -> str:
        """Return the name of the action that a person means by a typed word.

        A word without a known meaning is returned unchanged.
        """
        return word

    def format_actions(self, legal: Sequence[int]) -> str:
        """Format the legal actions in one line, with the numbers that a person may type.

        `legal`: the indices of the actions. The number is the index plus 1, in all decisions of the
        game.
        """
        names = self.game.action_names
        numbered = self.numbered_actions
        return "  ".join(f"{1 + k} {names[k]}" if numbered else names[k] for k in legal)

    def describe_observation(self, observation: Array, played: PlayedActions) -> str:
        """Return one observation (K,) as text or as a diagram.

        `played`: all actions of the game so far.
        """
        return str(self.game.describe(observation))

    def describe_deal(self, deal: Array, played: PlayedActions) -> str:
        """Describe a finished game as text; by default, list its actions.

        Subclasses for card games show all cards of the deal, hidden cards included.
        `deal`: (C,). `played`: all actions of the game.
        """
        names = self.game.action_names
        return ", ".join(f"seat {1 + seat} {names[action]}" for seat, action in played)


def action_array(played: PlayedActions) -> Array:
    """Return the actions (T,) int64 of a game, without their seats."""
    return np.array([action for _, action in played], np.int64)
