"""Schemas of the JSON files in a run's folder that later commands read: job and results table."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, Field, JsonValue, TypeAdapter

from overtrick.core.json_files import ClosedRecord, OpenRecord


class StoredGame(ClosedRecord):
    """The game of a stored job."""

    name: str
    options: dict[str, JsonValue]


class StoredStop(OpenRecord):
    """When the training of a stored job ends."""

    iterations: Annotated[int, Field(ge=1)]


class StoredTracking(OpenRecord):
    """The MLflow server of a stored job."""

    uri: str


class StoredColumn(OpenRecord):
    """One game of a stored equilibrium table."""

    game: StoredGame


class StoredJob(OpenRecord):
    """The keys of a stored job that are read without its trainer's schema.

    A job has the key `game`, or `games` if it is for several.
    """

    trainer: str
    game: NotRequired[StoredGame]
    games: NotRequired[dict[str, StoredColumn]]
    track: StoredTracking
    seed: NotRequired[int]
    stop: NotRequired[StoredStop]


class AdaptationRow(OpenRecord):
    """A row of a results table: mean payoffs against one held-out opponent.

    `steps`: the payoff before adaptation, and after each adaptation step.
    """

    stranger: str
    steps: Annotated[list[float], Field(min_length=1)]
    standard_error: list[float]
    share: float | None
    best_response: float | None


ROW: TypeAdapter[Any] = TypeAdapter(AdaptationRow)


def _check_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check that all rows of a results table have the same columns, and return the rows.

    Rows with a column `steps` must fit `AdaptationRow` and have equally many steps. Returns the
    rows with the types of that schema. Raises ValueError, which names the wrong row or key.
    """
    for number, row in enumerate(rows):
        if not row or list(row) != list(rows[0]):
            raise ValueError(f"row {number} must have the columns of the first row")
        if "steps" in row:
            row.update(ROW.validate_python(row))  # keeps the order of the columns
            counts = {len(row["steps"]), len(row["standard_error"]), len(rows[0]["steps"])}
            if len(counts) > 1:
                raise ValueError(f"row {number} must have as many steps as the first row")
    return rows


def _check_games(job: dict[str, Any]) -> dict[str, Any]:
    """Check that a job names its game or its games, and return the job."""
    if "game" not in job and "games" not in job:
        raise ValueError("no game")
    return job


JOB: TypeAdapter[dict[str, Any]] = TypeAdapter(
    Annotated[StoredJob, AfterValidator(_check_games)]  # type: ignore[arg-type]
)
ROWS: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(
    Annotated[list[dict[str, JsonValue]], AfterValidator(_check_rows)]
)
