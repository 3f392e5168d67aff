"""The forward pass of a network or a batch of networks, and the padding that a batch needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from overtrick.core import (
    Array,
)

Weights = dict[str, Array]
"""Layers of a network: w0 (F, H), b0 (H,), w1, ...; for a population each with M in front. One that
moves by real vectors gives their mean, and has their log_std (A,) beside."""

LOG_STD = "log_std"
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "leaky_relu": leaky_relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def tensors(weights: Mapping[str, Array]) -> dict[str, Tensor]:
    """The same numbers as torch tensors."""
    return {name: torch.tensor(value) for name, value in weights.items()}


def forward(
    weights: Mapping[str, Tensor],
    x: Tensor,
    activation: str = "relu",
    disturb: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Hidden layers and a linear head: x (R, F) to (R, out), or (M, R, F) with (M, ...) weights.

    disturb: what is done to each hidden layer while it learns.
    """
    layers = len(weights) // 2
    for layer in range(layers):
        w, b = weights[f"w{layer}"], weights[f"b{layer}"]
        # a bias that is added apart would make float32 of half products
        half = w.dim() == 2 and torch.is_autocast_enabled(x.device.type)
        x = torch.addmm(b, x, w) if half else x @ w + b.unsqueeze(-2)
        if layer < layers - 1:
            x = ACTIVATIONS[activation](x)
            x = x if disturb is None else disturb(x)
    return x


def masked_log_softmax(logits: Tensor, legal: Tensor) -> Tensor:
    """Logarithm of action probabilities (..., A); -inf where illegal, here and nowhere else."""
    return logits.masked_fill(~legal, -torch.inf).log_softmax(dim=-1)


def pad_slots(member: Array, members: int) -> Array:
    """Place of each row among its member's rows, in order: (R,) members to (R,) slots from 0."""
    order = np.argsort(member, kind="stable")
    starts = np.searchsorted(member[order], np.arange(members))
    slot = np.empty(len(member), np.int64)
    slot[order] = np.arange(len(member)) - starts[member[order]]
    return slot


def pad(rows: Array, member: Array, slot: Array, members: int) -> Array:
    """Rows (R, ...) as (M, longest, ...), zeros where a member has fewer rows than the longest."""
    longest = int(slot.max()) + 1 if len(slot) else 0
    out = np.zeros((members, longest, *rows.shape[1:]), rows.dtype)
    out[member, slot] = rows
    return out
