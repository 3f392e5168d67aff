"""Conversions of network weights: numpy arrays, torch tensors, stacked networks, flat vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from overtrick.core.lazy_modules import torch
from overtrick.policies.forward_pass import Weights

if TYPE_CHECKING:
    from torch import Tensor

Params = dict[str, "Tensor"]


def stack(members: Sequence[Weights]) -> Weights:
    """Stack M networks of equal shape; the result has a leading axis M."""
    return {name: np.stack([m[name] for m in members]) for name in members[0]}


def repeat(weights: Weights, members: int) -> Weights:
    """Repeat one network `members` = M times; the result has a leading axis M."""
    return {name: np.repeat(value[None], members, axis=0) for name, value in weights.items()}


def to_arrays(params: Mapping[str, Tensor]) -> Weights:
    """Copy torch weights to numpy arrays."""
    return {name: value.numpy(force=True).copy() for name, value in params.items()}


def flatten(params: Mapping[str, Tensor]) -> Tensor:
    """Concatenate all weights to one vector, in the order of the dictionary."""
    return torch.cat([value.reshape(-1) for value in params.values()])


def unflatten(vector: Tensor, like: Mapping[str, Tensor]) -> Params:
    """Split a vector into weights with the names and shapes of `like`."""
    parts = torch.split(vector, [value.numel() for value in like.values()])
    return {n: p.reshape(v.shape) for p, (n, v) in zip(parts, like.items(), strict=True)}
