"""Summaries of all runs, for `overtrick list`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from overtrick.core import RunError, UserError
from overtrick.core.file_lock import is_locked
from overtrick.core.json_files import parse_json
from overtrick.runs.folder_kind import kind_of_group
from overtrick.storage import locate, stored_results
from overtrick.storage.object_store import ObjectFolder, is_url
from overtrick.storage.run_folder import RunFolder
from overtrick.storage.run_lease import LEASE, is_leased
from overtrick.training.registry import TRAINERS

AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))  # seconds of each unit of an age


class RunSummary(NamedTuple):
    """One run, sweep or comparison."""

    name: str
    kind: str  # run, sweep or table
    status: str  # running, finished, stopped, or damaged
    game: str | None
    trainer: str | None
    score: float | None  # of a finished run, from its results table; larger is better
    age: str  # since the last write of a result or checkpoint


class _StoredRun(NamedTuple):
    """The parts of a stored run, in a folder or a bucket, from which its summary is made."""

    name: str
    has_children: bool
    read_job: Callable[[], dict[str, Any]]
    read_table: Callable[[], list[dict[str, Any]]] | None  # None: the run is not finished
    is_running: Callable[[], bool]
    changed: float  # time of the newest result or checkpoint, in seconds since 1970


def list_runs() -> list[RunSummary]:
    """Return a summary of each run in the folder or bucket of runs, the newest first.

    Runs in a bucket are listed without any file on this machine.
    """
    place = locate.runs_location()
    read = _in_bucket if is_url(place) else _in_folder
    runs = [read(place, name) for name in locate.run_names()]
    return [_summary(run) for run in sorted(runs, key=lambda run: -run.changed)]


def _in_folder(place: str, name: str) -> _StoredRun:
    """Return the run `name` in a folder."""
    run = RunFolder(Path(place) / name)
    changed = 0.0
    for file in (f for pattern in ("*", "*/*", "*/*/*") for f in run.path.glob(pattern)):
        with suppress(OSError):  # a file that is just being renamed
            changed = max(changed, file.stat().st_mtime)
    read_table = run.read_table if run.table.exists() else None
    is_running = partial(is_locked, run.lock)
    return _StoredRun(name, run.children.exists(), run.read_job, read_table, is_running, changed)


def _in_bucket(place: str, name: str) -> _StoredRun:
    """Return the run `name` in a bucket."""
    stored = ObjectFolder(f"{place}/{name}")
    objects = stored.objects()
    files = RunFolder(Path())  # for the names of the files

    def read(file: Path, schema: Any) -> Any:
        return parse_json(stored.read(file.name), f"{stored.url}/{file.name}", schema, "restore it")

    return _StoredRun(
        name,
        any(each.startswith(f"{files.children.name}/") for each in objects),
        partial(read, files.job, stored_results.JOB),
        partial(read, files.table, stored_results.ROWS) if files.table.name in objects else None,
        partial(is_leased, stored),
        max((found.changed for each, found in objects.items() if each != LEASE), default=0.0),
    )


def _summary(run: _StoredRun) -> RunSummary:
    """Return the summary of a run."""
    kind, status, score = "run", "damaged", None
    game = trainer = None
    try:
        job = run.read_job()
        kind = kind_of_group(job) if run.has_children else "run"
        trainer, game = job.get("trainer"), _game_names(job)
        if run.read_table is not None:
            if kind != "table":  # the file of a table has more than rows
                rows = run.read_table()
                score = TRAINERS[str(trainer)].table_score(rows) if kind == "run" else None
            status = "finished"
        else:
            status = "running" if run.is_running() else "stopped"
    except (UserError, RunError, LookupError, OSError, TypeError, ValueError):
        status = "damaged"  # `evaluate` and `resume` tell what is wrong with a file
    age = format_age(max(time.time() - run.changed, 0.0))
    return RunSummary(run.name, kind, status, game, trainer, score, age)


def _game_names(job: dict[str, Any]) -> str | None:
    """Return the name of a job's game, or of its games; None if it names none."""
    columns = job["games"].values() if "games" in job else [job]
    games = [column.get("game") for column in columns]
    names = [each.get("name") if isinstance(each, dict) else each for each in games]
    return ", ".join(dict.fromkeys(str(name) for name in names if name is not None)) or None


def format_age(seconds: float) -> str:
    """Return a time span in its largest unit, such as "3 h"."""
    for size, unit in AGES:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return "0 s"
