"""Weights as named arrays, named tensors, stacks of networks, or one flat vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from overtrick.policies.forward_pass import Weights

Params = dict[str, Tensor]


def stack(members: Sequence[Weights]) -> Weights:
    """Networks of one shape as one batch of weights, leading axis = member."""
    return {name: np.stack([m[name] for m in members]) for name in members[0]}


def repeat(weights: Weights, members: int) -> Weights:
    """One network as a batch of equal members."""
    return {name: np.repeat(value[None], members, axis=0) for name, value in weights.items()}


def to_arrays(params: Mapping[str, Tensor]) -> Weights:
    """The same numbers as numpy arrays."""
    return {name: value.detach().cpu().numpy().copy() for name, value in params.items()}


def flatten(params: Mapping[str, Tensor]) -> Tensor:
    """All weights as one vector, in the order of the names."""
    return torch.cat([value.reshape(-1) for value in params.values()])


def unflatten(vector: Tensor, like: Mapping[str, Tensor]) -> Params:
    """A vector cut back into weights of the same shapes."""
    parts = torch.split(vector, [value.numel() for value in like.values()])
    return {n: p.reshape(v.shape) for p, (n, v) in zip(parts, like.items(), strict=True)}
