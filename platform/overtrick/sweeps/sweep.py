"""A job trained in the ways that its `search` names, as one run with parts."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.config.overrides import set_value
from overtrick.config.search_space import Chosen
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool, generator
from overtrick.distributed.workers import RngStream as Key
from overtrick.games import registry
from overtrick.reports import figures, learning_curves
from overtrick.reports.metric_names import opponent_label as label_of
from overtrick.runs import group, lifecycle, tune_trial
from overtrick.sweeps import pbt
from overtrick.sweeps.asha import Asha, sound
from overtrick.training import scores
from overtrick.training.registry import JOBS, TRAINERS

SHARED = ("trainer", "checkpoints", "track", "search")
"""Keys that cannot differ between the trials of a sweep."""
DECISIONS = "halving.jsonl"  # the scores by which trials were stopped


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
    """The iterations of all trials. Raises UserError for what would only fail later."""
    search = job.search
    for key in search.tries:
        if key.partition(".")[0] in SHARED:
            raise UserError(f"search of '{key}' in {source}: all trials of a sweep share it")
    if search.method in ("asha", "pbt"):
        _check_decisions(job, source)
    made = trials_of(job, source)
    for _, each in made:
        lifecycle.check(each)
    if search.method == "pbt":
        _check_copies(job, [each for _, each in made], source)
    return sum(each.stop.iterations for _, each in made)


def _check_decisions(job: Job, source: str) -> None:
    """Raise UserError where trials that are compared before the end could not be."""
    search = job.search
    said = f"search.method {search.method} in {source}"
    if "stop.iterations" in search.tries:
        raise UserError(
            f"{said} compares trials at equal iterations: do not search stop.iterations"
        )
    if search.metric is None and TRAINERS[job.trainer].progress_score is None:
        raise UserError(f"{said}: {job.trainer} measures no score on its way: name a search.metric")
    name, first = (
        ("grace_period", _grace(job))
        if search.method == "asha"
        else ("perturbation_interval", _every(job))
    )
    least = 1 if search.metric else _measured_every(job)
    if not least <= first < job.stop.iterations:
        raise UserError(
            f"search.{name} {first} in {source} must be {least} (evaluate.every, or 1) to "
            f"{job.stop.iterations - 1} (below stop.iterations)"
        )


def _check_copies(job: Job, jobs: Sequence[Job], source: str) -> None:
    """Raise UserError if a trial could not go on from what another has learnt."""
    first: dict[str, tuple[int, ...]] | None = None
    for each in jobs:
        trainer = TRAINERS[each.trainer].trainer(each, LocalPool())
        shapes = {name: array.shape for name, array in trainer.state().items()}
        trainer.close()
        first = first or shapes
        if shapes != first:
            raise UserError(
                f"search.method pbt in {source}: {' and '.join(job.search.drawn)} make trainers of "
                "different shapes, which cannot copy each other: use random or asha"
            )


def trials_of(job: Job, source: str) -> list[tuple[Chosen, Job]]:
    """What each trial of a sweep tries, and the job that it makes. Drawn from the job's seed.

    source is named in errors. Raises UserError for an empty search, or values that make no job.
    """
    if not job.search.tries:
        raise UserError(f"{source} has no search: name keys, such as 'seed: {{grid: [0, 1]}}'")
    tried = job.search.chosen(lambda k: generator(job.seed, Key.SEARCH, k))
    return [(chosen, _job_of(job, source, chosen)) for chosen in tried]


def _job_of(job: Job, source: str, chosen: Chosen) -> Job:
    """The job with other values by dotted key. Raises UserError if that is none."""
    game = {"name": job.game.name, **job.game.options}
    content = job.model_dump(mode="json") | {"game": game, "search": {}}
    for key, value in chosen.items():
        set_value(content, key, value, f"search of '{key}' in {source}")
    return job_file.parse(content, JOBS, f"{source} with {chosen}")


def go(folder: Path, progress: Callable[[int], None]) -> Swept:
    """Train what is left to train of a sweep; each trial becomes a run of its own in `trials/`.

    progress is told of the iterations done by all trials. Raises UserError if the folder holds no
    sweep or another process is at it.
    """
    lifecycle.check_kind(folder, "sweep")
    job = lifecycle.read_job(folder)
    source = str(folder / "job.json")
    made = trials_of(job, source)
    began = time.perf_counter()
    with group.at_work(folder, job, [each for _, each in made]) as whole:
        rows = _train(job, source, [chosen for chosen, _ in made], whole, progress)
        _keep(job, rows, whole)
    return Swept(folder, rows, whole.failed, time.perf_counter() - began, whole.undelivered)


def _train(
    job: Job,
    source: str,
    tried: Sequence[Chosen],
    whole: group.RunGroup,
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """Train by the method of the search; a row a trial, the best first."""
    search, jobs = job.search, [part.job for part in whole.parts]
    measure = TRAINERS[job.trainer].progress_score or _nothing
    if search.metric is not None:
        measure = scores.named(search.metric)
    keep = functools.partial(_keep_trial, whole.folder)
    more: Sequence[dict[str, Any]] = [{} for _ in tried]
    if search.method == "pbt":
        job_of = functools.partial(_job_of, job, source)
        every = _every(job)
        history = pbt.train(job, tried, job_of, measure, every, whole, progress, keep)
        tried = [each["values"] for each in history[-1]]
        more = [{"schedule": pbt.of_trial(history, n, every)} for n in range(len(tried))]
    elif search.method == "asha":
        halving = Asha(whole.folder / DECISIONS, _grace(job), search.reduction_factor, measure)
        whole.train(jobs, progress, keep, halving)
        more = [
            {"iterations": part.tracker.reported, "stopped": part.number in halving.stopped_at()}
            for part in whole.parts
        ]
    else:
        whole.train(jobs, progress, keep)
    return _rows(job.trainer, tried, whole, more)


def _nothing(metrics: Mapping[str, float]) -> None:
    """Nobody looks at these metrics on the way."""


def _measured_every(job: Job) -> int:
    """Iterations between measurements of the trainer's score."""
    return job.evaluation.every if job.evaluation is not None else 1


def _grace(job: Job) -> int:
    """Iterations before halving stops the first trials."""
    return job.search.grace_period or _measured_every(job)


def _every(job: Job) -> int:
    """Iterations between the copies of population based training: ten rounds, if nobody says."""
    return job.search.perturbation_interval or max(
        _measured_every(job), job.stop.iterations // 10, 1
    )


def _keep_trial(folder: Path, part: group.ChildRun) -> None:
    """What a trial has to show."""
    if not (part.place / lifecycle.TABLE).exists():
        lifecycle.keep(
            part.job, part.place, tune_trial.final_state(folder, part.number), part.tracker
        )


def _rows(
    trainer: str, tried: Sequence[Chosen], whole: group.RunGroup, more: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One row a trial, the best first; without a score if it failed, was stopped or diverged."""
    rows = []
    for chosen, part, each in zip(tried, whole.parts, more, strict=True):
        score, table = None, part.place / lifecycle.TABLE
        if table.exists():
            told = sound(TRAINERS[trainer].table_score(json.loads(table.read_text())))
            score = told if told > -math.inf else None
        rows.append({"trial": part.number, **chosen, **each, "score": score})
    return sorted(
        rows,
        key=lambda r: (r["score"] is None, -(r["score"] or 0.0), -r.get("iterations", 0)),
    )


def _keep(job: Job, rows: list[dict[str, Any]], whole: group.RunGroup) -> None:
    folder, tracker = whole.folder, whole.tracker
    lifecycle.keep_table(folder, rows, tracker)
    if scored := [row for row in rows if row["score"] is not None]:
        drawn = {"parallel": figures.parallel(_shown(rows), list(job.search.tries))}
        if job.search.method != "pbt":  # whose trials end with other values than they began
            drawn |= _bands(job, scored, whole)
        figures.save(drawn, folder / "figures")
        tracker.artifact(folder / "figures", "figures")


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of trials that did not fail."""
    return [row for row in rows if row["score"] is not None or row.get("stopped")]


def _bands(job: Job, scored: list[dict[str, Any]], whole: group.RunGroup) -> dict[str, Figure]:
    """Learning curves, mean and band over seeds, for each combination of the other keys; with one
    other key that is a number, also what its value does in the end. Of card play the shares of
    contracts and of decisions recognised, for one seed too."""
    others = [key for key in job.search.tries if key != "seed"]
    unit = registry.evaluation_game(registry.make(job.game.name, **job.game.options)).unit
    histories: dict[str, list[learning_curves.History]] = {}
    payoffs: dict[str, dict[float, list[float]]] = {}
    for row in sorted(scored, key=lambda row: row["trial"]):
        part = whole.parts[row["trial"]]
        label = ", ".join(f"{key.rpartition('.')[2]} {row[key]}" for key in others)
        histories.setdefault(label, []).append(part.tracker.history())
        for met in json.loads((part.place / lifecycle.TABLE).read_text()):
            if len(others) == 1 and "steps" in met and isinstance(row[others[0]], (int, float)):
                by = payoffs.setdefault(label_of(met["stranger"]), {})
                by.setdefault(row[others[0]], []).append(met["steps"][-1])
    drawn = {}
    if learning_curves.of_card_play(histories):
        drawn["recognition"] = learning_curves.recognition(histories, job.evaluate.deals)  # type: ignore[attr-defined]
    if "seed" not in job.search.tries:
        return drawn
    if learning_curves.curves_of(histories, unit):
        drawn["bands"] = learning_curves.learning(histories, unit)
    if payoffs:
        drawn["by_value"] = learning_curves.by_value(payoffs, others[0], unit)
    return drawn
