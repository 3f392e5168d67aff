"""Optimisers of torch whose memory can be saved as named arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from overtrick.core import Array
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, tensors

OptimizerFactory = Callable[[list[Tensor]], Any]
"""What makes an optimiser of torch for a list of weights."""


class Optimizer:
    """An optimiser of torch over named weights, with its memory as plain arrays."""

    def __init__(self, weights: Weights, optimizer: OptimizerFactory, device: str = "cpu") -> None:
        self.params: Params = {
            n: v.to(device).requires_grad_() for n, v in tensors(weights).items()
        }
        self._optimizer = optimizer(list(self.params.values()))

    def descend(self, loss: Tensor) -> None:
        """One step down the gradient of a loss."""
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        self._optimizer.step()

    def pace(self, rate: float) -> None:
        """Another learning rate from now on; no part of the state."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def state(self) -> dict[str, Array]:
        out = to_arrays(self.params)
        for name, param in self.params.items():
            for key, value in self._optimizer.state.get(param, {}).items():
                if value is not None:
                    out[f"{key}.{name}"] = value.detach().cpu().numpy().copy()
        return out

    def load(self, state: Mapping[str, Array]) -> None:
        self._optimizer.state.clear()
        with torch.no_grad():
            for name, param in self.params.items():
                param.copy_(torch.tensor(state[name]))
                memory = {
                    key.removesuffix(f".{name}"): torch.tensor(value)
                    for key, value in state.items()
                    if key.endswith(f".{name}")
                }
                if memory:
                    fused = self._optimizer.defaults.get("fused")  # then steps are counted there
                    self._optimizer.state[param] = {
                        key: value if key == "step" and not fused else value.to(param.device)
                        for key, value in memory.items()
                    }


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015) over named weights."""

    def __init__(self, weights: Weights, rate: float) -> None:
        super().__init__(weights, partial(torch.optim.Adam, lr=rate))
