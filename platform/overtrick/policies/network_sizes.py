"""Numbers of inputs and outputs of the networks for a game."""

from __future__ import annotations

from typing import Any

import numpy as np

from overtrick.core import Deals, Game, Observations, PrivilegedFeatures, UserError


def input_size(game: Game) -> int:
    """Return F, the number of features of a game."""
    return int(game.features(_first_decisions(game)[0]).shape[1])


def output_size(game: Game) -> int:
    """Return the number of outputs of a policy network: A, or the length of a real vector."""
    return len(game.action_names) if game.actions is None else game.actions


def privileged_input_size(game: Any) -> int:
    """Return the number of features of a game's privileged critic, which sees all cards.

    Raises UserError if the game has no privileged features.
    """
    if not isinstance(game, PrivilegedFeatures):
        raise UserError(
            f"{game.name} has no features for a privileged critic: set gradient_estimator to critic"
        )
    return int(game.privileged_features(*_first_decisions(game)).shape[1])


def _first_decisions(game: Game) -> tuple[Observations, Deals]:
    """Return the first observations of one game, and the deal of each of their rows."""
    deals = game.deal(1, np.random.default_rng(0))
    observations = game.observe(game.start(deals))
    return observations, deals[observations.game]
