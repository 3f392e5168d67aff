"""Forward pass of one or many multilayer perceptrons, and padding of rows to equal lengths."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.policies import recurrent_layer

if TYPE_CHECKING:
    from torch import Tensor

Weights = dict[str, Array]
"""Weights of a multilayer perceptron by name: w0 (F, H), b0 (H,), w1, ...

For M networks each array has a leading axis M. A policy with continuous actions outputs their mean,
and has also log_std (A,). A network with memory has also the arrays of its `recurrent_layer`.
"""

LOG_STD = "log_std"
ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid")  # functions of torch.nn.functional


def tensors(weights: Mapping[str, Array]) -> dict[str, Tensor]:
    """Return copies of named numpy arrays as torch tensors."""
    return {name: torch.tensor(value) for name, value in weights.items()}


def forward(
    weights: Mapping[str, Tensor],
    x: Tensor,
    activation: str = "relu",
    disturb: Callable[[Tensor], Tensor] | None = None,
    memory: Tensor | None = None,
) -> Tensor:
    """Compute the outputs of a multilayer perceptron: hidden layers and a linear output layer.

    `x` is (R, F) and the result (R, outputs). For M networks with weights (M, ...), `x` is (M, R,
    F) and the result (M, R, outputs). `activation`: one of ACTIVATIONS. `disturb`: a function
    applied to each hidden layer's activations, such as dropout. `memory` ([M,] R, K): state of the
    recurrent layer after this step, for networks that have one.
    """
    if (memory is None) == recurrent_layer.has_memory(weights):
        raise ValueError("a network needs its memory if it has a recurrent layer, and only then")
    layers = layer_count(weights)
    activate = getattr(torch.nn.functional, activation)
    for layer in range(layers):
        w, b = weights[f"w{layer}"], weights[f"b{layer}"]
        # under autocast, a separate addition of the bias would return float32
        half = w.dim() == 2 and torch.is_autocast_enabled(x.device.type)
        x = torch.addmm(b, x, w) if half else x @ w + b.unsqueeze(-2)
        if layer == 0 and memory is not None:
            x = x + memory @ weights[recurrent_layer.OUTPUT_W]
        if layer < layers - 1:
            x = activate(x)
            x = x if disturb is None else disturb(x)
    return x


def forward_sequences(weights: Mapping[str, Tensor], x: Tensor, first: Tensor) -> Tensor:
    """Compute the outputs (M, R, outputs) of M networks on consecutive sequences of rows.

    `x`: (M, R, F). `first` (M, R) bool: the row is the first of its sequence, where the recurrent
    memory starts at 0. Networks without a recurrent layer ignore it.
    """
    if not recurrent_layer.has_memory(weights):
        return forward(weights, x)
    memory = recurrent_layer.memory_of_sequences(weights, x, first)
    return forward(weights, x, memory=memory)


def layer_count(weights: Mapping[str, object]) -> int:
    """Return the number of layers w0, w1, ... of a network, without its recurrent layer."""
    return next(k for k in itertools.count() if f"w{k}" not in weights)


NUMPY_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "tanh": np.tanh,
    "sigmoid": lambda x: 0.5 * (1 + np.tanh(x / 2)),  # without overflow
}


def forward_numpy(weights: Mapping[str, Array], x: Array, activation: str = "relu") -> Array:
    """Compute the outputs (R, outputs) of one multilayer perceptron with numpy, as `forward` does.

    A command that asks a network for a few rows then needs no import of torch, which takes seconds.
    `x`: (R, F). `activation`: one of ACTIVATIONS.
    """
    activate = NUMPY_ACTIVATIONS[activation]
    last = layer_count(weights) - 1
    for layer in range(last):
        x = activate(x @ weights[f"w{layer}"] + weights[f"b{layer}"])
    return x @ weights[f"w{last}"] + weights[f"b{last}"]


def masked_log_softmax(logits: Tensor, legal: Tensor) -> Tensor:
    """Return log-probabilities (..., A) of actions from logits; -inf exactly where illegal."""
    return logits.masked_fill(~legal, -torch.inf).log_softmax(dim=-1)


def pad_slots(member: Array, members: int) -> Array:
    """Compute the index (R,) of each row within its own network's rows, for use in `pad`.

    The first row of each network has index 0, its second row 1. `member` (R,): the network of each
    row, 0 to M - 1. `members`: number of networks M.
    """
    order = np.argsort(member, kind="stable")
    starts = np.searchsorted(member[order], np.arange(members))
    slot = np.empty(len(member), np.int64)
    slot[order] = np.arange(len(member)) - starts[member[order]]
    return slot


def pad(rows: Array, member: Array, slot: Array, members: int) -> Array:
    """Group rows (R, ...) by network and pad them with zeros to (M, longest, ...).

    `member` (R,): index of each row's network. `members`: the number M of networks. `slot` (R,):
    index of each row within its own network's rows, from `pad_slots`. `longest`: largest number of
    rows of a network.
    """
    longest = int(slot.max()) + 1 if len(slot) else 0
    out = np.zeros((members, longest, *rows.shape[1:]), rows.dtype)
    out[member, slot] = rows
    return out
