"""Files, statistics and metric names that all comparison tables share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from overtrick.config import job_file
from overtrick.config.job_file import JobT
from overtrick.core.files import write_text
from overtrick.reports import tables
from overtrick.runs import folder_kind
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking.mlflow_tracker import Tracker

FILES = ("table.md", "table.csv", "table.json")


def read_stored_job(folder: RunFolder, trainer: str, job: type[JobT]) -> JobT:
    """Read the job of a comparison table from its folder.

    `trainer`, `job`: the kind of table, and the class of its jobs. Raises UserError for any other
    folder.
    """
    folder_kind.check_kind(folder, "table")
    return job_file.load_stored(folder, {trainer: job})


def save_files(
    folder: RunFolder,
    markdown: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    results: Any,
) -> None:
    """Write the results of a table as Markdown, as CSV with `columns` and `rows`, and as JSON."""
    contents = markdown, tables.csv_text(columns, rows), json.dumps(results, indent=1) + "\n"
    for name, content in zip(FILES, contents, strict=True):
        write_text(folder.path / name, content)


def send_files(folder: RunFolder, tracker: Tracker) -> None:
    """Send the files of a table to MLflow."""
    for name in FILES:
        tracker.artifact(folder.path / name)


def cell_metric(row: str, column: str) -> str:
    """Return the MLflow metric of a cell, in the characters that MLflow accepts."""
    return f"{row}/{column}".replace("+", "_plus_")


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean of values; None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
