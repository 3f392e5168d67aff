"""Walks that workers share: one shard for each part.

Results of shards stay in the cache folder until all are done.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, WalkedGame
from overtrick.core.files import (
    DamagedWeightsError,
    cache_folder,
    read_weights,
    write_weights_whole,
)
from overtrick.distributed.workers import WorkerPool
from overtrick.solvers.walks.game_walk import GameWalk, Pair
from overtrick.solvers.walks.make_walk import make_walk

log = logging.getLogger(__name__)

KEPT = 7 * 86400  # seconds for which the results of an interrupted walk are kept

SparseGradients = dict[str, Array]
"""Nonzero gradients of a shard: for each seat s sequence numbers `place_s` and values `value_s`."""


def sharded_gradients(
    walk: GameWalk,
    plans: Pair,
    pool: WorkerPool,
    progress: Callable[[int], None] = lambda percent: None,
) -> Pair:
    """Return for each seat the gradient (1 + L,) of its points with respect to its own plan.

    The result is bitwise equal to `walk.gradients`. `plans`: for each seat the realisation plan
    (1 + L,) over its L sequences. Results of shards are written to the cache
    folder; if the walk is interrupted, the next one with equal plans uses them.
    `progress`: called with the percentage of shards that are done.
    """
    numbers, folder = range(walk.parts), _folder(walk, plans)
    _delete_abandoned(folder.parent)
    total = np.zeros_like(plans[0]), np.zeros_like(plans[1])
    parts = {number: part for number in numbers if (part := _read(folder, number)) is not None}
    missing = [number for number in numbers if number not in parts]
    added, done = 0, len(parts)

    def add() -> None:
        """Add the finished parts up to the first missing one, and free their memory."""
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
                "cannot store a part of a walk; after an interruption it is computed again: %s",
                error,
            )
        parts[missing[shard]] = part
        add()
        done += 1
        progress(100 * done // walk.parts)

    add()
    shards = [(number,) for number in missing]
    pool.map(_walk_part, (walk.game, plans), shards, np.random.default_rng(0), keep)
    shutil.rmtree(folder, ignore_errors=True)
    return total


def _walk_part(rng: Generator, common: tuple[WalkedGame, Pair], number: int) -> SparseGradients:
    """Compute one part of a walk. `common`: the tuple (game, realisation plans)."""
    game, plans = common
    part: SparseGradients = {}
    for seat, gradient in enumerate(_walk(game).part_gradients(plans, number)):
        place = np.flatnonzero(gradient)
        part |= {f"place_{seat}": place.astype(np.int32), f"value_{seat}": gradient[place]}
    return part


_walks: dict[bytes, GameWalk] = {}


def _walk(game: WalkedGame) -> GameWalk:
    """Return the walk over a game; a worker keeps that of its last game."""
    key = pickle.dumps(game)
    if key not in _walks:
        _walks.clear()
        _walks[key] = make_walk(game)
    return _walks[key]


def _delete_abandoned(walks: Path) -> None:
    """Delete the results of walks that nobody has continued for a week."""
    for folder in walks.glob("*"):
        with suppress(OSError):  # another process may have finished it
            if time.time() - folder.stat().st_mtime > KEPT:
                shutil.rmtree(folder, ignore_errors=True)


def _folder(walk: GameWalk, plans: Pair) -> Path:
    digest = hashlib.sha256(walk.rules.encode())
    for plan in plans:
        digest.update(plan.tobytes())
    return cache_folder() / "walks" / digest.hexdigest()[:16]


def _file(folder: Path, number: int) -> Path:
    return folder / f"part_{number}.safetensors"


def _read(folder: Path, number: int) -> SparseGradients | None:
    """Return the stored result of a shard; None if it is missing or damaged."""
    try:
        part = read_weights(_file(folder, number))
    except (DamagedWeightsError, OSError):
        return None
    names = {f"{name}_{seat}" for name in ("place", "value") for seat in range(2)}
    return part if part.keys() == names else None
