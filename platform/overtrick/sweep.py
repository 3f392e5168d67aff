"""A job trained with every combination of what its `search` names, as one run with parts."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from overtrick import config, curves, figures, games, parts, run, trial
from overtrick.config import Job
from overtrick.core import Refused
from overtrick.figures import label as label_of
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
    made = grid(job, source)
    for _, each in made:
        run.check(each)
    return sum(each.stop.iterations for _, each in made)


def grid(job: Job, source: str) -> list[tuple[dict[str, Any], Job]]:
    """Every combination of what a job's `search` names, and the job that it makes.

    source is named in errors. Raises Refused for an empty search, or a combination that is no job.
    """
    if not job.search:
        raise Refused(f"{source} has no search: name keys, such as 'seed: {{grid: [0, 1]}}'")
    made = []
    for values in itertools.product(*(search.grid for search in job.search.values())):
        chosen = dict(zip(job.search, values, strict=True))
        game = {"name": job.game.name, **job.game.options}
        content = job.model_dump(mode="json") | {"game": game, "search": {}}
        for key, value in chosen.items():
            config.put(content, key, value, f"search of '{key}' in {source}")
        made.append((chosen, config.parse(content, JOBS, f"{source} with {chosen}")))
    return made


def go(folder: Path, progress: Callable[[int], None]) -> Swept:
    """Train what is left to train of a sweep; each trial becomes a run of its own in `trials/`.

    progress is told of the iterations done by all trials. Raises Refused if the folder holds no
    sweep or another process is at it.
    """
    run.check_kind(folder, "sweep")
    job = run.read_job(folder)
    made = grid(job, str(folder / "job.json"))
    began = time.perf_counter()
    jobs = [each for _, each in made]
    with parts.at_work(folder, job, jobs) as whole:
        whole.train(jobs, progress, lambda part: _keep_trial(folder, part))
        rows = _rows(job.trainer, [chosen for chosen, _ in made], whole)
        _keep(job, rows, whole)
    return Swept(folder, rows, whole.failed, time.perf_counter() - began, whole.undelivered)


def _keep_trial(folder: Path, part: parts.Part) -> None:
    """What a trial has to show."""
    if not (part.place / run.TABLE).exists():
        run.keep(part.job, part.place, trial.final_state(folder, part.number), part.tracker)


def _rows(
    trainer: str, tried: Sequence[dict[str, Any]], whole: parts.Whole
) -> list[dict[str, Any]]:
    """One row a trial, the best first."""
    rows = []
    for chosen, part, failed in zip(tried, whole.parts, whole.ended, strict=True):
        score = None
        if failed is None:
            score = TRAINERS[trainer].score(json.loads((part.place / run.TABLE).read_text()))
        rows.append({"trial": part.number, **chosen, "score": score})
    return sorted(rows, key=lambda row: (row["score"] is None, -(row["score"] or 0.0)))


def _keep(job: Job, rows: list[dict[str, Any]], whole: parts.Whole) -> None:
    folder, tracker = whole.folder, whole.tracker
    run.keep_table(folder, rows, tracker)
    if scored := [row for row in rows if row["score"] is not None]:
        drawn = {"parallel": figures.parallel(scored)} | _bands(job, scored, whole)
        figures.save(drawn, folder / "figures")
        tracker.artifact(folder / "figures", "figures")


def _bands(job: Job, scored: list[dict[str, Any]], whole: parts.Whole) -> dict[str, Figure]:
    """Learning curves, mean and band over seeds, for each combination of the other keys; with one
    other key that is a number, also what its value does in the end. Of card play the shares of
    contracts and of decisions recognised, for one seed too."""
    others = [key for key in job.search if key != "seed"]
    unit = games.scored(games.make(job.game.name, **job.game.options)).unit
    histories: dict[str, list[curves.History]] = {}
    payoffs: dict[str, dict[float, list[float]]] = {}
    for row in sorted(scored, key=lambda row: row["trial"]):
        part = whole.parts[row["trial"]]
        label = ", ".join(f"{key.rpartition('.')[2]} {row[key]}" for key in others)
        histories.setdefault(label, []).append(part.tracker.history())
        for met in json.loads((part.place / run.TABLE).read_text()):
            if len(others) == 1 and "steps" in met and isinstance(row[others[0]], (int, float)):
                by = payoffs.setdefault(label_of(met["stranger"]), {})
                by.setdefault(row[others[0]], []).append(met["steps"][-1])
    drawn = {}
    if curves.of_card_play(histories):
        drawn["recognition"] = curves.recognition(histories, job.evaluate.deals)  # type: ignore[attr-defined]
    if "seed" not in job.search:
        return drawn
    if curves.curves_of(histories, unit):
        drawn["bands"] = curves.learning(histories, unit)
    if payoffs:
        drawn["by_value"] = curves.by_value(payoffs, others[0], unit)
    return drawn
