"""The list of runs: name, status, game, score and age of each."""

from __future__ import annotations

import fcntl
import json
import os
import time

import pytest

from overtrick.core.file_lock import is_locked
from overtrick.runs.run_list import format_age, list_runs
from overtrick.storage.run_folder import RunFolder

JOB = {
    "trainer": "solve",
    "game": {"name": "kuhn", "options": {}},
    "track": {"uri": "sqlite:///mlflow.db"},
}
ROW = {"plan": "cfr+", "exploitability": 0.25, "nash_conv": 0.5, "values": [0, 0]}


def test_a_folder_named_trials_beside_the_runs_makes_no_run_a_child(tmp_path) -> None:
    (tmp_path / "trials").mkdir()
    run = RunFolder(tmp_path / "runs" / "kuhn-1")
    assert (run.group, run.number) == (run, None)
    sweep = RunFolder(tmp_path / "sweep")
    child = sweep.child(2)
    child.path.mkdir(parents=True)
    sweep.job.write_text("{}")
    assert (child.group, child.number) == (sweep, 2)


@pytest.fixture
def a_run(tmp_path, monkeypatch):
    """Return a function that writes the files of a run."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path))

    def write(name, table=None, job=JOB, age=0.0):
        run = RunFolder(tmp_path / name)
        run.path.mkdir()
        run.job.write_text(json.dumps(job))
        if table is not None:
            run.table.write_text(table)
        for file in run.path.iterdir():
            os.utime(file, (time.time() - age,) * 2)
        return run

    return write


def test_a_run_is_finished_stopped_running_or_damaged(a_run):
    a_run("finished", json.dumps([ROW]), age=7200)
    a_run("stopped", age=300)
    a_run("damaged", "[{", age=3 * 86400)
    a_run("other", job=[1], age=4 * 86400)
    running = a_run("running")
    with running.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = {each.name: each for each in list_runs()}
    assert {name: each.status for name, each in found.items()} == {
        "running": "running", "stopped": "stopped", "finished": "finished", "damaged": "damaged",
        "other": "damaged",
    }  # fmt: skip
    assert list(found) == ["running", "stopped", "finished", "damaged", "other"]  # newest first
    assert found["finished"][1:] == ("run", "finished", "kuhn", "solve", -0.25, "2 h")
    assert found["stopped"].score is None
    assert (found["damaged"].age, found["stopped"].age) == ("3 d", "5 min")
    assert not is_locked(running.lock)


def test_the_age_of_a_sweep_is_that_of_its_newest_child(a_run):
    sweep = a_run("sweep", age=7200)
    child = sweep.child(0)
    child.path.mkdir(parents=True)
    (child.path / "track.jsonl").write_text("")
    times = (time.time() - 300,) * 2
    for path in (child.path / "track.jsonl", child.path, sweep.children):
        os.utime(path, times)
    (found,) = list_runs()
    assert found.age == "5 min"


def test_a_sweep_has_no_score(a_run):
    sweep = a_run("sweep", "[]")
    sweep.children.mkdir()
    assert [(each.kind, each.status, each.score) for each in list_runs()] == [
        ("sweep", "finished", None)
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "0 s"), (59, "59 s"), (60, "1 min"), (5400, "1 h"), (86400, "1 d"), (1e6, "11 d")],
)
def test_an_age_is_shown_in_its_largest_unit(seconds, shown):
    assert format_age(seconds) == shown
