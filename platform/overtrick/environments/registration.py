"""Register the games as Gymnasium environments overtrick/NAME-v0."""

from __future__ import annotations

import gymnasium

GAMES = (
    "brps", "kuhn", "kuhn_three", "one_card", "leduc", "leduc_textbook", "holdem", "liars_dice",
    "goofspiel", "phantom_ttt", "abrupt_phantom_ttt", "dark_hex_3", "abrupt_dark_hex_3",
    "minibridge", "auction", "bridge", "sumo",
)  # fmt: skip
"""The games that can be played. Named here, because importing the games takes a second."""


def register_environments() -> None:
    """Register every game: `gymnasium.make` plays one game, `make_vec` many in one batch."""
    for name in GAMES:
        environment = f"overtrick/{name.replace('_', '-')}-v0"
        if environment not in gymnasium.registry:
            gymnasium.register(
                environment,
                "overtrick.environments.gymnasium_env:single_env",
                vector_entry_point="overtrick.environments.vector_env:vector_env",
                kwargs={"name": name},
            )
