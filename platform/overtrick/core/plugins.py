"""Load extensions that installed packages register as entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from overtrick.core.errors import UserError


@cache
def load_plugins(group: str) -> tuple[Any, ...]:
    """Load the objects that installed packages register in an entry-point group.

    `group`: such as "overtrick.games". Raises UserError for an entry point that cannot be loaded.
    """
    loaded = []
    for point in entry_points(group=group):
        try:
            loaded.append(point.load())
        except Exception as error:
            package = point.dist.name if point.dist else "a package"
            raise UserError(
                f"{package} adds '{point.name}' to {group}, but {point.value} cannot be imported "
                f"({type(error).__name__}: {error}): update or uninstall {package}"
            ) from error
    return tuple(loaded)
