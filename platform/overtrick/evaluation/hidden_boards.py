"""Exact evaluation of players in games with hidden marks, whose trees do not fit in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from overtrick.core import BehaviouralPolicy, HiddenBoard
from overtrick.core.files import (
    DamagedWeightsError,
    cache_folder,
    read_weights,
    replacing,
    write_weights,
)
from overtrick.solvers.hidden_board import evaluation
from overtrick.solvers.hidden_board.views import Numbering, Views, number_views

VERSION = 1  # raise it when equal games get other numbers


def evaluate_players(
    game: HiddenBoard,
    policies: Sequence[BehaviouralPolicy],
    progress: Callable[[int], None] = lambda percent: None,
) -> evaluation.Evaluation:
    """Return the exact values, best responses and NashConv of a policy for each seat.

    `progress`: called with the percentage of the information sets that are numbered, where their
    numbers are not stored yet. Raises UserError for a board that is too large, and for
    probabilities that are not a strategy.
    """
    numbering = stored_numbering(game, progress)
    strategies = evaluation.tabulate(game, numbering, policies)
    return evaluation.evaluate(game, numbering, strategies, os.cpu_count() or 1)


def stored_numbering(
    game: HiddenBoard, progress: Callable[[int], None] = lambda percent: None
) -> Numbering:
    """Return the numbers of a game's information sets, from the cache folder if they are there.

    Otherwise they are computed and stored; a damaged file is replaced.
    """
    path = _path(game)
    try:
        arrays = read_weights(path)
    except (DamagedWeightsError, OSError):
        numbering = number_views(game, progress)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            write_weights(temporary, _arrays(numbering))
        return numbering
    first, second = (
        Views(*(arrays[f"{field}_{seat}"] for field in Views._fields)) for seat in range(2)
    )
    return Numbering((first, second), int(arrays["ends"]))


def _path(game: HiddenBoard) -> Path:
    rules = f"{VERSION} {game.failure_ends_turn} ".encode() + np.packbits(game.wins).tobytes()
    return cache_folder() / "views" / f"{hashlib.sha256(rules).hexdigest()[:16]}.safetensors"


def _arrays(numbering: Numbering) -> dict[str, np.ndarray]:
    """Return a numbering as named arrays."""
    arrays = {"ends": np.array(numbering.ends)}
    for seat, views in enumerate(numbering.seats):
        arrays |= {f"{field}_{seat}": array for field, array in views._asdict().items()}
    return arrays
