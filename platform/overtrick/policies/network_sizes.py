"""Numbers of network inputs and outputs for a game, and a check that stored weights fit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from overtrick.core import Array, Deals, Game, Observations, PrivilegedFeatures, UserError


def input_size(game: Game) -> int:
    """Return F, the number of features of a game."""
    return int(game.features(_first_decisions(game)[0]).shape[1])


def output_size(game: Game) -> int:
    """Return the number of actions of a game, or the dimension of an action if it is continuous.

    This is the number of outputs of a policy network.
    """
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
    """Start one random game; return the observations of the seats to act, and their deals.

    R seats act first: one, or several if moves are simultaneous. The deals are R copies of the
    game's deal.
    """
    deals = game.deal(1, np.random.default_rng(0))
    observations = game.observe(game.start(deals))
    return observations, deals[observations.game]


def check_layers(
    weights: Mapping[str, Array], inputs: int, outputs: int, model: str, game: str,
    others: Mapping[str, Array] | None = None,
) -> None:  # fmt: skip
    """Raise UserError unless weights w0, b0, w1, ... are finite layers of a perceptron.

    - `inputs`, `outputs`: numbers of inputs and outputs that the game needs.
    - `model`, `game`: names for error messages.
    - `others`: weights other than layers, which must be finite too.
    """
    layers = len(weights) // 2
    names = {f"{kind}{k}" for kind in "wb" for k in range(layers)}
    if not layers or weights.keys() != names or weights["w0"].ndim != 2:
        raise UserError(f"{model} is damaged: it has other layers than w0, b0, ...")
    sizes = [inputs, *(weights[f"b{k}"].size for k in range(layers - 1)), outputs]
    for k in range(layers):
        shapes = weights[f"w{k}"].shape, weights[f"b{k}"].shape
        if shapes != ((sizes[k], sizes[k + 1]), (sizes[k + 1],)):
            raise UserError(
                f"{model} has other inputs or actions than {game}, or layers that do not fit: w{k} "
                f"and b{k} are {shapes[0]} and {shapes[1]}"
            )
    for value in (*weights.values(), *(others or {}).values()):
        if value.dtype != np.float32 or not np.isfinite(value).all():
            raise UserError(f"{model} is damaged: its weights must be finite float32")
