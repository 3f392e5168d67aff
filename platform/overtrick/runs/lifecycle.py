"""Create, train, evaluate and register runs, and store their results.

A stopped run continues from its newest checkpoint.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtrick.config import job_file
from overtrick.config.job_file import BaseJob, Job
from overtrick.core import Array, Trainer, UserError, structured_log, tracing
from overtrick.core.files import write_text
from overtrick.distributed.workers import RngStream, generator, open_pool
from overtrick.games import registry
from overtrick.reports import figures, metric_names
from overtrick.runs import html_page, provenance, videos
from overtrick.runs.best_model import BestModel
from overtrick.runs.folder_kind import check_kind, check_one_job
from overtrick.runs.listener import Listener, combined
from overtrick.serving import predictor
from overtrick.storage import bucket_copy, job_inputs, locate, model_files
from overtrick.storage.run_folder import RunFolder, TrialCheckpoints
from overtrick.tracking import event_delivery, mlflow_tracker, model_versions, server_address
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.registry import JOBS, TRAINERS, restored_trainer

log = logging.getLogger(__name__)
EVALUATION = "evaluation.json"  # the results table as a table of MLflow


@dataclass(frozen=True)
class FinishedRun:
    """A run that reached its last iteration."""

    folder: RunFolder
    unit: str  # unit of payoffs
    seconds: float  # of training, in this process
    metrics: dict[str, float]  # of the last iteration
    rows: list[dict[str, Any]]  # the results table
    undelivered: str  # number of events not sent to MLflow, and the error; empty if all were sent
    rejected: int  # number of events that MLflow rejected


def new_folder(name: str) -> RunFolder:
    """Create an empty folder for a run, named after `name` and the current time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for attempt in range(100):
        folder = locate.new_folder(f"{name}-{stamp}" + (f"-{attempt}" if attempt else ""))
        if locate.find_by_name(folder.name) is None:
            with suppress(FileExistsError):
                folder.mkdir(parents=True)
                return RunFolder(folder)
    raise UserError(f"{locate.runs_location()} already holds 100 runs named {name}-{stamp}")


def check_job(job: Job) -> None:
    """Raise UserError for a job that would otherwise fail only after training has begun."""
    registry.check_installed(registry.make(job.game.name, **job.game.options))
    TRAINERS[job.trainer].validate(job)
    videos.check_videos(job)
    server_address.check(job.track.uri, experiment=job.track.experiment)


def open_folder(
    job: BaseJob, name: str, children: bool = False, run_name: str | None = None
) -> RunFolder:
    """Create a run's folder, named after `name` and the current time, and write the job file.

    `children`: also create the folder for child runs. `run_name`: the name of the folder, instead.
    If a run of this name with the same job exists, its folder is returned, so that it continues.
    Raises UserError if a folder of this name is something else.
    """
    run = new_folder(name) if run_name is None else _named_folder(job, run_name, children)
    if children:
        run.children.mkdir(exist_ok=True)
    if not run.job.exists():
        write_job(job, run)
        bucket_copy.create_run(run.path)
    return run


def _named_folder(job: BaseJob, name: str, children: bool) -> RunFolder:
    """Return the folder of the run with this name; create it if there is none."""
    run = locate.find_by_name(name)
    if run is None:
        run = RunFolder(locate.new_folder(name))
        bucket_copy.delete_stale_copy(run.path)
    if run.path.exists() and not run.path.is_dir():
        raise UserError(f"{run.path} is not a run: choose another --name")
    run.path.mkdir(parents=True, exist_ok=True)
    other = f"choose another --name; `overtrick resume {name}` continues {name}"
    if not run.job.exists():
        others = (path.name for path in run.path.iterdir() if not path.name.startswith("."))
        if any(name != run.children.name for name in others):
            raise UserError(f"{run.path} is not a run: choose another --name")
    elif run.children.exists() != children:
        raise UserError(f"run {name} exists, but is not of this command: {other}")
    elif different := _differences(run.read_job(), job.model_dump(mode="json")):
        raise UserError(f"run {name} exists with another job ({different[0]} differs): {other}")
    return run


def _differences(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys in which two jobs differ, other than the address of MLflow."""
    one, two = (provenance.dotted(content) for content in (stored, asked))
    keys = (key for key in {**one, **two} if key != "track.uri")
    return sorted(key for key in keys if one.get(key) != two.get(key))


def write_job(job: BaseJob, run: RunFolder) -> None:
    """Write the job file of a run."""
    write_text(run.job, json.dumps(job.model_dump(mode="json"), indent=1) + "\n")


def read_job(run: RunFolder) -> Job:
    """Read the job of a run.

    Raises UserError if its file is damaged, and for a comparison of methods.
    """
    check_one_job(run)
    return job_file.load_stored(run, JOBS)


@contextmanager
def locked(run: RunFolder) -> Iterator[None]:
    """Context manager that locks a run for this process.

    For a run in a bucket, the process also holds the run's lease, and uploads all changes at the
    end. Raises UserError if another process works on the run, RunError if the lease was lost.
    """
    with run.lock.open("w") as lock:
        for pause in (0.1, 0.5, None):  # `overtrick list` holds a lock for a moment
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # freed however this process ends
                break
            except OSError:
                if pause is None:
                    line = f"run {run.name} is still going on in another process"
                    raise UserError(line) from None
                time.sleep(pause)
        structured_log.label(run.name)
        with tracing.span("run", run=run.name), bucket_copy.leased(run.path):
            yield


def train(run: RunFolder, progress: Listener) -> FinishedRun:
    """Train a run from its newest checkpoint to its last iteration, and store its results.

    `progress`: called with each iteration and its metrics. Raises UserError if another process
    works on the run, or if `run` is a sweep, a comparison, or a child run.
    """
    from overtrick.runs import tune_trial  # Tune takes a second to import

    check_kind(run, "run")
    job = read_job(run)
    with locked(run):
        began = time.perf_counter()
        tracker = open_tracker(job, run)
        with html_page.reporting_failure(run, tracker, tracker.close):
            listener = combined(tracked(job, run.checkpoints(), tracker), progress)
            planned = tune_trial.PlannedTrial(job, listener, tracker.reported)
            (failed,) = tune_trial.train([planned], run)
            if failed is not None:
                raise failed
            seconds = time.perf_counter() - began
            rows = save_results(job, run, run.checkpoints(), tracker)
        undelivered = tracker.close("FINISHED")
    missing = f"{undelivered} events: {tracker.error}" if undelivered else ""
    history = run.history()  # empty if somebody has damaged the record of a finished run
    last = history[-1][1] if history else {}
    unit = registry.payoff_unit(job.game.name, job.game.options)
    return FinishedRun(run, unit, seconds, last, rows, missing, tracker.rejected)


def tracked(
    job: Job, checkpoints: TrialCheckpoints, tracker: Tracker, until: int | None = None
) -> Listener:
    """Return a listener that sends a trial's metrics to MLflow and makes videos of its model.

    It also logs each iteration. Before each checkpoint it uploads the files of a run in a bucket,
    so that a checkpoint there never lacks the metrics of its iterations. `until`: the iteration at
    which training stops, with a checkpoint; None: the job's last.
    """
    last = job.stop.iterations if until is None else until
    folder = RunFolder(tracker.folder)

    def upload(iteration: int, metrics: dict[str, float]) -> None:
        if iteration % job.checkpoints.every == 0 or iteration >= last:
            bucket_copy.push(tracker.folder)

    def write_line(iteration: int, metrics: dict[str, float]) -> None:
        named = {"run": folder.group.name, "trial": folder.number}
        more = {**named, "iteration": iteration, "metrics": metrics}
        log.info("%s: iteration %d", folder.name, iteration, extra=more)

    listeners = tracker.metrics, videos.listener(job, checkpoints, tracker), upload, write_line
    return combined(*listeners)


def open_tracker(
    job: BaseJob, run: RunFolder, parent: RunFolder | None = None, name: str | None = None
) -> Tracker:
    """Open the MLflow record of a run. If it is new, send the job and the data sets that it reads.

    `parent`: for a child run, the sweep or comparison that it belongs to. `name`: of the run in
    MLflow; None: that of its folder.
    """
    content = job.model_dump(mode="json")
    tags = provenance.run_tags(job.trainer, job.game_names)
    for number, each in enumerate(job_inputs.model_inputs(content), 1):
        tags[f"{mlflow_tracker.MODEL_TAG}{number}"] = json.dumps(each._asdict())
    above = None if parent is None else parent.path
    track = job.track
    record = track.uri, track.experiment, name or run.name, run.path, tags, above
    tracker = Tracker(*record, system_metrics=track.system_metrics and parent is None)
    if not tracker.reported:
        tracker.params(provenance.dotted(content))
        for dataset in job_inputs.dataset_inputs(content):
            tracker.dataset(dataset.path, dataset.kind, dataset.rows, dataset.digest)
        tracker.artifact(run.job)
    html_page.update_description(run, tracker)
    return tracker


def evaluate_stored(name: str, workers: int) -> tuple[list[dict[str, Any]], str, str]:
    """Evaluate a stored model again with the evaluation settings of the job that trained it.

    `name`: a path, the name of a run, or the registered name of a model. `workers`: number of Ray
    workers that play the games; 0: this process plays. Returns the rows of the results table, the
    name of the game, and the unit of payoffs. Raises UserError.
    """
    folder = locate.existing_model(name)
    stored = model_files.load(folder)
    job = job_file.parse_stored(stored.job, JOBS, f"{folder / model_files.CARD}")
    game = registry.make(job.game.name, **job.game.options)
    if model_files.plays(stored.weights):
        model_files.policy(folder, game)  # raises UserError for weights of another shape
    with open_pool(workers) as pool:
        rng = generator(job.seed, RngStream.EVALUATE)
        trainer = TRAINERS[job.trainer]
        rows = trainer.evaluate_model(job, stored.weights, pool, rng)
        rows = trainer.with_best_responses(job, rows, pool if workers else None)
    return rows, stored.game, registry.evaluation_game(game).unit


def register(name: str, model: str, alias: str | None, best: bool = False) -> int:
    """Register a model of a run in MLflow's model registry and return its version.

    A model that is already registered keeps its version. `name`: the run. `model`: the name of the
    registered model. `alias`: an alias of that model, which is moved to that version; None: no
    alias. `best`: register the model with the best score in training, which may be the last one.
    Raises UserError.
    """
    model_versions.check_names(model, alias)
    run = locate.existing_run(name)
    uri = read_job(run).track.uri
    server_address.check(uri, must_exist=True)
    if run.run_id is None:
        sent = run.group.short_name(locate.runs_location())
        remedy = f"`overtrick resume {sent}` sends it"
        raise UserError(f"MLflow at {uri} does not know {run.name}: {remedy}")
    logged = event_delivery.MODEL
    if best and run.best_model.exists():
        logged = event_delivery.BEST_MODEL
    elif best:
        _check_last_is_best(run)
    with mlflow_tracker.command_client(uri) as client:
        return model_versions.register(client, run.run_id, model, alias, logged)


def _check_last_is_best(run: RunFolder) -> None:
    """Raise UserError unless the last model of a run is known to have the best score.

    The run has no folder of a best model.
    """
    if not run.table.exists():
        raise UserError(f"{run.name} is not finished: `overtrick resume {run.group.name}` ends it")
    checkpoints = run.group.checkpoints(run.number or 0)
    best = {} if checkpoints.newest() is None else checkpoints.state_and_best()[1]
    if BestModel.of_state(best).weights is None:
        raise UserError(
            f"the best model of {run.name} was not kept: checkpoints.best of its job is false, its "
            "trainer has no score in training, an earlier version trained it, or its checkpoints "
            "are gone; leave out --best"
        )


def save_results(
    job: Job, run: RunFolder, checkpoints: TrialCheckpoints, tracker: Tracker
) -> list[dict[str, Any]]:
    """Store models, figures, results table and HTML report of a trained run; send them to MLflow.

    MLflow also gets the run's score, under one name for all trainers. `checkpoints`: of the run;
    the newest is that of the last iteration. Returns the rows of the results table.
    """
    report = save_models(job, run, checkpoints, tracker).report(run.history())
    save_figures(report.figures, run, tracker)
    save_table(run, report.rows, tracker)
    score = TRAINERS[job.trainer].table_score(list(report.rows))
    if math.isfinite(score):
        tracker.result({metric_names.SCORE: score})
    html_page.save_page(run, tracker)
    bucket_copy.push(run.path)
    return list(report.rows)


def save_figures(drawn: Mapping[str, Any], run: RunFolder, tracker: Tracker) -> None:
    """Store figures in a run's folder and in MLflow. `drawn`: maps names to figures."""
    figures.save(drawn, run.figures)
    tracker.artifact(run.figures, run.figures.name)


def save_models(
    job: Job, run: RunFolder, checkpoints: TrialCheckpoints, tracker: Tracker
) -> Trainer:
    """Store the last model and the best model of a trained run in its folder and in MLflow.

    The best model is that with the best score in training. It is not stored if it is the last one.
    `checkpoints`: of the run; the newest is that of the last iteration. Returns the trainer, loaded
    with its state. Also registers the last model in MLflow and makes a video, if the job asks for
    them.
    """
    state, best_state = checkpoints.state_and_best()
    trainer, best = restored_trainer(job, state), BestModel.of_state(best_state)
    if best.weights is not None and best.iteration != trainer.iteration:
        name = event_delivery.BEST_MODEL
        _save_model(job, name, best.iteration, best.weights, run.best_model, tracker)
    name = event_delivery.MODEL
    _save_model(job, name, trainer.iteration, trainer.model(), run.model, tracker)
    if job.track.register is not None:
        tracker.register(job.track.register)
    videos.save_video(job, state, tracker)
    return trainer


def _save_model(
    job: Job,
    name: str,
    iteration: int,
    weights: Mapping[str, Array],
    folder: Path,
    tracker: Tracker,
) -> None:
    """Store the model of an iteration in a folder and in MLflow. `name`: its name in MLflow."""
    model = model_files.Model(dict(weights), job.game.name, job.model_dump(mode="json"))
    folder.parent.mkdir(exist_ok=True)
    model_files.save(model, folder)
    try:
        tracker.model(folder, predictor.mlflow_description(folder), iteration, name)
    except UserError as error:  # not servable on single observations, or weights are not finite
        log.info("MLflow gets %s as files: %s", folder, error)
        tracker.artifact(folder, str(folder.relative_to(tracker.folder)))


def save_table(run: RunFolder, rows: Any, tracker: Tracker) -> None:
    """Store the results table of a run and send it to MLflow; the run is then finished.

    `rows`: the rows of the table, as plain data.
    """
    write_text(run.table, json.dumps(rows, indent=1) + "\n")
    tracker.artifact(run.table)
    if rows and isinstance(rows, list):
        tracker.table(EVALUATION, rows)
    html_page.update_description(run, tracker)
