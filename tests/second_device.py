"""Stand-in for a GPU on machines without one: tensors that refuse to mix with those of the CPU.

Inside `second_device()`, torch creates tensors of the class `DeviceTensor`. They are on the CPU, so
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

INDEXING = (torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.copy_)
"""Functions that accept tensors of the CPU beside those of a GPU."""


class DeviceTensor(torch.Tensor):
    """Tensor on the stand-in for a GPU."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        to_numpy = func is torch.Tensor.numpy and not kwargs.get("force")
        if to_numpy or func is torch.Tensor.__array__:
            raise TypeError("can't convert a tensor of the second device to numpy")
        for value in tree_leaves((args, kwargs)):
            if type(value) is torch.Tensor and value.dim() and func not in INDEXING:
                raise RuntimeError(f"{func.__name__}: tensors on two devices")
        found = super().__torch_function__(func, types, args, kwargs)
        return found.as_subclass(cls) if type(found) is torch.Tensor else found  # such as grad


class _Creating(TorchFunctionMode):
    """Mode in which torch's functions that create tensors return DeviceTensors."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        created = func in _device_constructors() and (kwargs or {}).get("device") is None
        return made.as_subclass(DeviceTensor) if created else made


@contextmanager
def second_device() -> Iterator[None]:
    """Context manager that makes the stand-in for a GPU torch's default device."""
    with _Creating():
        yield
