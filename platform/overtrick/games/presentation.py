"""A game as people at the table see it: seat names, one seat's view, and the deal at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overtrick.core import Array

PlayedActions = Sequence[tuple[int, int]]
"""The actions so far: (seat, action) in the order of play."""


class Presentation:
    """A game in words for people. A game overrides what it shows otherwise."""

    def __init__(self, game: Any) -> None:
        self.game = game

    def seats(self) -> tuple[str, ...]:
        """Return the names of the seats."""
        return tuple(str(1 + seat) for seat in range(self.game.seats))

    def usual_seat(self) -> int | None:
        """Return the seat that a person takes by custom; None if people take turns."""
        return None

    def meant(self, word: str) -> str:
        """Translate a customary word for an action to its name; other words stay."""
        return word

    def offered(self, names: Sequence[str]) -> str:
        """List the legal actions (by name) in a line; numbered, unless the names begin so."""
        return "  ".join(f"{number} {name}" for number, name in enumerate(names, 1))

    def view(self, seen: Array, moves: PlayedActions, signs: bool = True) -> str:
        """Show one observation (K,) in words or as a diagram; signs: suits as symbols."""
        return str(self.game.describe(seen))

    def revealed(self, deal: Array, moves: PlayedActions, signs: bool = True) -> str:
        """Show the whole deal (C,) and the result of a game that is over."""
        chosen = [f"seat {1 + seat} {self.game.action_names[action]}" for seat, action in moves]
        return ", ".join(chosen)


def actions_of(moves: PlayedActions) -> Array:
    """Return the actions of the moves, (T,) int64."""
    return np.array([action for _, action in moves], np.int64)
