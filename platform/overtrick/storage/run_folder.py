"""The folder of a run on disk: the paths of its files, and the checkpoints of its trials."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file

from overtrick.core import Array
from overtrick.tracking import mlflow_tracker

STATE = "state.safetensors"  # the file of a checkpoint that holds the trainer's state


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, a sweep or a comparison table.

    The child runs of a sweep or a table have their own folders in `children`.
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.path.name

    @property
    def job(self) -> Path:
        """The job file, written when the run is opened."""
        return self.path / "job.json"

    @property
    def table(self) -> Path:
        """The final table. A run that has this file is finished."""
        return self.path / "table.json"

    @property
    def markdown_table(self) -> Path:
        """The table of a comparison as Markdown."""
        return self.path / "table.md"

    @property
    def figures(self) -> Path:
        """The folder of the figures."""
        return self.path / "figures"

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.path / mlflow_tracker.MODEL

    @property
    def videos(self) -> Path:
        """The folder of the videos made during training."""
        return self.path / "films"

    @property
    def page(self) -> Path:
        """The HTML report."""
        return self.path / "view.html"

    @property
    def lock(self) -> Path:
        """The file that a process locks while it works on the run."""
        return self.path / "lock"

    @property
    def children(self) -> Path:
        """The folder of the child runs. Only a sweep or a table has one."""
        return self.path / "trials"

    def child(self, number: int) -> RunFolder:
        """Return the folder of a child run by its number, from 0."""
        return RunFolder(self.children / f"{self.name}-{number:03d}")

    @property
    def group(self) -> RunFolder:
        """For a child run, the folder of its sweep or table; otherwise this folder."""
        above = RunFolder(self.path.parent.parent)
        return above if above.children.exists() else self

    @property
    def run_id(self) -> str | None:
        """The run's id in MLflow; None if MLflow has not received the run yet."""
        return mlflow_tracker.run_id(self.path)

    @property
    def rejected_events(self) -> Path:
        """The file of events that MLflow has rejected."""
        return self.path / mlflow_tracker.REJECTED_EVENTS

    def history(self) -> list[tuple[int, dict[str, float]]]:
        """Return all reported iterations with their metrics, in order."""
        return mlflow_tracker.history(self.path)

    def read_job(self) -> dict[str, Any]:
        """Return the content of the job file without validation or translation of old keys."""
        return dict(json.loads(self.job.read_text()))

    def checkpoints(self, trial: int = 0) -> TrialCheckpoints:
        """Return the checkpoints of a trial.

        The checkpoints of child runs are in the folder of their group.
        """
        return TrialCheckpoints(self.path, trial)


@dataclass(frozen=True)
class TrialCheckpoints:
    """The checkpoints that Ray Tune has written for one trial.

    A checkpoint is a folder with the trainer's state. An incomplete checkpoint, left by a killed
    process, is ignored.
    """

    folder: Path  # of the run or run group
    trial: int

    def newest(self, most: int | None = None) -> Path | None:
        """Return the readable checkpoint with the most iterations; None if there is none.

        `most`: the largest iteration to consider; None: no limit.
        """
        best: tuple[int, Path] | None = None
        for file in self.folder.glob(f"tune-*/{trial_name(self.trial)}/checkpoint_*/{STATE}"):
            try:
                iteration = iteration_of(file.parent)
            except (SafetensorError, OSError):
                continue
            if (most is None or iteration <= most) and (best is None or iteration > best[0]):
                best = iteration, file.parent
        return None if best is None else best[1]

    def iteration(self) -> int:
        """Return the iteration of the newest checkpoint; 0 if there is none."""
        newest = self.newest()
        return 0 if newest is None else iteration_of(newest)

    def state(self) -> dict[str, Array]:
        """Return the trainer's state in the newest checkpoint, which must exist."""
        newest = self.newest()
        assert newest is not None
        return read_state(newest)

    def delete_older(self) -> None:
        """Delete all checkpoints of the trial except the newest."""
        newest = self.newest()
        for checkpoint in self.folder.glob(f"tune-*/{trial_name(self.trial)}/checkpoint_*"):
            if checkpoint != newest:
                shutil.rmtree(checkpoint)


def trial_name(trial: int) -> str:
    """Return the name of a trial's folder inside Tune's folders."""
    return f"trial-{trial}"


def read_state(checkpoint: Path) -> dict[str, Array]:
    """Read a trainer's state from a checkpoint folder: arrays by name, sorted by name."""
    return dict(sorted(load_file(checkpoint / STATE).items()))


def iteration_of(checkpoint: Path) -> int:
    """Return the number of iterations that a checkpoint's trainer had finished."""
    return int(read_state(checkpoint)["iteration"])
