"""The folder of a run on disk: the paths of its files, and the checkpoints of its trials."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from overtrick.core import Array
from overtrick.core.checkpoints import unprefixed
from overtrick.core.files import DamagedWeightsError, read_weights
from overtrick.core.json_files import read_json
from overtrick.storage import bucket_copy, run_file_names, stored_results
from overtrick.storage.run_file_names import TUNE
from overtrick.tracking import event_delivery, mlflow_tracker

log = logging.getLogger(__name__)
STATE = "state.safetensors"  # the file of a checkpoint that holds the trainer's state
BEST_MODEL = "best_model"  # prefix, in that file, of the arrays of the best model so far


class _PathInRun:
    """Descriptor: a path inside a RunFolder, which need not exist yet."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, run: RunFolder, owner: type[RunFolder]) -> Path:
        return run.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run, a sweep or a comparison.

    The child runs of a sweep or comparison have their own folders in `children`. The folder of a
    run in a bucket is its local copy.
    """

    path: Path

    job = _PathInRun(run_file_names.JOB)
    """The job file, written when the run is opened."""
    table = _PathInRun(run_file_names.TABLE)
    """The results table. A run that has this file is finished."""
    markdown_table = _PathInRun("table.md")
    """The table of a comparison as Markdown."""
    figures = _PathInRun("figures")
    """The folder of the figures."""
    model = _PathInRun(event_delivery.MODEL)
    """The folder of the trained model."""
    best_model = _PathInRun(f"{run_file_names.BEST}/{event_delivery.MODEL}")
    """The folder of the model with the best score in training, unless that is the last one."""
    videos = _PathInRun("films")  # the name that runs before 0.2 have
    """The folder of the videos made during training."""
    page = _PathInRun("view.html")
    """The HTML report."""
    lock = _PathInRun(run_file_names.LOCK)
    """The file that a process locks while it works on the run."""
    children = _PathInRun(run_file_names.CHILDREN)
    """The folder of the child runs. Only a sweep or comparison has one."""
    rejected_events = _PathInRun(mlflow_tracker.REJECTED_EVENTS)
    """The file of events that MLflow has rejected."""

    def __str__(self) -> str:
        """Return the path of the folder, or the URL of a run in a bucket."""
        return bucket_copy.path_or_url(self.path)

    def short_name(self, runs: str) -> str:
        """Return the name of a run that is stored in `runs`; otherwise its path or URL.

        `runs`: the path or URL of a folder of runs.
        """
        return self.name if str(self).rpartition("/")[0] == runs else str(self)

    @property
    def name(self) -> str:
        """The name of the run."""
        return self.path.name

    def child(self, number: int) -> RunFolder:
        """Return the folder of a child run by its number, from 0."""
        return RunFolder(self.children / f"{self.name}-{number:03d}")

    @property
    def group(self) -> RunFolder:
        """For a child run, the folder of its sweep or comparison; otherwise this folder."""
        above = RunFolder(self.path.parent.parent)
        return above if self.path.parent == above.children and above.job.exists() else self

    @property
    def number(self) -> int | None:
        """For a child run, its number in the sweep or comparison; otherwise None."""
        return None if self.group == self else int(self.name.rpartition("-")[2])

    @property
    def run_id(self) -> str | None:
        """The run's id in MLflow; None if MLflow has not received the run yet."""
        return mlflow_tracker.run_id(self.path)

    def history(self) -> list[tuple[int, dict[str, float]]]:
        """Return all reported iterations with their metrics, in order."""
        return mlflow_tracker.history(self.path)

    def read_job(self) -> dict[str, Any]:
        """Return the content of the job file as it was stored.

        The trainer's schema is not checked, and keys of earlier versions are not renamed. Raises
        UserError if the file is damaged.
        """
        return read_json(self.job, stored_results.JOB, "restore it")

    @property
    def table_remedy(self) -> str:
        """The end of an error message about a damaged results table."""
        return f"delete it, and `overtrick resume {self.group.name}` writes it again"

    def read_table(self) -> list[dict[str, Any]]:
        """Return the rows of the results table. Raises UserError if the file is damaged."""
        return read_json(self.table, stored_results.ROWS, self.table_remedy)

    def checkpoints(self, trial: int = 0) -> TrialCheckpoints:
        """Return the checkpoints of one Tune trial of this run, sweep or comparison.

        `trial`: the number of the trial. The checkpoints of a child run are in the folder of its
        sweep or comparison.
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
        return self._newest(most)[1]

    def iteration(self) -> int:
        """Return the iteration of the newest checkpoint; 0 if there is none."""
        return self._newest()[0]

    def _newest(self, most: int | None = None) -> tuple[int, Path | None]:
        """Return the newest readable checkpoint with its iteration; (0, None) if there is none.

        Downloads the trial's checkpoints first, if the run is in a bucket.
        """
        copy = bucket_copy.copy_of(self.folder)
        if copy is not None:
            for name in copy.objects.folders():
                if name.startswith(TUNE):
                    copy.pull(f"{name}/{trial_folder_name(self.trial)}")
        found, trial = list[tuple[int, Path]](), trial_folder_name(self.trial)
        for file in self.folder.glob(f"{TUNE}*/{trial}/checkpoint_*/{STATE}"):
            try:
                found.append((iteration_of(file.parent), file.parent))
            except DamagedWeightsError:
                _warn_of_damage(file)
            except OSError:  # it has been deleted meanwhile
                continue
        readable = [each for each in found if most is None or each[0] <= most]
        return max(readable) if readable else (0, None)

    def state(self) -> dict[str, Array]:
        """Return the trainer's state in the newest checkpoint, which must exist."""
        return self.state_and_best()[0]

    def state_and_best(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return trainer state and best model in the newest checkpoint, which must exist.

        Both are arrays; those of the best model are for BestModel.
        """
        newest = self.newest()
        assert newest is not None
        return read_checkpoint(newest)

    def delete_older(self) -> None:
        """Delete all checkpoints of the trial except the newest."""
        newest = self.newest()
        for checkpoint in self.folder.glob(f"{TUNE}*/{trial_folder_name(self.trial)}/checkpoint_*"):
            if checkpoint != newest:
                bucket_copy.delete(checkpoint)


@cache
def _warn_of_damage(checkpoint: Path) -> None:
    """Warn once of a checkpoint that cannot be used."""
    log.warning("%s is damaged: the checkpoint before it is used", checkpoint)


def trial_folder_name(trial: int) -> str:
    """Return the folder name of a trial inside the folders that Ray Tune writes."""
    return f"trial-{trial}"


def read_state(checkpoint: Path) -> dict[str, Array]:
    """Read a trainer's state from a checkpoint folder: arrays by name, sorted by name.

    Raises DamagedWeightsError for a damaged file.
    """
    return read_checkpoint(checkpoint)[0]


def read_checkpoint(checkpoint: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """Read a trainer's state and its best model from a checkpoint folder, as arrays by name.

    Raises DamagedWeightsError for a damaged file.
    """
    found = read_weights(checkpoint / STATE)
    best = unprefixed(BEST_MODEL, found)
    return {
        name: found[name] for name in sorted(found) if not name.startswith(f"{BEST_MODEL}.")
    }, best


def iteration_of(checkpoint: Path) -> int:
    """Return the number of iterations that the trainer had finished when it wrote a checkpoint.

    Raises DamagedWeightsError for a damaged file, and for one without that number.
    """
    iteration = read_state(checkpoint).get("iteration")
    if iteration is None or iteration.shape != () or iteration.dtype.kind not in "iu":
        raise DamagedWeightsError("it has no iteration")
    return int(iteration)
