"""Validation of observations from outside the process, such as requests to a served model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from overtrick.core import Array, Observations, UserError, ValidatesObservations


def validated_observations(game: Any, observation: Array) -> Observations:
    """Validate raw observations (R, K) and complete them as `game.observe` would return them.

    The seat, the legal actions and the information set are derived from each observation. Compiled
    kernels do not check their input, so every observation from outside must be validated here.
    Raises UserError for an observation that no seat can have, for an empty array, and for a game
    that cannot derive the legal actions from an observation.
    """
    if not len(observation):
        raise UserError("there is nothing to answer: send at least one row of observations")
    if game.actions is not None and observation.dtype.kind not in "iu":
        raise UserError(f"observations of {game.name} are integers, not {observation.dtype}")
    if isinstance(game, ValidatesObservations):
        return game.validated_observations(observation)
    if game.actions is not None:
        raise UserError(f"{game.name} cannot derive legal actions from observations alone")
    finite = np.isfinite(observation).all(axis=1)
    check_rows(game.observation_fields, observation, finite, "must be finite numbers")
    # in games of real actions all seats have the same kind of observation
    seat = np.zeros(len(observation), np.int64)
    return Observations(np.arange(len(observation)), seat, observation, None, None)


def check_limits(
    fields: Sequence[str], observation: Array, limits: Mapping[str, tuple[int, int]]
) -> None:
    """Raise UserError if a column of observations (R, K) has a value outside its limits.

    fields: names of the K columns. limits: (lowest, highest) allowed value by name of column.
    """
    for name, (least, most) in limits.items():
        column = observation[:, fields.index(name)]
        wrong = np.flatnonzero((column < least) | (column > most))
        if len(wrong):
            found = column[wrong[0]]
            raise UserError(f"row {wrong[0]}: {name} must be {least} to {most}, not {found}")


def check_rows(fields: Sequence[str], observation: Array, valid: Array, why: str) -> None:
    """Raise UserError if any row of observations (R, K) is not valid; report the first such row.

    fields: names of the K columns. valid: (R,) bool. why: the end of the error message "the
    observation fields ...".
    """
    if not valid.all():
        row = int(np.argmin(valid))
        listed = list_fields(fields, observation[row])[:300]
        raise UserError(f"row {row}: the observation fields {why}: {listed}")


def list_fields(fields: Sequence[str], observation: Array) -> str:
    """Return one observation (K,) as text: the names and values of its fields."""
    values = zip(fields, observation.tolist(), strict=True)
    return ", ".join(f"{name} {value}" for name, value in values)
