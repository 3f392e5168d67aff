"""Sweeps by ASHA and PBT: their decisions survive a kill, and no trial is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.sweeps import pbt, sweep
from overtrick.training.registry import JOBS

JOB: dict[str, Any] = {
    "trainer": "coevolve",
    "game": "kuhn",
    "seed": 1,
    "stop": {"iterations": 6},
    "coevolve": {"generations": 2},
    "checkpoints": {"every": 1, "keep": 2},
}
STEP = {"coevolve.step_size": {"loguniform": [0.01, 3.0]}}
PBT = {"method": "pbt", "trials": 4, "perturbation_interval": 3, **STEP}
ASHA = {"method": "asha", "trials": 6, "grace_period": 1, "reduction_factor": 2, **STEP}
ALL = {
    "cpus": 4.0
}  # one trial after the other on local_ray, so that decisions do not depend on chance


@pytest.fixture(scope="module")
def home(local_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("methods")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERTRICK_RUNS", str(folder / "runs"))
        yield folder


def new_sweep(home: Path, search: dict[str, Any]) -> Path:
    """Make the folder of a new sweep."""
    more = {"track": {"uri": f"sqlite:///{home}/mlflow.db"}, "resources": ALL}
    job = job_file.parse({**JOB, **more, "search": search}, JOBS, "job.yaml")
    sweep.check(job, "job.yaml")
    return lifecycle.open_folder(job, search["method"], children=True).path


def run_and_copy(folder: Path, killed_at: int) -> tuple[sweep.FinishedSweep, Path]:
    """Run a sweep to its end. Return it, and a copy of its folder as a kill after `killed_at`
    iterations of all trials would leave it."""
    left = folder.parents[1] / "killed" / folder.name

    def progress(decided: int) -> None:
        if decided == killed_at:
            shutil.copytree(folder, left)

    return sweep.run(RunFolder(folder), progress), left


def reported(folder: Path, trial: int) -> list[tuple[int, float]]:
    """Return every iteration in a trial's record, with its exploitability."""
    lines = (RunFolder(folder).child(trial).path / "track.jsonl").read_text().splitlines()
    decided = [event for event in map(json.loads, lines) if "metrics" in event]
    return [(e["step"], e["metrics"]["exploitability_chip/direct"]) for e in decided]


def decisions(folder: Path) -> list[str]:
    return (folder / sweep.DECISIONS).read_text().splitlines()


@pytest.mark.slow
def test_asha_stops_worse_trials_and_a_killed_sweep_keeps_its_decisions(home: Path) -> None:
    done, left = run_and_copy(new_sweep(home, ASHA), killed_at=12)
    assert not done.failed
    last = [row for row in done.rows if not row["stopped"]]
    stopped = [row for row in done.rows if row["stopped"]]
    assert last
    assert stopped
    assert done.rows == last + sorted(stopped, key=lambda row: -row["iterations"])
    for row in done.rows:
        assert row["iterations"] == 6 if row in last else row["iterations"] in (1, 2, 4)
        assert (row["score"] is None) == row["stopped"]
        steps = [i for i, _ in reported(done.folder.path, row["trial"])]
        assert steps == list(range(1, row["iterations"] + 1))
    assert (done.folder.figures / "parallel.png").exists()
    made = decisions(done.folder.path)
    assert 0 < len(decisions(left)) < len(made)
    resumed = sweep.run(RunFolder(left), lambda decided: None)
    assert resumed.rows == done.rows
    assert decisions(left) == made
    assert sweep.run(done.folder, lambda decided: None).rows == done.rows
    assert decisions(done.folder.path) == made


def test_an_unknown_metric_is_refused_after_a_few_iterations(home: Path) -> None:
    two_trials = {**ASHA, "trials": 2, "metric": "won"}
    with pytest.raises(UserError, match=r"by iteration 3: name another search.metric, one of eval"):
        sweep.run(RunFolder(new_sweep(home, two_trials)), lambda decided: None)


@pytest.mark.slow
def test_pbt_copies_the_best_trials_to_the_worst_and_repeats_it_after_a_kill(home: Path) -> None:
    done, left = run_and_copy(new_sweep(home, PBT), killed_at=17)  # in the second of two rounds
    assert not done.failed
    decided = json.loads((done.folder.path / pbt.SCHEDULE).read_text())
    copies = [[n for n in range(4) if each[n]["copied"] is not None] for each in decided]
    assert [len(each) for each in copies] == [0, 1]  # a quarter of four, after the first round
    (number,) = copies[1]
    donor = decided[1][number]["copied"]
    gaps = [dict(reported(done.folder.path, n))[3] for n in range(4)]
    assert gaps[number] == max(gaps)
    assert gaps[donor] == min(gaps)
    assert decided[1][number]["values"] != decided[0][donor]["values"]
    for row in done.rows:
        card = model_files.load(done.folder.child(row["trial"]).model)
        assert card.job["coevolve"]["step_size"] == row["coevolve.step_size"]
        assert row["schedule"][-1]["coevolve.step_size"] == row["coevolve.step_size"]
    assert len(json.loads((left / pbt.SCHEDULE).read_text())) == 2
    resumed = sweep.run(RunFolder(left), lambda decided: None)
    assert resumed.rows == done.rows
    assert json.loads((left / pbt.SCHEDULE).read_text()) == decided
    for trial in range(4):
        assert reported(left, trial) == reported(done.folder.path, trial)
