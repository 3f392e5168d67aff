"""Overtrick: train players of imperfect-information games, on a laptop or on a Ray cluster."""

from __future__ import annotations

from typing import Any

__all__ = ["make", "names"]


def __getattr__(name: str) -> Any:
    """The registry's verbs, imported when first asked for, so that settings can come before."""
    if name in __all__:
        from overtrick.games import registry

        return getattr(registry, name)
    raise AttributeError(f"module 'overtrick' has no attribute '{name}'")
