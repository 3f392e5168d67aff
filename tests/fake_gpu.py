"""Stand-in for a GPU on machines without one: tensors that refuse to mix with those of the CPU.

Inside `fake_gpu()`, torch creates tensors of the class `FakeGpuTensor`. They are on the CPU, so
that results are equal to the bit. As on a GPU, a function of tensors of both kinds is an error, and
so is a conversion to numpy other than `numpy(force=True)`. Torch still says that its default device
is the CPU: what is chosen by the kind of device, such as fused Adam, is not tested here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_leaves

MIXING_ALLOWED = (torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.copy_)
"""Functions that may mix tensors of CPU and GPU, as in torch; a CPU tensor without dimensions may
always be mixed."""


class FakeGpuTensor(torch.Tensor):
    """Tensor on the stand-in for a GPU."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        to_numpy = func is torch.Tensor.numpy and not kwargs.get("force")
        if to_numpy or func is torch.Tensor.__array__:
            raise TypeError("can't convert a tensor of the fake GPU to numpy")
        for value in tree_leaves((args, kwargs)):
            if type(value) is torch.Tensor and value.dim() and func not in MIXING_ALLOWED:
                raise RuntimeError(f"{func.__name__}: tensors on two devices")
        found = super().__torch_function__(func, types, args, kwargs)
        if type(found) is torch.Tensor:  # such as `.grad`
            return found.as_subclass(cls)
        return found


class _Creating(TorchFunctionMode):
    """Mode in which torch's functions that create tensors return FakeGpuTensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        created = func in _device_constructors() and (kwargs or {}).get("device") is None
        return made.as_subclass(FakeGpuTensor) if created else made


@contextmanager
def fake_gpu() -> Iterator[None]:
    """Context manager that makes the stand-in for a GPU torch's default device."""
    with _Creating():
        yield
