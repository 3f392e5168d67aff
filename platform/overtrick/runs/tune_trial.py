"""Train jobs as Ray Tune trials, with checkpoints, resuming, and restarts after failures."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig, Tuner
from ray.tune.error import TuneError
from ray.tune.execution.class_cache import ENV_VARS_TO_PROPAGATE
from ray.tune.result import SHOULD_CHECKPOINT
from ray.tune.schedulers import FIFOScheduler

from overtrick.config.job_file import Job, parse_stored
from overtrick.core import Array, RunError, Trainer, UserError, structured_log, tracing
from overtrick.core.checkpoints import load_state, prefixed
from overtrick.core.devices import use_gpu
from overtrick.core.files import write_weights
from overtrick.core.ray_metrics import games_played
from overtrick.distributed import local_ray, placement
from overtrick.distributed.data_parallel import DataParallelTrainer, LearnerShare
from overtrick.distributed.workers import room_for, start_pool, start_ray
from overtrick.reports import metric_names
from overtrick.runs.best_model import BestModel
from overtrick.runs.early_stopping import EarlyStopping
from overtrick.runs.listener import Listener
from overtrick.storage import bucket_copy
from overtrick.storage.bucket_copy import lease_token
from overtrick.storage.run_file_names import TUNE
from overtrick.storage.run_folder import (
    BEST_MODEL,
    STATE,
    RunFolder,
    iteration_of,
    read_checkpoint,
    trial_folder_name,
)
from overtrick.training.registry import JOBS, TRAINERS, restored_trainer

os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # no second copy of the metrics
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # otherwise verbose=0 still prints
ENV_VARS_TO_PROPAGATE -= {n for n in ENV_VARS_TO_PROPAGATE if "AWS" in n}  # keep them out of logs

FAILED = "failed"  # key of a result: the error that ends the trial


@dataclass(frozen=True)
class PlannedTrial:
    """A job that is to be trained as a Tune trial."""

    job: Job
    listener: Listener  # callback that receives the metrics of each iteration
    done: int = 0  # iterations that the listener has already received
    until: int | None = None  # the iteration to stop at; None: the job's last; 0: not trained
    start: Path | None = None  # another trial's checkpoint; used if it is later than our own

    @property
    def last(self) -> int:
        """The iteration at which training stops."""
        return self.job.stop.iterations if self.until is None else self.until


class Trial(tune.Trainable):
    """A Tune trial that runs the trainer of one job.

    Its configuration is config["run"], with these keys:

    - `name`: the name of the run, sweep or comparison
    - `job`: the plain data of the job
    - `number`: the number of the trial
    - `in_group`: whether it is one of a sweep or comparison
    - `last`: the iteration at which training stops
    - `resume`: the folder or URL of the checkpoint to continue from, or None
    - `best`: that of the checkpoint with the best model of this trial so far, or None. In a round
      of PBT `resume` may be the checkpoint of another trial.
    - `carrier`: of the span of the run
    """

    def setup(self, config: dict[str, Any]) -> None:
        """Build the trainer, and load its state if there is a checkpoint to resume."""
        run = config["run"]
        structured_log.configure()
        structured_log.label(run["name"], run["number"] if run["in_group"] else None)
        self._open_spans = ExitStack()
        span = tracing.span("trial", run["carrier"], run=run["name"], trial=run["number"])
        self._carrier = self._open_spans.enter_context(span)
        self.job = parse_stored(run["job"], JOBS, "the trial's job")
        self.last = run["last"]
        self.trainer = _build_trainer(self.job)
        self.best = BestModel()
        if run["resume"]:
            self.load_checkpoint(run["resume"])
        if run["best"] != run["resume"]:
            self.best = _best_model(run["best"]) if run["best"] else BestModel()

    def step(self) -> dict[str, Any]:
        """Train for one iteration and return its metrics to Tune, with its speed.

        A RunError would recur, so it ends the trial without a checkpoint. After any other error
        Tune restarts the trial.
        """
        began, games = time.perf_counter(), games_played()
        number = self.trainer.iteration + 1
        try:
            with tracing.span("iteration", self._carrier, iteration=number):
                metrics = self.trainer.step()
        except RunError as error:
            return {"iteration": 0, "last": 1, "metrics": {}, FAILED: str(error)}
        seconds, games = time.perf_counter() - began, games_played() - games
        metrics = {**metrics, metric_names.ITERATION_SECONDS: seconds}
        if games:
            metrics[metric_names.GAMES_PER_SECOND] = games / seconds
        iteration = self.trainer.iteration
        score = TRAINERS[self.job.trainer].progress_score
        if self.job.checkpoints.best and score is not None:
            self.best = self.best.updated(iteration, score(metrics), self._model)
        last = iteration >= self.last
        due = last or iteration % self.job.checkpoints.every == 0
        report = {"iteration": iteration, "last": int(last), "metrics": metrics}
        return {**report, SHOULD_CHECKPOINT: due}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the trainer's state into a checkpoint folder."""
        # safetensors writes an array's memory as it lies, so it must be in C order
        state = {name: np.array(v, order="C") for name, v in self.trainer.state().items()}
        state |= prefixed(BEST_MODEL, self.best.state())
        write_weights(Path(checkpoint_dir) / STATE, state)

    def _model(self) -> Mapping[str, Array]:
        """Return the weights of the present model.

        Several learners are processes of their own, so that it is built from their state.
        """
        if not isinstance(self.trainer, DataParallelTrainer):
            return self.trainer.model()
        return restored_trainer(self.job, self.trainer.state()).model()

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Write a checkpoint into Tune's storage, and verify that it is there.

        Pyarrow ignores the errors of a file that ends an upload. Raises RunError, upon which Tune
        restarts the trial.
        """
        result = super().save(checkpoint_dir)
        stored = result.checkpoint
        if not stored.filesystem.get_file_info(f"{stored.path}/{STATE}").is_file:
            raise RunError(f"the checkpoint {stored.path} could not be stored")
        return result

    def load_checkpoint(self, checkpoint: str) -> None:
        """Load the trainer's state from a checkpoint. `checkpoint`: its folder or URL."""
        with bucket_copy.checkpoint_folder(checkpoint, STATE) as folder:
            state, best = read_checkpoint(folder)
        load_state(self.trainer, state)
        self.best = BestModel.of_state(best)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Switch this process to another trial's job, so that Tune need not start a new process.

        `new_config`: the configuration of the other trial. The docstring of `Trial` lists its keys.
        Returns True, which tells Tune that the process can be reused.
        """
        self.cleanup()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Close the trainer, and end the trial's span."""
        try:
            self.trainer.close()
        finally:
            self._open_spans.close()
            tracing.flush()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """Return the trial's resource bundles: its trainer's first, then one for each worker."""
        job = config["run"]["job"]
        strategy = "STRICT_PACK" if job["resources"]["single_node"] else "PACK"
        return tune.PlacementGroupFactory(placement.trial_bundles(job), strategy=strategy)


class _Stopper:
    """Tune stopper that decides when a trial ends, and sends the trial's metrics to a callback.

    The callback is the field `listener` of the trial. A restarted trial repeats some iterations,
    but the callback receives each iteration only once.
    """

    def __init__(
        self, trials: Mapping[int, PlannedTrial], early_stopping: EarlyStopping | None
    ) -> None:
        self.listeners = {number: trial.listener for number, trial in trials.items()}
        self.done = {number: trial.done for number, trial in trials.items()}
        self.early_stopping = early_stopping

    def __getstate__(self) -> dict[str, Any]:
        """Return an empty state for pickling.

        Tune pickles its stoppers. The callbacks in this stopper cannot be pickled, because they
        hold threads.
        """
        return {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Send a trial's metrics to the trial's callback; return True if the trial ends here."""
        number, iteration = result["config"]["run"]["number"], result["iteration"]
        metrics, rule = result["metrics"], self.early_stopping
        if iteration > self.done[number]:
            self.listeners[number](iteration, metrics)
            self.done[number] = iteration
        early = rule is not None and rule.stops(number, iteration, metrics)
        return bool(result["last"]) or early


class _BoundedMemoryScheduler(FIFOScheduler):
    """First-in-first-out scheduler that frees the memory of results that Tune has processed.

    Otherwise Tune keeps every result of an actor in the driver's memory as long as the actor lives.
    """

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Drop the references to Ray objects with results that Tune has already processed.

        Returns the decision of the base class whether the trial continues.
        """
        manager = tune_controller._actor_manager
        awaited = manager._actor_task_events.get_futures()
        for futures in manager._tracked_actors_to_task_futures.values():
            futures.intersection_update(awaited)
        return super().on_trial_result(tune_controller, trial, result)


def train(
    trials: Sequence[PlannedTrial], run: RunFolder, early_stopping: EarlyStopping | None = None
) -> list[RunError | None]:
    """Train jobs as Tune trials, as many at once as fit on the cluster.

    A trial continues from its newest checkpoint in the run's folder, to its last iteration or until
    `early_stopping` ends it. All trials use the checkpoint settings of the first unfinished one.
    Returns for each trial the error that ended it, or None. Raises UserError if a job can never fit
    on the cluster, or if early stopping cannot compare the trials; RayDiedError if a Ray of this
    machine dies; KeyboardInterrupt if training was interrupted.
    """
    stopped = early_stopping.stopped_at() if early_stopping else {}

    def unfinished(number: int) -> bool:
        last = 0 if number in stopped else trials[number].last
        return last > 0 and run.checkpoints(number).iteration() < last

    waiting = {n: trial for n, trial in enumerate(trials) if unfinished(n)}
    if not waiting:
        return [None] * len(trials)
    jobs = [trial.job.model_dump(mode="json") for trial in waiting.values()]
    bundles = [placement.all_bundles(job) for job in jobs]
    for each in sorted(bundles, key=lambda b: -sum(bundle["CPU"] for bundle in b)):
        start_ray(each)  # the largest first: it determines the size of a local Ray
    # without a limit, trials could deadlock: each holds resources that others wait for
    limited = any(map(placement.later_bundles, jobs))
    at_once = min(room_for(b, len(jobs)) for b in bundles) if limited else None
    policy = next(iter(waiting.values())).job.checkpoints
    configs = [_config(trial, run, number) for number, trial in waiting.items()]
    tuner = Tuner(
        Trial,
        param_space={"run": tune.grid_search(configs)},
        tune_config=TuneConfig(
            num_samples=1,
            scheduler=_BoundedMemoryScheduler(),
            reuse_actors=True,
            max_concurrent_trials=at_once,
            trial_dirname_creator=lambda trial: trial_folder_name(trial.config["run"]["number"]),
        ),
        run_config=RunConfig(
            **_storage(run),
            stop=_Stopper(waiting, early_stopping),
            verbose=0,
            failure_config=FailureConfig(max_failures=policy.retries),
            checkpoint_config=CheckpointConfig(  # the trial decides when to write one
                checkpoint_at_end=False, num_to_keep=policy.keep
            ),
        ),
    )
    errors: list[RunError | None] = [None] * len(trials)
    # Tune reports a trial that it restarted after all others
    try:
        with _handlers_restored(), local_ray.raising_if_ray_dies():
            results = {Path(result.path).name: result for result in tuner.fit()}
    except TuneError as error:  # Tune wraps what a listener raises, such as a full disk
        raise error.__context__ or error from None
    if early_stopping is not None and early_stopping.error():
        raise UserError(early_stopping.error())
    for number in waiting:
        result = results[trial_folder_name(number)]
        if result.error is not None:
            where = f"{run}{result.path}" if bucket_copy.copy_of(run.path) else result.path
            message = f"{_last_line(result.error)}; its log is in {where}"
            errors[number] = RunError(f"the trial failed: {message}")
        elif FAILED in result.metrics:
            errors[number] = RunError(result.metrics[FAILED])
        elif unfinished(number):
            bucket_copy.check_lease(run.path)  # without it Tune could not store the trial's error
            raise KeyboardInterrupt
    return errors


def _storage(run: RunFolder) -> dict[str, Any]:
    """Return the settings of Tune that store a run's checkpoints: in its folder or its bucket."""
    copy = bucket_copy.copy_of(run.path)
    if copy is None:
        before = [path.name for path in run.path.glob(f"{TUNE}*")]
        return {"name": f"{TUNE}{len(before)}", "storage_path": str(run.path)}
    from overtrick.storage.bucket_filesystem import bucket_filesystem

    before = [name for name in copy.objects.folders() if name.startswith(TUNE)]
    return {
        "name": f"{TUNE}{len(before)}",
        "storage_path": "/",
        "storage_filesystem": bucket_filesystem(copy.objects.url, lease_token(run.path)),
    }


@contextmanager
def _handlers_restored() -> Iterator[None]:
    """Context manager that restores the signal handlers that Tune replaces in its block.

    Otherwise Tune would ignore the first Ctrl-C after training.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Tune replaces none
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGUSR1)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _last_line(error: BaseException) -> str:
    """Return the message of an error without the traceback that Ray adds to it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (named or lines)[-1]


def _config(trial: PlannedTrial, run: RunFolder, number: int) -> dict[str, Any]:
    """Return the Tune configuration of a trial, with the checkpoint from which it resumes.

    `run`: the folder that holds the trial's checkpoints. `number`: the number of the trial.
    """
    checkpoints = run.checkpoints(number)
    resume = own = checkpoints.newest()
    if trial.start is not None and checkpoints.iteration() <= iteration_of(trial.start):
        resume = trial.start
    return {
        "name": run.name,
        "job": trial.job.model_dump(mode="json"),
        "number": number,
        "in_group": run.children.exists(),
        "last": trial.last,
        "resume": bucket_copy.path_or_url(resume) if resume else None,
        "best": bucket_copy.path_or_url(own) if own else None,
        "carrier": tracing.carrier(),
    }


def _best_model(checkpoint: str) -> BestModel:
    """Return the best model in a checkpoint. `checkpoint`: its folder or URL."""
    with bucket_copy.checkpoint_folder(checkpoint, STATE) as folder:
        return BestModel.of_state(read_checkpoint(folder)[1])


def _build_trainer(job: Job) -> Trainer | DataParallelTrainer:
    """Build the trainer of a job. With several learners it is a data-parallel trainer."""
    resources = job.resources
    if resources.learners == 1:
        use_gpu(resources.gpus > 0)
        pool = start_pool(job.workers, resources.worker_cpus)
        return TRAINERS[job.trainer].trainer(job, pool)
    make = partial(_build_learner, job.model_dump(mode="json"))
    each = placement.learner_bundle(resources.model_dump())
    return DataParallelTrainer(make, job.stop.iterations, resources.learners, each)


def _build_learner(job: dict[str, Any], share: LearnerShare) -> Trainer:
    """Build the trainer of one data-parallel learner; called in the learner's own process.

    `job`: plain data of the job. `share`: the learner's share of each training batch.
    """
    parsed = parse_stored(job, JOBS, "the trial's job")
    use_gpu(parsed.resources.gpus > 0)
    return TRAINERS[parsed.trainer].trainer(parsed, start_pool(0), share)
