"""Train networks on normalised inputs and targets, and store weights for raw ones.

Normalised inputs make the optimiser's steps better conditioned. Before each update the weights are
converted so that the network computes the same function; afterwards they are converted back. A
stored model therefore needs no moments, unless it takes further gradient steps (trainer `meta`).
For targets this is PopArt (van Hasselt et al. 2016, "Learning values across many orders of
magnitude", section 2).

| here | the usual implementation |
|---|---|
| new moments leave the function as it is | they change all outputs a little |
| a deviation has a lower limit | normalised inputs are clipped |
| moments of all data so far | the same, or a moving average |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from overtrick.core import Array, UserError
from overtrick.core.checkpoints import Checkpointed
from overtrick.policies import recurrent_layer
from overtrick.policies.forward_pass import Weights, layer_count

LEAST_STD = 0.1
"""Lower limit of an input's standard deviation.

Features are of the order of 1. Without a limit, one that is almost constant would be scaled up
without bound.
"""

DAMAGED_MOMENTS = "the input moments of the model are damaged: train it again"


class RunningMoments(Checkpointed):
    """Means (F,) and standard deviations (F,) of all rows so far; 0 and 1 before the first.

    Rows are merged as in Chan et al. 1983. `least`: lower limit of the standard deviations.
    """

    saved: ClassVar = ("count", "mean", "squares")

    def __init__(self, size: int, least: float) -> None:
        self.least = least
        self.count = 0.0
        self.mean = np.zeros(size)
        self.squares = np.zeros(size)  # sums of squared distances from the mean

    @property
    def std(self) -> Array:
        """The standard deviations (F,)."""
        if not self.count:
            return np.ones_like(self.mean)
        return np.sqrt(self.squares / self.count).clip(min=self.least)

    def add(self, rows: Array) -> None:
        """Add rows (D, F)."""
        if not len(rows):
            return
        mean, count = rows.mean(axis=0, dtype=np.float64), self.count + len(rows)
        between = (mean - self.mean) ** 2 * self.count * len(rows) / count
        self.squares = self.squares + rows.var(axis=0, dtype=np.float64) * len(rows) + between
        self.mean = self.mean + (mean - self.mean) * len(rows) / count
        self.count = count

    def normalised(self, rows: Array) -> Array:
        """Return rows (D, F) with the mean subtracted, divided by the standard deviation."""
        return ((rows - self.mean) / self.std).astype(np.float32)


def stored_moments(arrays: Mapping[str, Array]) -> RunningMoments:
    """Rebuild the moments of network inputs from arrays of a model, a result of `state()`.

    Raises UserError if the arrays are damaged.
    """
    moments = RunningMoments(len(np.atleast_1d(arrays.get("mean", 0))), LEAST_STD)
    try:
        moments.load(arrays)
    except (KeyError, ValueError) as error:
        raise UserError(DAMAGED_MOMENTS) from error
    return moments


def for_normalised_inputs(weights: Weights, moments: RunningMoments) -> Weights:
    """Convert weights for raw inputs to ones for normalised inputs; the outputs stay the same."""
    changed: Weights = {}
    for w, b in _input_layers(weights):
        raw = weights[w].astype(np.float64)
        changed |= {w: moments.std[:, None] * raw, b: weights[b] + moments.mean @ raw}
    return _replaced(weights, **changed)


def for_raw_inputs(weights: Weights, moments: RunningMoments) -> Weights:
    """Convert weights for normalised inputs to ones for raw inputs; the outputs stay the same."""
    changed: Weights = {}
    for w, b in _input_layers(weights):
        raw = weights[w] / moments.std[:, None]
        changed |= {w: raw, b: weights[b] - moments.mean @ raw}
    return _replaced(weights, **changed)


def for_normalised_outputs(weights: Weights, moments: RunningMoments) -> Weights:
    """Convert weights that output raw values to weights that output normalised values."""
    w, b = _last_layer(weights)
    last = {w: weights[w] / moments.std, b: (weights[b] - moments.mean) / moments.std}
    return _replaced(weights, **last)


def for_raw_outputs(weights: Weights, moments: RunningMoments) -> Weights:
    """Convert weights that output normalised values to weights that output raw values."""
    w, b = _last_layer(weights)
    return _replaced(
        weights, **{w: weights[w] * moments.std, b: weights[b] * moments.std + moments.mean}
    )


def _input_layers(weights: Weights) -> list[tuple[str, str]]:
    """Return the names of weights and biases of all layers that read the network's inputs."""
    layers = [("w0", "b0")]
    if recurrent_layer.has_memory(weights):
        layers += recurrent_layer.INPUT_LAYERS
    return layers


def _last_layer(weights: Weights) -> tuple[str, str]:
    last = layer_count(weights) - 1
    return f"w{last}", f"b{last}"


def _replaced(weights: Weights, **changed: Array) -> Weights:
    return {n: changed.get(n, value).astype(np.float32) for n, value in weights.items()}
