"""Large libraries, imported at the first use of one of their attributes.

`from overtrick.core.lazy_modules import torch` takes no time; the first `torch.zeros` takes the
seconds that `import torch` takes. Commands that use no neural network therefore start at once.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from overtrick.core.errors import UserError

__all__ = ["mujoco", "mujoco_warp", "ray", "sparse", "torch", "warp"]


class LazyModule:
    """Stand-in for a module that imports it when one of its attributes is used first.

    name: the module's full name. extra: the extra of this package that installs the module; empty
    if every installation has it. Using an attribute raises UserError if the module is missing.
    """

    def __init__(self, name: str, extra: str = "") -> None:
        self.__name__ = name
        self._extra = extra

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # as when Python asks how to copy this object
            raise AttributeError(attribute)
        return getattr(self._module, attribute)

    @cached_property
    def _module(self) -> ModuleType:
        try:
            return import_module(self.__name__)
        except ModuleNotFoundError as error:
            if not self._extra or error.name != self.__name__:
                raise
            raise not_installed(self.__name__, self._extra) from None


def not_installed(name: str, extra: str) -> UserError:
    """Return an error that says how to install a missing module.

    `name`: the module. `extra`: the extra of this package that installs it.
    """
    return UserError(f"{name} is not installed: pip install 'overtrick[{extra}]'")


if TYPE_CHECKING:
    import mujoco
    import mujoco_warp
    import ray
    import torch
    import warp
    from scipy import sparse
else:
    ray, torch, sparse = map(LazyModule, ("ray", "torch", "scipy.sparse"))
    mujoco = LazyModule("mujoco", "sumo")
    mujoco_warp, warp = (LazyModule(name, "warp") for name in ("mujoco_warp", "warp"))
