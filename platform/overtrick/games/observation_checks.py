"""Facts that come from outside, where nobody holds the game: the rows of a turn that they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overtrick.core import Array, Observations, UserError, ValidatesObservations


def validated_observations(game: Any, seen: Array) -> Observations:
    """The rows that see these facts (R, K), as the game's own `turn` gives them: who acts, what is
    legal, and which information set it is follow from the facts.

    Kernels trust what they are given, so this does not. Raises UserError for facts that nobody
    sees.
    """
    if not len(seen):
        raise UserError("there is nothing to answer: ask at least one row of facts")
    if isinstance(game, ValidatesObservations):
        return game.validated_observations(seen)
    if game.actions is not None:
        raise UserError(f"{game.name} cannot be asked by facts alone")
    check_rows(
        game.observation_fields, seen, np.isfinite(seen).all(axis=1), "must be finite numbers"
    )
    seat = np.zeros(len(seen), np.int64)  # who moves by real vectors sees alike in every seat
    return Observations(np.arange(len(seen)), seat, seen, None, None)


def check_limits(facts: Sequence[str], seen: Array, limits: Mapping[str, tuple[int, int]]) -> None:
    """Raise UserError for the first fact that is below or above its limits."""
    for name, (least, most) in limits.items():
        column = seen[:, facts.index(name)]
        wrong = np.flatnonzero((column < least) | (column > most))
        if len(wrong):
            found = column[wrong[0]]
            raise UserError(f"row {wrong[0]}: {name} must be {least} to {most}, not {found}")


def check_rows(facts: Sequence[str], seen: Array, fit: Array, why: str) -> None:
    """Raise UserError for the first row whose facts do not fit (R,)."""
    if not fit.all():
        row = int(np.argmin(fit))
        told = ", ".join(f"{n} {v}" for n, v in zip(facts, seen[row].tolist(), strict=True))
        raise UserError(f"row {row}: the facts {why}: {told[:300]}")
