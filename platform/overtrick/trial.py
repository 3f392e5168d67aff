"""Any trainer as a Tune trial: checkpoints, restarts after failure and resuming are Tune's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig, Tuner
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from overtrick.config import Job, parse
from overtrick.core import Array, Failed
from overtrick.trainers import JOBS, TRAINERS
from overtrick.workers import hire, start_ray

os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # no second copy of the metrics
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # verbose=0 prints all the same without this

STATE = "state.safetensors"
Listener = Callable[[int, dict[str, float]], None]
"""Told of every iteration and its metrics, in order and once, also across restarts."""


class Trial(tune.Trainable):
    """One run of one job. config: job, as plain data; resume, a folder with a state, or None."""

    def setup(self, config: dict[str, Any]) -> None:
        job = parse(config["job"], JOBS, "the trial's job")
        trainer = TRAINERS[job.trainer].trainer
        self.trainer = trainer(job, hire(job.workers))
        if config["resume"]:
            self.load_checkpoint(config["resume"])

    def step(self) -> dict[str, Any]:
        metrics = self.trainer.step()
        return {"iteration": self.trainer.iteration, "metrics": metrics}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        # safetensors writes memory as it lies, so every array must lie in order
        state = {name: np.array(v, order="C") for name, v in self.trainer.state().items()}
        save_file(state, Path(checkpoint_dir) / STATE)

    def load_checkpoint(self, checkpoint: str) -> None:
        self.trainer.load(read_state(Path(checkpoint)))

    def cleanup(self) -> None:
        self.trainer.close()

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """The learner's bundle first, then one CPU for each game worker."""
        return tune.PlacementGroupFactory(_bundles(config["job"]))


class _Watch(tune.Callback):
    """Hands each iteration's metrics on; a restarted trial repeats some, which are dropped."""

    def __init__(self, listener: Listener, done: int) -> None:
        self.listener = listener
        self.done = done

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune pickles its callbacks, and a listener holds threads

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        if result["iteration"] > self.done:
            self.done = result["iteration"]
            self.listener(self.done, result["metrics"])


def train(job: Job, folder: Path, listener: Listener, done: int = 0) -> dict[str, Array]:
    """Run a job as one trial to its last iteration and return the trainer's state.

    If the folder holds checkpoints of a run that was cut short, it goes on from the newest
    whole one; iterations up to `done` were reported before and are not reported again. Raises
    Refused if the job can never fit on the cluster, Failed if the trial keeps failing.
    """
    plain = job.model_dump(mode="json")
    resume = newest_checkpoint(folder)
    if resume is not None and _iteration(resume) >= job.stop.iterations:
        return read_state(resume)
    start_ray(_bundles(plain))
    tuner = Tuner(
        Trial,
        param_space={"job": plain, "resume": str(resume) if resume else None},
        tune_config=TuneConfig(num_samples=1),
        run_config=RunConfig(
            name=f"tune-{len(list(folder.glob('tune-*')))}",
            storage_path=str(folder),
            stop={"iteration": job.stop.iterations},
            callbacks=[_Watch(listener, done)],
            verbose=0,
            failure_config=FailureConfig(max_failures=job.checkpoints.retries),
            checkpoint_config=CheckpointConfig(
                checkpoint_frequency=job.checkpoints.every,
                checkpoint_at_end=True,
                num_to_keep=job.checkpoints.keep,
            ),
        ),
    )
    (result,) = tuner.fit()
    if result.error is not None:
        raise Failed(f"the trial failed: {_last_line(result.error)}; its log is in {result.path}")
    last = newest_checkpoint(folder)
    if last is None or _iteration(last) < job.stop.iterations:
        raise KeyboardInterrupt
    return read_state(last)


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint with the most iterations that is whole: a kill may leave one half written."""
    best: tuple[int, Path] | None = None
    for file in folder.glob(f"tune-*/*/checkpoint_*/{STATE}"):
        try:
            iteration = _iteration(file.parent)
        except (SafetensorError, OSError):
            continue
        if best is None or iteration > best[0]:
            best = iteration, file.parent
    return None if best is None else best[1]


def read_state(checkpoint: Path) -> dict[str, Array]:
    """A trainer's state, by name in alphabetical order."""
    return dict(sorted(load_file(checkpoint / STATE).items()))


def _last_line(error: BaseException) -> str:
    """What went wrong, without the traceback that Ray carries along."""
    return str(error).strip().splitlines()[-1].strip()


def _iteration(checkpoint: Path) -> int:
    return int(read_state(checkpoint)["iteration"])


def _bundles(job: dict[str, Any]) -> list[dict[str, float]]:
    return [{"CPU": float(job["resources"]["cpus"])}] + [{"CPU": 1.0}] * int(job["workers"])
