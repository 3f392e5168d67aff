"""Register the games with an exact tree in OpenSpiel, as overtrick_NAME.

    import overtrick.environments.openspiel_registration
    pyspiel.load_game("overtrick_leduc")

Importing this module builds the trees of six small games, which takes a moment.
"""

from __future__ import annotations

from typing import Any

import pyspiel

from overtrick.environments.openspiel_game import OpenSpielGame, openspiel_game

GAMES = ("brps", "kuhn", "kuhn_three", "one_card", "leduc", "leduc_textbook")
"""The games whose trees are small."""


def register_game(name: str, **options: Any) -> None:
    """Register a game of this project in OpenSpiel, under the short name overtrick_NAME.

    `options`: the game's options. Raises UserError as `openspiel_game` does. A game that is already
    registered stays as it is.
    """
    game = openspiel_game(name, **options)
    kind = game.get_type()
    if kind.short_name in pyspiel.registered_names():
        return

    class Registered:
        """Class that OpenSpiel calls to load the game."""

        def __new__(cls, parameters: Any = None) -> OpenSpielGame:
            """Return the game. `parameters`: OpenSpiel's, of which it has none."""
            return OpenSpielGame(game.data)

    pyspiel.register_game(kind, Registered)  # with a function, the process dies at its end


for each in GAMES:
    register_game(each)
