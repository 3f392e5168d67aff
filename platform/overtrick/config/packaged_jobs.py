"""Find the job files that come with the package by name."""

from __future__ import annotations

import os
from pathlib import Path

from overtrick.core import UserError, suggestion
from overtrick.core.files import check_names

_PACKAGE = Path(__file__).parents[1]
FOLDERS = (_PACKAGE / "jobs", _PACKAGE.parents[1] / "jobs")
"""The folder of job files in an installed package, and in a checkout."""


def packaged_jobs() -> dict[str, Path]:
    """Return the job files that come with the package, by name, such as leduc_meta."""
    folder = next(filter(Path.is_dir, FOLDERS), None)
    return {} if folder is None else {each.stem: each for each in sorted(folder.glob("*.yaml"))}


def job_path(job: str | Path) -> Path:
    """Return the path of a job file.

    `job`: a path, or the name of a job that comes with the package. A file of the working folder
    comes first. Raises UserError for an unknown name, and for a name that no file can have.
    """
    check_names(str(job))
    if os.path.isfile(job) or Path(job).suffix or len(Path(job).parts) > 1:
        return Path(job)
    known = packaged_jobs()
    if str(job) not in known:
        raise UserError(f"no job file '{job}': {suggestion(str(job), known)}")
    return known[str(job)]
