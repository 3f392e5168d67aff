"""Prefixes of the keys in a saved state."""

from __future__ import annotations

from collections.abc import Mapping

from overtrick.core import Array


def prefixed(prefix: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """Names with a prefix, as they stand in a state."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def unprefixed(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """The part of a state under a prefix, without it."""
    start = f"{prefix}."
    return {n.removeprefix(start): v for n, v in state.items() if n.startswith(start)}
