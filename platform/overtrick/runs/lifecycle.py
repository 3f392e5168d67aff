"""A run from its job to its record: train, judge, draw, keep; and go on after a kill."""

from __future__ import annotations

import fcntl
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtrick.config import job_file
from overtrick.config.job_file import BaseJob, Job
from overtrick.core import Array, Trainer, UserError, nearest
from overtrick.core.files import write_text
from overtrick.distributed.workers import (
    LocalPool,
    RngStream,
    WorkerPool,
    generator,
    start_pool,
    start_ray,
)
from overtrick.games import registry
from overtrick.reports import figures
from overtrick.runs import html_page, provenance, tune_trial, videos
from overtrick.serving import predictor
from overtrick.storage import locate, model_files
from overtrick.storage.locate import TRIALS
from overtrick.tracking import mlflow_tracker, model_versions, server_address
from overtrick.training.registry import JOBS, TRAINERS

Progress = Callable[[int, Mapping[str, float]], None]
TABLE = html_page.TABLE  # what a run came to
GOES_ON = {"run": "train", "sweep": "sweep", "table": "evaluate"}
"""What a folder of runs may hold, and the command that goes on with it."""


@dataclass(frozen=True)
class Finished:
    """A run that reached its last iteration."""

    folder: Path
    unit: str  # of a point of payoff
    seconds: float  # of training, in this process
    metrics: dict[str, float]  # of the last iteration
    rows: list[dict[str, Any]]  # the table of the evaluation
    undelivered: str  # what MLflow has not taken and why; it waits in the run's folder
    rejected: int  # events that MLflow will never take


def new_folder(name: str) -> Path:
    """A fresh folder for a run of this name."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for attempt in range(100):
        folder = locate.home() / (f"{name}-{stamp}" + (f"-{attempt}" if attempt else ""))
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise UserError(f"{locate.home()} already holds 100 runs named {name}-{stamp}")


def find(run: str) -> Path:
    """The folder of a run by its name or path. Raises UserError with the nearest name."""
    folder = locate.run_of(run)
    if folder is None:
        known = locate.runs()
        hint = f": did you mean '{nearest(run, known)}'?" if known else ""
        raise UserError(f"no run '{run}' in {locate.home()}{hint}")
    return folder


def check(job: Job) -> None:
    """Raise UserError now for what would only fail later."""
    TRAINERS[job.trainer].validate(job)
    videos.check(job)
    server_address.check(job.track.uri, experiment=job.track.experiment)


def kind_of(folder: Path) -> tuple[str, Path]:
    """What a folder holds, of `GOES_ON`, and the folder of the whole if it is only a part."""
    above = folder.parent.parent
    whole = above if (above / TRIALS).exists() else folder
    if not (whole / TRIALS).exists():
        return "run", whole
    trainer = json.loads((whole / "job.json").read_text()).get("trainer")
    return "sweep" if trainer in TRAINERS else "table", whole


def check_kind(folder: Path, kind: str) -> None:
    """Raise UserError, naming the command to continue it, if a folder holds another kind."""
    found, whole = kind_of(folder)
    if found != kind or whole != folder:
        how = f"`overtrick {GOES_ON[found]} --resume {whole.name}`"
        raise UserError(f"{whole.name} is a {found}: {how}")


def open_folder(job: BaseJob, name: str, parts: bool = False) -> Path:
    """A fresh folder that holds the job, and a folder for its parts if it will have any."""
    folder = new_folder(name)
    write_job(job, folder)
    if parts:
        (folder / TRIALS).mkdir()
    return folder


def write_job(job: BaseJob, folder: Path) -> None:
    """Write down what a run is to do."""
    plain = json.dumps(job.model_dump(mode="json"), indent=1)
    write_text(folder / "job.json", plain + "\n")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else works on this run meanwhile. Raises UserError if another process is at it."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # freed however this process ends
        except OSError:
            raise UserError(f"run {folder.name} is still going on in another process") from None
        yield


def go(folder: Path, progress: Progress) -> Finished:
    """Train the job of a folder to its end, from wherever its checkpoints and record stand.

    Raises UserError if another process is at it, or if it is a sweep, a table, or a part of one.
    """
    check_kind(folder, "run")
    job = read_job(folder)
    with locked(folder):
        began = time.perf_counter()
        tracker = tracker_of(job, folder)
        with html_page.ending(folder, tracker, tracker.close):
            told = videos.listener(job, folder, 0, tracker)

            def listen(iteration: int, metrics: dict[str, float]) -> None:
                told(iteration, metrics)
                progress(iteration, metrics)

            (failed,) = tune_trial.train(
                [tune_trial.Planned(job, listen, tracker.reported)], folder
            )
            if failed is not None:
                raise failed
            seconds = time.perf_counter() - began
            rows = keep(job, folder, tune_trial.final_state(folder), tracker)
        undelivered = tracker.close("FINISHED")
    unit = registry.evaluation_game(registry.make(job.game.name, **job.game.options)).unit
    missing = f"{undelivered} events: {tracker.error}" if undelivered else ""
    _, last = tracker.history()[-1]
    return Finished(folder, unit, seconds, last, rows, missing, tracker.rejected)


def tracker_of(job: BaseJob, folder: Path, parent: Path | None = None) -> mlflow_tracker.Tracker:
    """The record of a run in MLflow; a new one is told of the job first."""
    plain = job.model_dump(mode="json")
    tags = provenance.tags(job.trainer, job.game.name) | locate.tags(plain)
    tracker = mlflow_tracker.Tracker(
        job.track.uri, job.track.experiment, folder.name, folder, tags, parent
    )
    if not tracker.reported:
        tracker.params(provenance.flat(plain))
        tracker.artifact(folder / "job.json")
    html_page.tell(folder, tracker)
    return tracker


def judge(what: str, workers: int) -> tuple[list[dict[str, Any]], str, str]:
    """The table of a stored model again, its game and the unit. Raises UserError."""
    folder = model_of(what)
    stored = model_files.load(folder)
    job = job_file.parse(stored.job, JOBS, f"{folder / model_files.CARD}")
    game = registry.make(job.game.name, **job.game.options)
    if model_files.plays(stored.weights):
        model_files.policy(folder, game)  # refuses weights of another shape
    with crew_of(workers) as crew:
        rng = generator(job.seed, RngStream.JUDGE)
        rows = TRAINERS[job.trainer].evaluate_model(job, stored.weights, crew, rng)
    return rows, stored.game, registry.evaluation_game(game).unit


def register(what: str, name: str, alias: str | None) -> int:
    """Let the model of a run stand in the registry of its MLflow under a name, and an alias if one
    is given; its version. Raises UserError."""
    model_versions.check_names(name, alias)
    folder = find(what)
    job, run_id = read_job(folder), mlflow_tracker.run_id(folder)
    server_address.check(job.track.uri, there=True)
    if run_id is None:
        raise UserError(
            f"MLflow at {job.track.uri} does not know {folder.name}: "
            f"`overtrick train --resume {folder.name}` tells it"
        )
    with mlflow_tracker.asking(job.track.uri) as client:
        return model_versions.register(client, run_id, name, alias)


def model_of(what: str) -> Path:
    """The folder of a model, of the model of a run, or of a registered one. Raises UserError."""
    folder = locate.locate(what)
    if not (folder / model_files.CARD).exists():
        find(what)  # a run would have been located: this names the nearest one
    return folder


@contextmanager
def crew_of(workers: int) -> Iterator[WorkerPool]:
    """So many workers on Ray, or none in this process; they go when the work is done."""
    if workers:
        start_ray([{"CPU": 1.0}] * workers)
    crew = start_pool(workers)
    try:
        yield crew
    finally:
        crew.close()


def keep(
    job: Job, folder: Path, state: Mapping[str, Array], tracker: mlflow_tracker.Tracker
) -> list[dict[str, Any]]:
    """Write the model, its figures and its table from the trainer's last state; MLflow gets all."""
    report = keep_model(job, folder, state, tracker).report(tracker.history())
    figures.save(report.figures, folder / "figures")
    tracker.artifact(folder / "figures", "figures")
    keep_table(folder, report.rows, tracker)
    html_page.keep(folder, tracker)
    return report.rows


def keep_model(
    job: Job, folder: Path, state: Mapping[str, Array], tracker: mlflow_tracker.Tracker
) -> Trainer:
    """Write the model of a trainer's last state; the trainer."""
    here = job.resources.model_copy(update={"gpus": 0.0})  # this machine may have none
    trainer = TRAINERS[job.trainer].trainer(job.model_copy(update={"resources": here}), LocalPool())
    trainer.load(state)
    place = folder / mlflow_tracker.MODEL
    model_files.save(
        model_files.Model(trainer.model(), job.game.name, job.model_dump(mode="json")), place
    )
    try:
        tracker.model(place, predictor.told(place))
    except UserError as error:  # no player by itself, or weights that are no numbers
        logging.getLogger(__name__).info("MLflow gets %s as files: %s", place, error)
        tracker.artifact(place, mlflow_tracker.MODEL)
    if job.track.register is not None:
        tracker.register(job.track.register)
    videos.keep(job, state, tracker)
    return trainer


def keep_table(folder: Path, rows: Any, tracker: mlflow_tracker.Tracker) -> None:
    """Write what a run came to, which says that it is done."""
    write_text(folder / TABLE, json.dumps(rows, indent=1) + "\n")
    tracker.artifact(folder / TABLE)
    html_page.tell(folder, tracker)


def read_job(folder: Path) -> Job:
    """The job of a run. Raises UserError if its file is damaged."""
    return job_file.load_stored(folder, JOBS)
