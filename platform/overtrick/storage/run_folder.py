"""The folder of a run on disk: where each of its files lies, and the checkpoints of its trials."""

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

    The child runs of a sweep or a table have folders of their own in `children`.
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
        """The final table; a run that has it is finished."""
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
        """The folder of the child runs; only a sweep or a table has one."""
        return self.path / "trials"

    def child(self, number: int) -> RunFolder:
        """Return the folder of a child run by its number, from 0."""
        return RunFolder(self.children / f"{self.name}-{number:03d}")

    @property
    def group(self) -> RunFolder:
        """The folder of the sweep or table that this is a child run of; otherwise this folder."""
        above = RunFolder(self.path.parent.parent)
        return above if above.children.exists() else self

    @property
    def run_id(self) -> str | None:
        """MLflow's id of the run; None if MLflow has not received it yet."""
        return mlflow_tracker.run_id(self.path)

    @property
    def rejected_events(self) -> Path:
        """The file of events that MLflow has refused."""
        return self.path / mlflow_tracker.REJECTED_EVENTS

    def history(self) -> list[tuple[int, dict[str, float]]]:
        """Return every reported iteration and its metrics, in order."""
        return mlflow_tracker.history(self.path)

    def read_job(self) -> dict[str, Any]:
        """Return the content of the job file, unchecked and with the keys it was written with."""
        return dict(json.loads(self.job.read_text()))

    def checkpoints(self, trial: int = 0) -> TrialCheckpoints:
        """Return the checkpoints of a trial; those of child runs lie in the folder of the group."""
        return TrialCheckpoints(self.path, trial)


@dataclass(frozen=True)
class TrialCheckpoints:
    """The checkpoints that Ray Tune has written for one trial.

    A checkpoint is a folder with the trainer's state. One that a kill left half written is ignored.
    """

    folder: Path  # of the run or run group
    trial: int

    def newest(self, most: int | None = None) -> Path | None:
        """Return the readable checkpoint with the most iterations, or None.

        `most`: ignore checkpoints of later iterations.
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
        """Return the trainer's state in the newest checkpoint; there must be one."""
        newest = self.newest()
        assert newest is not None
        return read_state(newest)

    def delete_older(self) -> None:
        """Delete all checkpoints of the trial but the newest."""
        newest = self.newest()
        for checkpoint in self.folder.glob(f"tune-*/{trial_name(self.trial)}/checkpoint_*"):
            if checkpoint != newest:
                shutil.rmtree(checkpoint)


def trial_name(trial: int) -> str:
    """Return the name of a trial's folder inside the folders of Tune."""
    return f"trial-{trial}"


def read_state(checkpoint: Path) -> dict[str, Array]:
    """Read a trainer's state from the folder of a checkpoint: arrays by name, sorted by name."""
    return dict(sorted(load_file(checkpoint / STATE).items()))


def iteration_of(checkpoint: Path) -> int:
    """Read how many iterations a checkpoint's trainer had done."""
    return int(read_state(checkpoint)["iteration"])
