"""Register the games with an exact tree in OpenSpiel, as overtrick_NAME.

    import overtrick.environments.openspiel_registration
    pyspiel.load_game("overtrick_leduc")

Importing this module builds the trees of six small games, which takes a moment.
"""

from __future__ import annotations

from typing import Any

import pyspiel

from overtrick.core import UserError
from overtrick.environments.openspiel_game import OpenSpielGame, openspiel_game

GAMES = ("brps", "kuhn", "kuhn_three", "one_card", "leduc", "leduc_textbook")
"""The games whose trees are small."""


_options: dict[str, dict[str, Any]] = {}  # of the registered games, by name


def register_game(name: str, **options: Any) -> None:
    """Register a game of this project in OpenSpiel, under the short name overtrick_NAME.

    `options`: the game's options. Raises UserError as `openspiel_game` does, and if the game is
    registered with other options: OpenSpiel cannot forget a game.
    """
    if (before := _options.get(name)) is not None:
        if before != options:
            raise UserError(f"overtrick_{name} is registered with options {before} in this process")
        return
    game = openspiel_game(name, **options)

    class Registered:
        """Class that OpenSpiel calls to load the game."""

        def __new__(cls, parameters: Any = None) -> OpenSpielGame:
            """Return the game. `parameters`: OpenSpiel's, of which it has none."""
            return OpenSpielGame(game.data)

    # pyspiel crashes at exit if a function is registered instead of a class
    pyspiel.register_game(game.get_type(), Registered)
    _options[name] = options


for each in GAMES:
    register_game(each)
