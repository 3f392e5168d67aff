"""Fuzz targets: folders of runs, read again by `view`, `list`, `evaluate` and `resume`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz import inputs
from tests.fuzz.inputs import Files
from tests.fuzz.target import Target
from tests.fuzz.targets import shared_inputs

from overtrick.core.checkpoints import load_state
from overtrick.core.files import write_text
from overtrick.distributed.workers import LocalPool
from overtrick.games.bridge import double_dummy
from overtrick.runs import folder_kind, html_page, lifecycle, mlflow_note, provenance
from overtrick.storage import locate
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.registry import TRAINERS

VIEWED = ("meta", "solve", "tabular", "tournament", "nfsp", "coevolve", "dqn", "eom", "bidding")
FILES = ("job.json", "table.json", "track.jsonl")
EVALUATED = sorted(path.parent.name for path in shared_inputs.RUNS.glob("*/evaluated.json"))
NEEDED = ("data/", "double_dummy/", "bidding/model/", "bidding_imps/model/")


class _SilentTracker(Tracker):
    """A tracker that reads its files and sends nothing to MLflow."""

    def _deliver(self) -> None:
        """Deliver nothing."""


def renamed_run(name: str) -> Files:
    """Return the files of a stored run as runs/r/..."""
    files = shared_inputs.run_folder(name)
    return {path.replace(f"runs/{name}", "runs/r"): v for path, v in files.items()}


def runs_without_models() -> list[Files]:
    """Return folders of finished runs without their models."""
    found = []
    for name in VIEWED:
        files = renamed_run(name)
        kept = {path: v for path, v in files.items() if path.rpartition("/")[2] in FILES}
        kept["runs/r/track.sent"] = b"3"
        kept["runs/r/track.run"] = b"0123456789abcdef0123456789abcdef"
        found.append(kept)
    return found


def find_run_of_input() -> RunFolder:
    """Find the run of an input. Raises UserError if its job file is gone."""
    return locate.existing_run("r")


def view_run(folder: Path) -> None:
    """Write the HTML page of a run."""
    write_text(folder / "view.html", html_page.run_page(find_run_of_input()))


def inspect_run(folder: Path) -> None:
    """List runs; find the kind of a run, read its history and describe it for MLflow."""
    locate.run_names()
    run = find_run_of_input()
    folder_kind.kind_of(run)
    run.history()
    mlflow_note.describe(run)
    assert run.run_id != ""


def continue_tracking(folder: Path) -> None:
    """Open the record of a run again, as `resume` does, and report more."""
    run = find_run_of_input()
    tracker = _SilentTracker("sqlite:///m.db", "e", "r", run.path, {})
    tracker.metrics(tracker.reported + 1, {"loss": 1.0})
    tracker.note("continued")
    run.history()


def unfinished_runs() -> list[Files]:
    """Return the folder of an unfinished run with a checkpoint."""
    return [renamed_run("meta_unfinished")]


def resume_run(folder: Path) -> None:
    """Read the job and the newest checkpoint of a run, and load the trainer's state."""
    run = find_run_of_input()
    folder_kind.check_kind(run, "run")
    job = lifecycle.read_job(run)
    lifecycle.check_job(job)
    checkpoints = run.checkpoints()
    if checkpoints.newest() is None:
        return
    checkpoints.iteration()
    trainer = TRAINERS[job.trainer].trainer(job, LocalPool())
    load_state(trainer, checkpoints.state())
    trainer.close()


def runs_with_models() -> list[Files]:
    """Return folders of small finished runs with their models, and the files that these need."""
    found = []
    others = inputs.read_folder(shared_inputs.RUNS)
    for name in EVALUATED:
        files = renamed_run(name)
        found.append({k: v for k, v in files.items() if "/model/" in k or k.endswith("job.json")})
        job = files["runs/r/job.json"].decode()
        found[-1] |= {k: v for k, v in others.items() if k.startswith(NEEDED) and names(job, k)}
    return found


def names(job: str, path: str) -> bool:
    """Return True if the text of a job names a file or a folder above it."""
    return any(f': "{above}"' in job for above in (path, *map(str, Path(path).parents)))


def evaluate_run(folder: Path) -> None:
    """Evaluate the stored model of a run again, without solving deals: that may take long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(double_dummy, "declarer_tricks", lambda deals, *_: np.zeros(len(deals), int))
        lifecycle.evaluate_stored("r", 0)


def provenances() -> list[Files]:
    """Return values of the variable in which a cluster job finds the version of its code."""
    sent = {"overtrick.version": "0.1", "mlflow.source.git.commit": "0" * 40}
    return [{"sent.json": json.dumps(sent).encode()}]


def read_provenance(folder: Path) -> None:
    """Read tags with the code's version from the environment variable, as a cluster job does."""
    text = (folder / "sent.json").read_text(errors="surrogateescape").replace("\0", "")
    os.environ[provenance.SENT] = text
    for key, value in provenance.run_tags("meta", "leduc").items():
        assert isinstance(key, str)
        assert isinstance(value, str)


TARGETS = (
    Target("run viewed", runs_without_models, view_run, 6),
    Target("run listed", runs_without_models, inspect_run, 6),
    Target("run tracked again", runs_without_models, continue_tracking, 4),
    Target("run resumed", unfinished_runs, resume_run, 3),
    Target("run evaluated", runs_with_models, evaluate_run, 2),
    Target("provenance", provenances, read_provenance, 2),
)
