"""Prefixes of the array names in a checkpoint, one for each part of a learner."""

from __future__ import annotations

from collections.abc import Mapping

from overtrick.core import Array


def prefixed(prefix: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays under the names `PREFIX.NAME`."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def unprefixed(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with `PREFIX.`, without that prefix."""
    start = f"{prefix}."
    return {n.removeprefix(start): v for n, v in state.items() if n.startswith(start)}
