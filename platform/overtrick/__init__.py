"""Overtrick: train players of imperfect-information games, on a laptop or on a Ray cluster."""

from __future__ import annotations

from typing import Any

__all__ = ["make", "names"]


def __getattr__(name: str) -> Any:
    """Import `make` or `names` from overtrick.games.registry on first use.

    The import is late, so that environment variables can be set before numpy is imported.
    """
    if name in __all__:
        from overtrick.games import registry

        return getattr(registry, name)
    raise AttributeError(f"module 'overtrick' has no attribute '{name}'")
