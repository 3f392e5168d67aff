"""A job trained with every combination of what its `search` names, as one run with parts."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from overtrick import config, figures, run, track, trial
from overtrick.atomic import write_text
from overtrick.config import Job
from overtrick.core import Failed, Refused
from overtrick.trainers import JOBS, TRAINERS

SHARED = ("trainer", "checkpoints", "track", "search")
"""Keys that cannot differ between the trials of a sweep."""


@dataclass(frozen=True)
class Swept:
    """A sweep whose trials have all ended."""

    folder: Path
    rows: list[dict[str, Any]]  # trial, what was tried, score; best first, failed ones last
    failed: list[str]  # why, a line each
    seconds: float
    undelivered: int  # events that wait for MLflow in the folders

    @property
    def median(self) -> float | None:
        """The score in the middle; a failed trial is the worst there can be, None if it is one."""
        scores = [-math.inf if row["score"] is None else row["score"] for row in self.rows]
        return median(scores) if math.isfinite(median(scores)) else None


def check(job: Job, source: str) -> int:
    """The iterations of all trials. Raises Refused for what would only fail later."""
    for key in job.search:
        if key.partition(".")[0] in SHARED:
            raise Refused(f"search of '{key}' in {source}: all trials of a sweep share it")
    made = config.grid(job, JOBS, source)
    for _, each in made:
        run.check(each)
    return sum(each.stop.iterations for _, each in made)


def open_folder(job: Job, name: str) -> Path:
    """A fresh folder that holds the job, and a folder for its trials."""
    folder = run.open_folder(job, name)
    (folder / run.TRIALS).mkdir()
    return folder


def go(folder: Path, progress: Callable[[int], None]) -> Swept:
    """Train what is left to train of a sweep; each trial becomes a run of its own in `trials/`.

    progress is told of the iterations done by all trials. Raises Refused if the folder holds no
    sweep or another process is at it.
    """
    job = run.read_job(folder)
    if not (folder / run.TRIALS).exists():
        raise Refused(f"{folder.name} is no sweep: `overtrick train --resume {folder.name}`")
    made = config.grid(job, JOBS, str(folder / "job.json"))
    began = time.perf_counter()
    with run.locked(folder):
        parent = run.tracker_of(job, folder)
        parts = [_part(folder, number, each) for number, (_, each) in enumerate(made)]
        ended: Sequence[Failed | None] = [None] * len(made)
        status = "FAILED"
        try:
            ended = _train([each for _, each in made], parts, folder, progress)
            rows = _rows(job.trainer, [chosen for chosen, _ in made], parts, ended)
            _keep(folder, rows, parent)
            status = "FINISHED"
        except KeyboardInterrupt:
            status = "KILLED"
            raise
        finally:
            undelivered = parent.close(status)
            for (place, tracker), failed in zip(parts, ended, strict=True):
                patience = 0.0 if undelivered else 30.0  # the server is away: wait for it once
                done = "FINISHED" if (place / run.TABLE).exists() else status
                undelivered += tracker.close("FAILED" if failed else done, patience)
    why = [f"{where.name}: {e}" for (where, _), e in zip(parts, ended, strict=True) if e]
    return Swept(folder, rows, why, time.perf_counter() - began, undelivered)


Part = tuple[Path, track.Tracker]
"""The folder of a trial, and its record in MLflow."""


def place_of(folder: Path, number: int) -> Path:
    """The folder of a trial."""
    return folder / run.TRIALS / f"{folder.name}-{number:03d}"


def _part(folder: Path, number: int, job: Job) -> Part:
    place = place_of(folder, number)
    if not (place / "job.json").exists():
        place.mkdir(exist_ok=True)
        run.write_job(job, place)
    return place, run.tracker_of(job, place, parent=folder)


def _train(
    jobs: Sequence[Job], parts: Sequence[Part], folder: Path, progress: Callable[[int], None]
) -> list[Failed | None]:
    """Train, and keep what each trial has to show."""
    done = sum(tracker.reported for _, tracker in parts)

    def listener(tracker: track.Tracker) -> trial.Listener:
        def listen(iteration: int, metrics: dict[str, float]) -> None:
            nonlocal done
            done += 1
            tracker.metrics(iteration, metrics)
            progress(done)

        return listen

    plans = [
        trial.Planned(job, listener(tracker), tracker.reported)
        for job, (_, tracker) in zip(jobs, parts, strict=True)
    ]
    try:
        return trial.train(plans, folder)
    finally:  # also of a sweep that was stopped
        for number, (job, (place, tracker)) in enumerate(zip(jobs, parts, strict=True)):
            if trial.finished(job, folder, number) and not (place / run.TABLE).exists():
                run.keep(job, place, trial.final_state(folder, number), tracker)


def _rows(
    trainer: str,
    tried: Sequence[dict[str, Any]],
    parts: Sequence[Part],
    ended: Sequence[Failed | None],
) -> list[dict[str, Any]]:
    """One row a trial, the best first."""
    rows = []
    for number, chosen in enumerate(tried):
        score = None
        if ended[number] is None:
            table = (parts[number][0] / run.TABLE).read_text()
            score = TRAINERS[trainer].score(json.loads(table))
        rows.append({"trial": number, **chosen, "score": score})
    return sorted(rows, key=lambda row: (row["score"] is None, -(row["score"] or 0.0)))


def _keep(folder: Path, rows: list[dict[str, Any]], tracker: track.Tracker) -> None:
    write_text(folder / run.TABLE, json.dumps(rows, indent=1) + "\n")
    tracker.artifact(folder / run.TABLE)
    if scored := [row for row in rows if row["score"] is not None]:
        figures.save({"parallel": figures.parallel(scored)}, folder / "figures")
        tracker.artifact(folder / "figures", "figures")
