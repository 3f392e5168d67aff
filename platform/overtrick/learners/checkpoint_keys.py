"""Names of arrays in a checkpoint: one prefix for each component of a learner."""

from __future__ import annotations

from collections.abc import Mapping

from overtrick.core import Array


def prefixed(prefix: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays with `PREFIX.` in front of their names."""
    return {f"{prefix}.{name}": value for name, value in values.items()}


def unprefixed(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays whose names begin with `PREFIX.`, with the prefix removed."""
    start = f"{prefix}."
    return {n.removeprefix(start): v for n, v in state.items() if n.startswith(start)}
