"""Initial weights of networks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import Game
from overtrick.policies.forward_pass import LOG_STD, Weights
from overtrick.policies.network_sizes import input_size, output_size

INITIAL_ACTION_STD = 0.5
"""Initial standard deviation of each component of a continuous action."""


def initial_policy_weights(
    game: Game, hidden: Sequence[int], rng: Generator, head: float = 1.0
) -> Weights:
    """Draw initial weights of a policy network for a game, as `initial_weights` does.

    For a game with continuous actions the initial mean is near 0 and the standard deviation is
    INITIAL_ACTION_STD.
    """
    layers = (input_size(game), *hidden, output_size(game))
    if game.actions is not None:
        return initial_weights(layers, rng, head)
    log_std = np.full(layers[-1], np.log(INITIAL_ACTION_STD), np.float32)
    return dict(sorted({**initial_weights(layers, rng, head=0.1), LOG_STD: log_std}.items()))


def initial_weights(sizes: Sequence[int], rng: Generator, head: float = 1.0) -> Weights:
    """Draw weights (float32) for layers of the given sizes (F, hidden ..., out).

    Hidden layers have variance 2 / fan-in (He et al. 2015) and biases are 0. The last layer has
    standard deviation head / sqrt(fan-in): a larger head makes a random policy less uniform.
    """
    weights: Weights = {}
    for layer, (fan_in, out) in enumerate(itertools.pairwise(sizes)):
        scale = head / np.sqrt(fan_in) if layer == len(sizes) - 2 else np.sqrt(2 / fan_in)
        weights[f"w{layer}"] = rng.normal(0, scale, (fan_in, out)).astype(np.float32)
        weights[f"b{layer}"] = np.zeros(out, np.float32)
    # sums and draws go in the order of the names, which files sort
    return dict(sorted(weights.items()))
