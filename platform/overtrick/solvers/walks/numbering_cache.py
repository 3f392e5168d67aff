"""Indices of a phantom game's information sets, kept in the cache folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from overtrick.core import Array, PhantomGame
from overtrick.core.files import (
    DamagedWeightsError,
    cache_folder,
    read_weights,
    write_weights_whole,
)
from overtrick.solvers.walks.phantom_walk import (
    Numbering,
    PhantomViews,
    number_views,
    rules_digest,
)

log = logging.getLogger(__name__)


def stored_numbering(
    game: PhantomGame, progress: Callable[[int], None] = lambda percent: None
) -> Numbering:
    """Return the numbers of a game's information sets, from the cache folder if they are there.

    Otherwise they are computed and stored; a damaged file is replaced. If they cannot be stored, a
    warning says so.
    """
    path = numbering_file(game)
    try:
        return _numbering(read_weights(path))
    except (DamagedWeightsError, LookupError, OSError, TypeError, ValueError):
        numbering = number_views(game, progress)
    try:
        write_weights_whole(path, _arrays(numbering))
    except OSError as error:
        log.warning(
            "cannot store the indices of information sets, which the next run computes again: %s",
            error,
        )
    return numbering


def numbering_file(game: PhantomGame) -> Path:
    """Return the file in the cache folder; its name is a digest of the game's rules."""
    return cache_folder() / "views" / f"{rules_digest(game)}.safetensors"


def _numbering(arrays: Mapping[str, Array]) -> Numbering:
    """Return a numbering from its named arrays. Raises ValueError or LookupError for others."""
    seats = []
    for seat in range(2):
        views = PhantomViews(*(arrays[f"{field}_{seat}"] for field in PhantomViews._fields))
        count, actions = len(views.known), views.start[-1]
        shapes = [(count,), (count + 1,), (count,), (2 * actions,)]
        if [array.shape for array in views] != shapes:
            raise ValueError("the arrays do not fit each other")
        seats.append(views)
    return Numbering((seats[0], seats[1]), int(arrays["ends"]))


def _arrays(numbering: Numbering) -> dict[str, np.ndarray]:
    """Return a numbering as named arrays."""
    arrays = {"ends": np.array(numbering.ends)}
    for seat, views in enumerate(numbering.seats):
        arrays |= {f"{field}_{seat}": array for field, array in views._asdict().items()}
    return arrays
