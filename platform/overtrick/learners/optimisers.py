"""Torch optimisers over named weights, with their state as named arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from overtrick.core import Array
from overtrick.core.lazy_modules import torch
from overtrick.learners.weights import Params, to_arrays
from overtrick.policies.forward_pass import Weights, tensors

if TYPE_CHECKING:
    from torch import Tensor

OptimizerFactory = Callable[[list["Tensor"]], Any]
"""Function that makes a torch optimiser for a list of weights."""


class Optimizer:
    """Torch optimiser over named weights, whose state can be saved as named arrays."""

    def __init__(self, weights: Weights, optimizer: OptimizerFactory) -> None:
        self.params: Params = {n: v.requires_grad_() for n, v in tensors(weights).items()}
        self._make = optimizer
        self._optimizer = optimizer(list(self.params.values()))

    def _moment_names(self) -> set[str]:
        """Return the names of the moments that the optimiser keeps for each weight."""
        weight = torch.zeros(1, device="cpu", requires_grad=True)
        weight.grad = torch.zeros(1, device="cpu")
        one = self._make([weight])
        one.step()
        return {name for name, value in one.state[weight].items() if value is not None}

    def minimise(self, loss: Tensor) -> None:
        """Take one gradient step that lowers a loss."""
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        self._optimizer.step()

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of later steps; `state` does not save the rate."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def state(self) -> dict[str, Array]:
        """Return weights by name, and the optimiser's moments by names such as `exp_avg.w0`."""
        out = to_arrays(self.params)
        for name, param in self.params.items():
            for key, value in self._optimizer.state.get(param, {}).items():
                if value is not None:
                    out[f"{key}.{name}"] = value.numpy(force=True).copy()
        return out

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the weights and moments from a result of `state()`.

        Raises ValueError if the moments are of another kind of optimiser.
        """
        found = {
            key.removesuffix(f".{name}")
            for name in self.params
            for key in state
            if key.endswith(f".{name}")
        }
        if found and found != self._moment_names():
            raise ValueError(f"{', '.join(sorted(found))} are not moments of this optimiser")
        self._optimizer.state.clear()
        with torch.no_grad():
            for name, param in self.params.items():
                param.copy_(torch.tensor(state[name]))
                moments = {
                    key.removesuffix(f".{name}"): value
                    for key, value in state.items()
                    if key.endswith(f".{name}")
                }
                if moments:
                    # only a fused optimiser counts its steps on the device
                    fused = self._optimizer.defaults.get("fused")
                    self._optimizer.state[param] = {
                        key: torch.tensor(value, device="cpu")
                        if key == "step" and not fused
                        else torch.tensor(value)
                        for key, value in moments.items()
                    }


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015) over named weights."""

    def __init__(self, weights: Weights, rate: float) -> None:
        # on a GPU one fused kernel updates all weights; on the CPU fused Adam rounds differently
        on_gpu = torch.get_default_device().type == "cuda"
        super().__init__(weights, partial(torch.optim.Adam, lr=rate, fused=on_gpu))
