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
"""Standard deviation of each number of a move, before anything is learnt."""


def initial_policy_weights(
    game: Game, hidden: Sequence[int], rng: Generator, head: float = 1.0
) -> Weights:
    """Fresh weights of a policy for a game, as `initial`; moves begin near 0."""
    layers = (input_size(game), *hidden, output_size(game))
    if game.actions is not None:
        return initial_weights(layers, rng, head)
    spread = np.full(layers[-1], np.log(INITIAL_ACTION_STD), np.float32)
    return dict(sorted({**initial_weights(layers, rng, head=0.1), LOG_STD: spread}.items()))


def initial_weights(sizes: Sequence[int], rng: Generator, head: float = 1.0) -> Weights:
    """Fresh weights for layers of the given sizes (F, hidden ..., out), float32.

    Hidden layers have variance 2 / fan-in (He et al. 2015), biases are 0, and the last layer's
    standard deviation is `head` / sqrt(fan-in): the larger, the more pronounced the style.
    """
    weights: Weights = {}
    for layer, (wide, out) in enumerate(itertools.pairwise(sizes)):
        scale = head / np.sqrt(wide) if layer == len(sizes) - 2 else np.sqrt(2 / wide)
        weights[f"w{layer}"] = rng.normal(0, scale, (wide, out)).astype(np.float32)
        weights[f"b{layer}"] = np.zeros(out, np.float32)
    # the order of names decides the order of sums and draws, so it is the one that files have
    return dict(sorted(weights.items()))
