"""Overtrick: train players of imperfect-information games, on a laptop or on a Ray cluster.

`import overtrick as ot` gives the functions of `overtrick.api`, such as `ot.solve("kuhn")`. They
are imported at their first use, so that the import itself takes no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from overtrick import startup

__version__ = "0.1.0"

startup.prepare()  # before numpy and Ray are imported

if TYPE_CHECKING:
    from overtrick.api import *

__all__ = [
    "BestResponse",
    "Champion",
    "FunctionPolicy",
    "LoadedModel",
    "Observations",
    "Solution",
    "UserError",
    "best_response",
    "board",
    "champion",
    "champions",
    "environment_player",
    "exploitability",
    "load",
    "make",
    "match",
    "names",
    "openspiel_player",
    "play",
    "serve_player",
    "solve",
    "sweep",
    "train",
    "tree",
]

EARLY = {"make": "overtrick.games.registry", "names": "overtrick.games.registry"}
"""Names that need less than `overtrick.api`, and their modules."""


def __dir__() -> list[str]:
    """List the names of `__all__` too, for completion in a notebook."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` at its first use."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(EARLY.get(name, "overtrick.api")), name)
    raise AttributeError(f"module 'overtrick' has no attribute '{name}'")
