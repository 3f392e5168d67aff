"""Any trainer as a Tune trial: checkpoints, restarts after failure and resuming are Tune's."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
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
from safetensors import SafetensorError
from safetensors.numpy import load_file

from overtrick.config.job_file import Job, parse
from overtrick.core import Array, RunError, Trainer, UserError
from overtrick.core.files import write_weights
from overtrick.distributed.data_parallel import Share, Spread
from overtrick.distributed.placement import apart, learner, placed, together
from overtrick.distributed.workers import room_for, start_pool, start_ray
from overtrick.runs.early_stopping import EarlyStopping
from overtrick.training.registry import JOBS, TRAINERS

os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # no second copy of the metrics
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # verbose=0 prints all the same without this
ENV_VARS_TO_PROPAGATE -= {n for n in ENV_VARS_TO_PROPAGATE if "AWS" in n}  # Ray's logs would tell

STATE = "state.safetensors"
FAILED = "failed"  # in a result: why the trial cannot go on
Listener = Callable[[int, dict[str, float]], None]
"""Told of every iteration and its metrics, in order and once, also across restarts."""


@dataclass(frozen=True)
class Planned:
    """A job to train, who is told of it, and how many of its iterations have been told before."""

    job: Job
    listener: Listener
    done: int = 0
    until: int | None = None  # the iteration to stop at, if it is not the job's last
    start: Path | None = None  # the checkpoint of another to begin from, until it has a later one

    @property
    def last(self) -> int:
        """The iteration to stop at."""
        return self.until or self.job.stop.iterations


class Trial(tune.Trainable):
    """One run of one job. config["run"]: job, as plain data; number, the place of the job among
    those of a sweep; last, the iteration to stop at; resume, a folder with a state, or None."""

    def setup(self, config: dict[str, Any]) -> None:
        run = config["run"]
        self.job = parse(run["job"], JOBS, "the trial's job")
        self.last = run["last"]
        self.trainer = _trainer(self.job)
        if run["resume"]:
            self.load_checkpoint(run["resume"])

    def step(self) -> dict[str, Any]:
        """One iteration. What RunError would fail again, so it ends the trial, without a
        checkpoint; Tune begins again after anything else."""
        try:
            metrics = self.trainer.step()
        except RunError as error:
            return {"iteration": 0, "last": 1, "metrics": {}, FAILED: str(error)}
        iteration = self.trainer.iteration
        last = iteration >= self.last
        due = last or iteration % self.job.checkpoints.every == 0
        told = {"iteration": iteration, "last": int(last), "metrics": metrics}
        return {**told, SHOULD_CHECKPOINT: due}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        # safetensors writes memory as it lies, so every array must lie in order
        state = {name: np.array(v, order="C") for name, v in self.trainer.state().items()}
        write_weights(Path(checkpoint_dir) / STATE, state)

    def load_checkpoint(self, checkpoint: str) -> None:
        self.trainer.load(read_state(Path(checkpoint)))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Go on with another job in the same process, which has paid for its imports."""
        self.trainer.close()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        self.trainer.close()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """The learner's bundle first, then one for each game worker."""
        job = config["run"]["job"]
        place = "STRICT_PACK" if job["resources"]["single_node"] else "PACK"
        return tune.PlacementGroupFactory(together(job), strategy=place)


class _Watch:
    """Hands each iteration's metrics on, and says then whether it was the trial's last: so what
    stopped a trial is in its record. A restarted trial repeats some, which are dropped."""

    def __init__(self, plans: Mapping[int, Planned], early_stopping: EarlyStopping | None) -> None:
        self.listeners = {number: plan.listener for number, plan in plans.items()}
        self.done = {number: plan.done for number, plan in plans.items()}
        self.early_stopping = early_stopping

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles what stops its trials, and a listener holds threads

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        number, iteration = result["config"]["run"]["number"], result["iteration"]
        if iteration > self.done[number]:
            self.listeners[number](iteration, result["metrics"])
            self.done[number] = iteration
        told = number, iteration, result["metrics"]
        stops_early = self.early_stopping is not None and self.early_stopping.stops(*told)
        return bool(result["last"]) or stops_early


class _InTurn(FIFOScheduler):
    """Trials in the order in which they were made. Tune keeps all that an actor has ever answered
    for as long as it lives, in the driver's memory; here what has been read is let go."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        manager = tune_controller._actor_manager
        awaited = manager._actor_task_events.get_futures()
        for answers in manager._tracked_actors_to_task_futures.values():
            answers.intersection_update(awaited)
        return super().on_trial_result(tune_controller, trial, result)


def train(
    plans: Sequence[Planned], folder: Path, early_stopping: EarlyStopping | None = None
) -> list[RunError | None]:
    """Run jobs as trials to their last iterations, as many at once as the cluster has room for.

    If the folder holds checkpoints of runs that were cut short, each job goes on from its newest
    whole one. Early stopping may end some sooner. Return for each job None, or why it failed. All
    jobs share the first job's numbers of retries and of checkpoints to keep. Raises UserError if a
    job can never fit on the cluster, or if early stopping cannot judge the trials;
    KeyboardInterrupt if training was interrupted.
    """
    out = early_stopping.stopped_at() if early_stopping else {}
    waiting = {n: p for n, p in enumerate(plans) if n not in out and reached(folder, n) < p.last}
    if not waiting:
        return [None] * len(plans)
    jobs = [plan.job.model_dump(mode="json") for plan in waiting.values()]
    bundles = [placed(job) for job in jobs]
    for each in sorted(bundles, key=lambda b: -sum(bundle["CPU"] for bundle in b)):
        start_ray(each)  # the largest first: a private Ray is as large as it
    # trials that hold what each other's learners or readers wait for would wait for ever
    at_once = min(room_for(b, len(jobs)) for b in bundles) if any(map(apart, jobs)) else None
    policy = next(iter(waiting.values())).job.checkpoints
    tuner = Tuner(
        Trial,
        param_space={"run": tune.grid_search([_config(p, folder, n) for n, p in waiting.items()])},
        tune_config=TuneConfig(
            num_samples=1,
            scheduler=_InTurn(),
            reuse_actors=True,
            max_concurrent_trials=at_once,
            trial_dirname_creator=lambda trial: _place(_number(trial)),
        ),
        run_config=RunConfig(
            name=f"tune-{len(list(folder.glob('tune-*')))}",
            storage_path=str(folder),
            stop=_Watch(waiting, early_stopping),
            verbose=0,
            failure_config=FailureConfig(max_failures=policy.retries),
            checkpoint_config=CheckpointConfig(  # the trial says when
                checkpoint_at_end=False, num_to_keep=policy.keep
            ),
        ),
    )
    ended: list[RunError | None] = [None] * len(plans)
    # Tune tells of a trial that it had to start again after all others
    try:
        results = {Path(result.path).name: result for result in tuner.fit()}
    except TuneError as error:  # in which Tune wraps what a listener raises, such as a full disk
        raise error.__context__ or error from None
    if early_stopping is not None and early_stopping.error():
        raise UserError(early_stopping.error())
    for number in waiting:
        result = results[_place(number)]
        if result.error is not None:
            said = f"{_last_line(result.error)}; its log is in {result.path}"
            ended[number] = RunError(f"the trial failed: {said}")
        elif FAILED in result.metrics:
            ended[number] = RunError(result.metrics[FAILED])
        elif number not in out and reached(folder, number) < plans[number].last:
            raise KeyboardInterrupt
    return ended


def newest_checkpoint(folder: Path, number: int = 0, most: int | None = None) -> Path | None:
    """The checkpoint with the most iterations, at most so many, that is whole: a kill may leave
    one half written."""
    best: tuple[int, Path] | None = None
    for file in folder.glob(f"tune-*/{_place(number)}/checkpoint_*/{STATE}"):
        try:
            iteration = _iteration(file.parent)
        except (SafetensorError, OSError):
            continue
        if (most is None or iteration <= most) and (best is None or iteration > best[0]):
            best = iteration, file.parent
    return None if best is None else best[1]


def reached(folder: Path, number: int = 0) -> int:
    """The iteration of the newest whole checkpoint of a job, 0 if there is none."""
    newest = newest_checkpoint(folder, number)
    return 0 if newest is None else _iteration(newest)


def finished(job: Job, folder: Path, number: int = 0) -> bool:
    """Whether a job of the folder has been trained to its last iteration."""
    return reached(folder, number) >= job.stop.iterations


def forget(folder: Path, number: int) -> None:
    """Remove all checkpoints of a job but its newest."""
    newest = newest_checkpoint(folder, number)
    for checkpoint in folder.glob(f"tune-*/{_place(number)}/checkpoint_*"):
        if checkpoint != newest:
            shutil.rmtree(checkpoint)


def final_state(folder: Path, number: int = 0) -> dict[str, Array]:
    """The trainer's state at the end of a job that `train` has trained."""
    last = newest_checkpoint(folder, number)
    assert last is not None
    return read_state(last)


def read_state(checkpoint: Path) -> dict[str, Array]:
    """A trainer's state, by name in alphabetical order."""
    return dict(sorted(load_file(checkpoint / STATE).items()))


def _last_line(error: BaseException) -> str:
    """What went wrong, without the traceback that Ray carries along."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [
        line for line in lines if re.match(r"[\w.]*(Error|Exception|UserError|RunError)\b", line)
    ]
    return named[-1] if named else lines[-1]


def _iteration(checkpoint: Path) -> int:
    return int(read_state(checkpoint)["iteration"])


def _config(plan: Planned, folder: Path, number: int) -> dict[str, Any]:
    resume = newest_checkpoint(folder, number)
    if plan.start is not None and reached(folder, number) <= _iteration(plan.start):
        resume = plan.start
    return {
        "job": plan.job.model_dump(mode="json"),
        "number": number,
        "last": plan.last,
        "resume": str(resume) if resume else None,
    }


def _number(trial: Any) -> int:
    return int(trial.config["run"]["number"])


def _place(number: int) -> str:
    """The name of a trial's folder."""
    return f"trial-{number}"


def _trainer(job: Job) -> Trainer | Spread:
    """Who takes the steps of a job: this process, or several learners that it speaks for."""
    learners = job.resources.learners
    if learners == 1:
        return TRAINERS[job.trainer].trainer(
            job, start_pool(job.workers, job.resources.worker_cpus)
        )
    make = partial(_learner, job.model_dump(mode="json"))
    return Spread(make, job.stop.iterations, learners, learner(job.resources.model_dump()))


def _learner(job: dict[str, Any], share: Share) -> Trainer:
    """One of several learners, in a process of its own."""
    parsed = parse(job, JOBS, "the trial's job")
    return TRAINERS[parsed.trainer].trainer(parsed, start_pool(0), share)
