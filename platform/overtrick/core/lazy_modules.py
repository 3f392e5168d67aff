"""Large libraries, imported at the first use of one of their attributes.

`from overtrick.core.lazy_modules import torch` takes no time; the first `torch.zeros` takes the
seconds that `import torch` takes. Commands that need no network therefore start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["mujoco", "ray", "sparse", "torch"]


class LazyModule:
    """Stand-in for a module that imports it when one of its attributes is used first.

    name: the module's full name.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self.__name__), attribute)
        setattr(self, attribute, value)  # the next use does not call this method
        return value


if TYPE_CHECKING:
    import mujoco
    import ray
    import torch
    from scipy import sparse
else:
    mujoco, ray, torch = map(LazyModule, ("mujoco", "ray", "torch"))
    sparse = LazyModule("scipy.sparse")
