"""Walks over phantom games on workers: one shard for each first move.

Results of shards stay in the cache folder until all are done.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, PhantomGame
from overtrick.core.files import (
    DamagedWeightsError,
    cache_folder,
    read_weights,
    write_weights_whole,
)
from overtrick.distributed.workers import WorkerPool
from overtrick.solvers.phantom.information_sets import Numbering, gradients_after
from overtrick.solvers.phantom.numbering_cache import numbering_file, stored_numbering

log = logging.getLogger(__name__)

KEPT = 7 * 86400  # seconds for which the results of an interrupted walk are kept

SparseGradients = dict[str, Array]
"""Nonzero gradients of a shard: for each seat s sequence numbers `place_s` and values `value_s`."""


def sharded_gradients(
    game: PhantomGame,
    plans: tuple[Array, Array],
    pool: WorkerPool,
    progress: Callable[[int], None] = lambda percent: None,
) -> tuple[Array, Array]:
    """Return for each seat the gradient (1 + L,) of its points with respect to its own plan.

    The result is bitwise equal to `information_sets.sequence_gradients`. `plans`: for each seat the
    realisation plan (1 + L,) over its L sequences. Results of shards are written to the cache
    folder; if the walk is interrupted, the next one with equal plans uses them.
    `progress`: called with the percentage of shards that are done.
    """
    moves, folder = range(game.wins.shape[1].bit_length() - 1), _folder(game, plans)
    _delete_abandoned(folder.parent)
    total = tuple(np.zeros_like(plan) for plan in plans)
    parts = {first: part for first in moves if (part := _read(folder, first)) is not None}
    missing = [first for first in moves if first not in parts]
    added, done = 0, len(parts)

    def add() -> None:
        """Add all parts whose turn has come, in the order of moves, and free their memory."""
        nonlocal added
        while added in parts:
            part = parts.pop(added)
            for seat in range(2):
                total[seat][part[f"place_{seat}"]] += part[f"value_{seat}"]
            part.clear()  # the pool still holds it
            added += 1

    def keep(shard: int, part: SparseGradients) -> None:
        nonlocal done
        try:
            write_weights_whole(_file(folder, missing[shard]), part)
        except OSError as error:
            log.warning(
                "cannot store the result of a first move, which an interruption would lose: %s",
                error,
            )
        parts[missing[shard]] = part
        add()
        done += 1
        progress(100 * done // len(moves))

    add()
    shards = [(first,) for first in missing]
    pool.map(_walk_after, (game, plans), shards, np.random.default_rng(0), keep)
    shutil.rmtree(folder, ignore_errors=True)
    return total[0], total[1]


def _walk_after(
    rng: Generator, common: tuple[PhantomGame, tuple[Array, Array]], first: int
) -> SparseGradients:
    """Walk over all lines after a first move. `common`: the tuple (game, realisation plans)."""
    game, plans = common
    part: SparseGradients = {}
    points = gradients_after(game, _numbering(game), plans, first)
    for seat, gradient in enumerate(points):
        place = np.flatnonzero(gradient)
        part |= {f"place_{seat}": place.astype(np.int32), f"value_{seat}": gradient[place]}
    return part


_numberings: dict[str, Numbering] = {}


def _numbering(game: PhantomGame) -> Numbering:
    """Return the numbers of a game's information sets; a worker keeps those of its last game."""
    name = numbering_file(game).name
    if name not in _numberings:
        _numberings.clear()
        _numberings[name] = stored_numbering(game)
    return _numberings[name]


def _delete_abandoned(walks: Path) -> None:
    """Delete the results of walks that nobody has continued for a week."""
    for folder in walks.glob("*"):
        with suppress(OSError):  # another process may have finished it
            if time.time() - folder.stat().st_mtime > KEPT:
                shutil.rmtree(folder, ignore_errors=True)


def _folder(game: PhantomGame, plans: tuple[Array, Array]) -> Path:
    digest = hashlib.sha256(numbering_file(game).name.encode())
    for plan in plans:
        digest.update(plan.tobytes())
    return cache_folder() / "walks" / digest.hexdigest()[:16]


def _file(folder: Path, first: int) -> Path:
    return folder / f"after_{first}.safetensors"


def _read(folder: Path, first: int) -> SparseGradients | None:
    """Return the stored result of a shard; None if it is missing or damaged."""
    try:
        part = read_weights(_file(folder, first))
    except (DamagedWeightsError, OSError):
        return None
    names = {f"{name}_{seat}" for name in ("place", "value") for seat in range(2)}
    return part if part.keys() == names else None
