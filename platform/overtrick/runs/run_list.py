"""Summaries of the runs on this machine, for `overtrick list`."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import NamedTuple

from overtrick.core import UserError
from overtrick.runs import folder_kind
from overtrick.storage import locate
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import TRAINERS

AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))  # seconds of each unit of an age


class RunSummary(NamedTuple):
    """One run, sweep or comparison on this machine."""

    name: str
    kind: str  # run, sweep or table
    status: str  # running, finished, stopped, or damaged
    game: str | None
    trainer: str | None
    score: float | None  # of a finished run, from its results table; larger is better
    age: str  # since the last write of a result or checkpoint


def list_runs() -> list[RunSummary]:
    """Return a summary of each run in the folder of runs, the newest first."""
    folders = [RunFolder(locate.runs_folder() / name) for name in locate.run_names()]
    ages = {folder.path: _seconds_since_change(folder) for folder in folders}
    return [_summary(each, ages[each.path]) for each in sorted(folders, key=lambda f: ages[f.path])]


def _summary(run: RunFolder, age: float) -> RunSummary:
    """Return the summary of a run that was last written to `age` seconds ago."""
    kind, status, score = "run", "damaged", None
    game = trainer = None
    try:
        kind, _ = folder_kind.kind_of(run)
        job = run.read_job()
        trainer, game = job.get("trainer"), job.get("game")
        game = game.get("name") if isinstance(game, dict) else game
        if run.table.exists():
            rows = run.read_table()
            score = TRAINERS[str(trainer)].table_score(rows) if kind == "run" else None
            status = "finished"
        else:
            status = "running" if is_running(run) else "stopped"
    except (UserError, LookupError, OSError, TypeError, ValueError):
        status = "damaged"  # `evaluate` and `resume` tell what is wrong with a file
    return RunSummary(run.name, kind, status, game, trainer, score, format_age(age))


def is_running(run: RunFolder) -> bool:
    """Return whether a process of this machine works on a run."""
    try:
        with run.lock.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def format_age(seconds: float) -> str:
    """Return a time span in its largest unit, such as "3 h"."""
    for size, unit in AGES:
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return "0 s"


def _seconds_since_change(run: RunFolder) -> float:
    """Return the seconds since a file or folder at the top of a run's folder has changed."""
    changed = 0.0
    for name in os.listdir(run.path):
        with suppress(OSError):  # a file that is just being renamed
            changed = max(changed, (run.path / name).stat().st_mtime)
    return max(time.time() - changed, 0.0)
