"""Kind of a run folder: one run, a sweep, or a comparison of methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overtrick.core import UserError
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import TRAINERS

RESUMED_BY = {"run": "train", "sweep": "sweep", "table": "evaluate"}
"""The kinds of run folders, and the command that resumes each."""


def kind_of(run: RunFolder) -> tuple[str, RunFolder]:
    """Return the kind of a run, and the folder of the run to resume.

    The kind is "run", "sweep" or "table"; the last is a comparison of methods. For a child run,
    returns the kind and the folder of its parent run.
    """
    group = run.group
    return ("run" if not group.children.exists() else kind_of_group(group.read_job())), group


def kind_of_group(job: Mapping[str, Any]) -> str:
    """Return "sweep" or "table" for a run with child runs. `job`: its job's plain data."""
    return "sweep" if job.get("trainer") in TRAINERS else "table"


def check_one_job(run: RunFolder) -> None:
    """Raise UserError for a comparison of methods, whose child runs have different jobs."""
    if run.children.exists() and kind_of_group(run.read_job()) == "table":
        raise UserError(f"{run.name} is a comparison of methods: name one of its child runs")


def check_kind(run: RunFolder, kind: str) -> None:
    """Raise UserError unless a run is of the given kind and not a child run.

    `kind`: "run", "sweep" or "table"; the last is a comparison of methods. The message names the
    command that resumes the run or, for a child run, the parent run.
    """
    found, group = kind_of(run)
    if found != kind or group != run:
        command = f"`overtrick {RESUMED_BY[found]} --resume {group.name}`"
        raise UserError(f"{group.name} is a {found}: {command}")
