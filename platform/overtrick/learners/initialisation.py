"""Initial weights of networks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Game
from overtrick.learners.weights import stack
from overtrick.policies.forward_pass import LOG_STD, Weights
from overtrick.policies.network_sizes import input_size, output_size
from overtrick.policies.recurrent_layer import initial_memory

INITIAL_ACTION_STD = 0.5
"""Initial standard deviation of each component of a continuous action."""


def initial_policy_weights(
    game: Game, hidden: Sequence[int], rng: Generator, head: float = 1.0, memory: int = 0
) -> Weights:
    """Draw initial weights of a policy network for a game, by `initial_weights`.

    `hidden`: units of each hidden layer. `head`: scale of the last layer's weights; unused if the
    game has continuous actions. A continuous action has an initial mean near 0 and the initial
    standard deviation INITIAL_ACTION_STD. `memory`: units of a recurrent layer; 0: without one. It
    needs continuous actions and a hidden layer.
    """
    layers = (input_size(game), *hidden, output_size(game))
    if game.actions is not None:
        return initial_weights(layers, rng, head)
    log_std = np.full(layers[-1], np.log(INITIAL_ACTION_STD), np.float32)
    weights = {**initial_weights(layers, rng, head=0.1), LOG_STD: log_std}
    if memory:
        weights |= initial_memory(layers[0], layers[1], memory, rng)
    return dict(sorted(weights.items()))


def initial_weights(sizes: Sequence[int], rng: Generator, head: float = 1.0) -> Weights:
    """Draw float32 weights of a network with layers of the given sizes (F, hidden ..., out).

    Weights of hidden layers have variance 2 / fan-in (He et al. 2015); biases are 0. Weights of the
    last layer have standard deviation `head` / sqrt(fan-in). A larger `head` makes a random policy
    less uniform.
    """
    weights: Weights = {}
    for layer, (fan_in, out) in enumerate(itertools.pairwise(sizes)):
        scale = head / np.sqrt(fan_in) if layer == len(sizes) - 2 else np.sqrt(2 / fan_in)
        weights[f"w{layer}"] = rng.normal(0, scale, (fan_in, out)).astype(np.float32)
        weights[f"b{layer}"] = np.zeros(out, np.float32)
    # sorted as in files: the order decides rounding and the random draws
    return dict(sorted(weights.items()))


def random_networks(
    sizes: Sequence[int],
    count: int,
    head_scale: float,
    bias_std: float,
    rng: Generator,
    log_std: Array | None = None,
) -> Weights:
    """Draw the weights (count, ...) of random policy networks; most networks play nearly uniformly.

    In each network the last layer's weights are multiplied by the square of a random number from 0
    to 1, and the last layer's biases by the square of another.

    - `sizes`: units of each layer, from the inputs to the outputs.
    - `head_scale`: largest scale of the last layer's weights, as `head` in `initial_weights`.
    - `bias_std`: largest standard deviation of the last layer's biases. The unit is that of the
      outputs: logits, or mean components of a continuous action.
    - `log_std`: logarithms of the standard deviations of continuous actions; None for discrete
      actions.
    """
    weights = stack([initial_weights(sizes, rng, head_scale) for _ in range(count)])
    last = len(sizes) - 2
    biases = bias_std * rng.normal(0, 1, weights[f"b{last}"].shape)
    factors = rng.random((2, count)) ** 2
    weights[f"w{last}"] *= factors[0, :, None, None].astype(np.float32)
    weights[f"b{last}"] = (biases * factors[1, :, None]).astype(np.float32)
    if log_std is not None:
        weights[LOG_STD] = np.repeat(log_std[None], count, axis=0)
    return dict(sorted(weights.items()))  # sorted as in files: the order decides rounding and draws
