"""The numbers of inputs and outputs that a network needs for a game."""

from __future__ import annotations

from typing import Any

import numpy as np

from overtrick.core import (
    Deals,
    Game,
    Observations,
    PrivilegedFeatures,
    UserError,
)


def input_size(game: Game) -> int:
    """F: how many numbers a network sees of each row."""
    return int(game.features(_opening(game)[0]).shape[1])


def output_size(game: Game) -> int:
    """How many numbers a network says of each row: A, or the width of a move."""
    return len(game.action_names) if game.actions is None else game.actions


def privileged_input_size(game: Any) -> int:
    """F: how many numbers a critic sees who judges finished games. Raises UserError for none."""
    if not isinstance(game, PrivilegedFeatures):
        raise UserError(f"{game.name} tells nothing in hindsight: set credit to critic")
    return int(game.privileged_features(*_opening(game)).shape[1])


def _opening(game: Game) -> tuple[Observations, Deals]:
    """The first turn of some game, and its deal."""
    deals = game.deal(1, np.random.default_rng(0))
    observations = game.observe(game.start(deals))
    return observations, deals[observations.game]
