"""The kinds of comparison tables: job class, validation and execution of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from overtrick.comparison import (
    board,
    board_job,
    comparison_job,
    equilibrium_job,
    equilibrium_table,
    rps_board,
    rps_board_job,
    runner,
    schedule,
)
from overtrick.comparison.board_job import BoardJob
from overtrick.comparison.comparison_job import ComparisonJob, FinishedTable
from overtrick.comparison.equilibrium_job import EquilibriumTableJob
from overtrick.comparison.rps_board_job import RpsBoardJob
from overtrick.config import job_file
from overtrick.config.job_file import BaseJob, Job
from overtrick.reports.progress import OnProgress
from overtrick.runs import folder_kind
from overtrick.storage.run_folder import RunFolder


class TableKind(NamedTuple):
    """Functions for one kind of comparison table; they take jobs of the class `job`."""

    job: type[BaseJob]
    load: Callable[[str | Path, Sequence[str]], BaseJob]
    """Load a job file with overrides. Raises UserError."""

    check: Callable[[Any], int]
    """Validate a job; return its training iterations plus evaluations. Raises UserError."""

    training_jobs: Callable[[Any], list[Job]]
    """Return the job of each child run."""

    run: Callable[[RunFolder, OnProgress], FinishedTable]
    """Run the unfinished child runs and evaluations of a table's folder. Raises UserError and
    RunError.
    """


KINDS: dict[str, TableKind] = {
    "table": TableKind(
        ComparisonJob, comparison_job.load, schedule.check, schedule.training_jobs, runner.run
    ),
    "equilibrium_table": TableKind(
        EquilibriumTableJob,
        equilibrium_job.load,
        equilibrium_job.check,
        equilibrium_job.training_jobs,
        equilibrium_table.run,
    ),
    "rps_board": TableKind(
        RpsBoardJob, rps_board_job.load, rps_board.check, rps_board_job.training_jobs, rps_board.run
    ),
    "board": TableKind(BoardJob, board_job.load, board.check, board_job.training_jobs, board.run),
}

TABLE_JOBS = {name: kind.job for name, kind in KINDS.items()}
"""Job class of each kind of comparison table, by the value of the key `trainer`."""


def load(path: str | Path, overrides: Sequence[str]) -> BaseJob:
    """Load the job file of a comparison table of any kind. Raises UserError."""
    trainer = job_file.load(path, overrides, TABLE_JOBS).trainer
    return KINDS[trainer].load(path, overrides)


def read_job(folder: RunFolder) -> BaseJob:
    """Read the job of a comparison table from its folder. Raises UserError for another folder."""
    folder_kind.check_kind(folder, "table")
    return job_file.load_stored(folder, TABLE_JOBS)
