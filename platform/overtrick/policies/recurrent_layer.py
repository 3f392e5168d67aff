"""Recurrent layer of a policy network: gated averages of the inputs of a game so far (minGRU).

Feng et al. 2024, "Were RNNs all we needed?", section 3.1, with inputs x, gates z and memory h:

    z_t = sigmoid(x_t Wz + bz),  h_t = (1 - z_t) h_{t-1} + z_t (x_t Wc + bc),  h_0 = 0

The gates do not depend on the memory, so a parallel scan computes all steps of a game.

| here | the paper |
|---|---|
| one layer; the first hidden layer of a perceptron reads x and h | a stack of such layers |
| the memory's output weights are 0 at first, so that it changes nothing | random weights |
| initial gate biases spread the lengths of the averages from 1 to 100 steps | not described |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, UserError
from overtrick.core.lazy_modules import torch

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "memory_"  # of the names of all arrays
GATE_W, GATE_B = "memory_gate_w", "memory_gate_b"  # (F, K), (K,): Wz and bz
VALUE_W, VALUE_B = "memory_value_w", "memory_value_b"  # (F, K), (K,): Wc and bc
OUTPUT_W = "memory_output_w"  # (K, H) weights from the memory to the first hidden layer
INPUT_LAYERS = [(GATE_W, GATE_B), (VALUE_W, VALUE_B)]  # the layers that read the inputs
LONGEST_AVERAGE = 100  # steps: initial mean age of the inputs in the slowest unit


def initial_memory(inputs: int, hidden: int, size: int, rng: Generator) -> dict[str, Array]:
    """Draw float32 weights of a recurrent layer that does not change its network's outputs yet.

    `inputs`: F. `hidden`: units H of the first hidden layer. `size`: units K of the memory.
    """
    layer = {n: np.zeros(s, np.float32) for n, s in _shapes(inputs, hidden, size).items()}
    layer[GATE_B][:] = -np.log(np.geomspace(1, LONGEST_AVERAGE, size))  # z / (1 - z) = 1 / steps
    layer[VALUE_W][:] = rng.normal(0, 1 / np.sqrt(inputs), (inputs, size))
    return layer


def has_memory(weights: Mapping[str, object]) -> bool:
    """Return whether a network has a recurrent layer."""
    return GATE_W in weights


def memory_arrays(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of a network's recurrent layer; empty without one."""
    return {name: value for name, value in weights.items() if name.startswith(PREFIX)}


def memory_size(weights: Mapping[str, Array]) -> int:
    """Return the units K of a network's recurrent layer; 0 without one."""
    return weights[GATE_B].shape[-1] if has_memory(weights) else 0


def check_memory(memory: Mapping[str, Array], inputs: int, hidden: int, model: str) -> None:
    """Raise UserError unless the arrays of a recurrent layer are complete and fit its network.

    `inputs`: F. `hidden`: units H of the first hidden layer. `model`: its name in the message.
    """
    size = memory[GATE_B].size if GATE_B in memory else 0
    if {n: v.shape for n, v in memory.items()} != _shapes(inputs, hidden, size):
        raise UserError(f"{model} is damaged: the arrays of its memory do not fit its layers")


def _shapes(inputs: int, hidden: int, size: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all arrays, for F inputs, H units of the first layer, K of memory."""
    return {
        GATE_W: (inputs, size),
        GATE_B: (size,),
        VALUE_W: (inputs, size),
        VALUE_B: (size,),
        OUTPUT_W: (size, hidden),
    }


def next_memory(weights: Mapping[str, Tensor], x: Tensor, memory: Tensor) -> Tensor:
    """Compute the memory (..., R, K) after one more step of R games.

    `x` (..., R, F): network inputs of this step. `memory` (..., R, K): after the step before.
    """
    gate, value = _gate_and_value(weights, x)
    return torch.lerp(memory, value, gate)


def memory_of_sequences(weights: Mapping[str, Tensor], x: Tensor, first: Tensor) -> Tensor:
    """Compute the memory (..., R, K) after each of R rows of consecutive sequences.

    `x` (..., R, F): network inputs. `first` (..., R) bool: the row is the first of its sequence.
    Parallel scan of Hillis and Steele 1986: after pass n a row has summed the last 2^n rows.
    """
    gate, value = _gate_and_value(weights, x)
    memory, kept = gate * value, (1 - gate) * ~first.unsqueeze(-1)
    span = 1
    while span < x.shape[-2] and bool(kept.any()):
        memory = memory + kept * _delayed(memory, span)
        kept = kept * _delayed(kept, span)
        span *= 2
    return memory


def _gate_and_value(weights: Mapping[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gates and the values that enter the memory, (..., R, K) each."""
    gate = (x @ weights[GATE_W] + weights[GATE_B].unsqueeze(-2)).sigmoid()
    return gate, x @ weights[VALUE_W] + weights[VALUE_B].unsqueeze(-2)


def _delayed(rows: Tensor, span: int) -> Tensor:
    """Shift rows (..., R, K) down by `span` rows, with zeros in front."""
    shifted: Tensor = torch.nn.functional.pad(rows[..., :-span, :], (0, 0, span, 0))
    return shifted
