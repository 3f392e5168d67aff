"""Failures on one machine: a full disk, a clock that jumps, an unreachable tracking server.

A limit of this process on the size of files simulates the full disk: the first bytes are still
written, as on a real disk.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import logged_metrics
import numpy as np
import pytest
from mlflow import MlflowClient
from small_meta_job import TINY

from overtrick.config import job_file
from overtrick.core import RunError, files
from overtrick.distributed.workers import LocalPool
from overtrick.runs import child_runs, html_page, lifecycle, tune_trial
from overtrick.runs.best_model import BestModel
from overtrick.storage import model_files, parquet, run_folder
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import mlflow_tracker
from overtrick.training import registry
from overtrick.training.adaptation import meta

FULL = "cannot write .*File too large"  # errno of the limit, in place of "No space left on device"
KIND = parquet.Kind("faults", 1, "write it again")


@contextmanager
def full_disk(most_bytes: int = 100) -> Iterator[None]:
    """Limit the size of files within a block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def make_model(folder: Path, size: float) -> None:
    weights = {"policy.w0": np.full((30, 30), size, np.float32)}
    model_files.save(model_files.Model(weights, "kuhn", {}), folder)


WRITERS: dict[str, Callable[[Path, float], None]] = {
    "model": make_model,
    "columns": lambda path, size: parquet.save(path, KIND, {}, {"x": np.arange(900) * size}),
    "array": lambda path, size: files.write_array(path, np.full(900, size)),
    "table": lambda path, size: files.write_text(path, json.dumps([size] * 900)),
}


def file_contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_no_partial_one(what: str, tmp_path: Path) -> None:
    write = WRITERS[what]
    with full_disk(), pytest.raises(OSError, match=FULL):
        write(tmp_path / "file", 1.5)
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "file", 1.5)
    before = file_contents(tmp_path)
    with full_disk(), pytest.raises(OSError, match=FULL):
        write(tmp_path / "file", 2.5)
    assert file_contents(tmp_path) == before


def test_a_checkpoint_on_a_full_disk_is_skipped_and_training_continues(
    tmp_path: Path,
) -> None:
    job = job_file.parse(TINY, registry.JOBS, "tiny")
    ours = tune_trial.Trial.__new__(tune_trial.Trial)  # the trainer alone, without Tune's folders
    ours.trainer, ours.best = meta.MetaTrainer(job, LocalPool()), BestModel()
    places = [tmp_path / f"tune-0/trial-0/checkpoint_{k}" for k in range(2)]
    for place in places:
        place.mkdir(parents=True)
    ours.trainer.step()
    ours.save_checkpoint(str(places[0]))
    expected = ours.trainer.step()
    with full_disk(), pytest.raises(OSError, match=rf"{run_folder.STATE}: File too large"):
        ours.save_checkpoint(str(places[1]))
    assert RunFolder(tmp_path).checkpoints().newest() == places[0]
    ours.load_checkpoint(str(places[0]))
    assert ours.trainer.step() == expected
    ours.save_checkpoint(str(places[1]))
    assert RunFolder(tmp_path).checkpoints().iteration() == 2


def open_tracker(store: str, folder: Path) -> mlflow_tracker.Tracker:
    folder.mkdir(exist_ok=True)
    return mlflow_tracker.Tracker(store, "faults", folder.name, folder, {})


def test_a_spool_on_a_full_disk_holds_whole_lines_from_which_the_run_continues(
    store: str, tmp_path: Path
) -> None:
    folder = tmp_path / "spool"
    first = open_tracker(store, folder)
    first.metrics(1, {"payoff": 1.0})
    spool = folder / "track.jsonl"
    before = spool.read_bytes()
    with full_disk(len(before) + 10), pytest.raises(OSError, match="jsonl: File too large"):
        first.metrics(2, {"payoff": 2.0})
    assert spool.read_bytes() == before
    assert first.reported == 1
    assert first.close("FAILED") == 0  # there is space again for the status
    second = open_tracker(store, folder)
    second.metrics(2, {"payoff": 2.0})
    assert RunFolder(folder).history() == [(1, {"payoff": 1.0}), (2, {"payoff": 2.0})]
    assert second.close("FINISHED") == 0
    assert logged_metrics.in_mlflow(MlflowClient(store), second.run_id) == {
        "payoff": [(1, 1.0), (2, 2.0)]
    }


def full_disk_for(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Make spools refuse lines that contain a text, or whose path contains it."""
    add = mlflow_tracker.append_line

    def full(path: Path, line: str) -> None:
        if what in f"{path} {line}":
            raise OSError(28, f"cannot write {path}: No space left on device")
        add(path, line)

    monkeypatch.setattr(mlflow_tracker, "append_line", full)


def test_spooled_events_are_delivered_on_a_full_disk(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = open_tracker(store, tmp_path / "closing")
    full_disk_for(monkeypatch, "status")
    tracker.metrics(1, {"payoff": 1.0})
    with pytest.raises(OSError, match=r"track\.jsonl: No space left"):
        tracker.close("FINISHED")
    assert logged_metrics.in_mlflow(MlflowClient(store), tracker.run_id) == {"payoff": [(1, 1.0)]}


def test_the_error_that_stops_a_run_is_raised_on_a_full_disk(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = open_tracker(store, tmp_path / "stopped")
    folder = RunFolder(tracker.folder)
    lifecycle.write_job(job_file.parse(TINY, registry.JOBS, "tiny"), folder)
    full_disk_for(monkeypatch, mlflow_tracker.SPOOL)
    with (
        pytest.raises(RunError, match="the trial failed"),
        html_page.reporting_failure(folder, tracker, tracker.close),
    ):
        raise RunError("the trial failed")
    assert caplog.text.count("No space left on device") == 2  # one for the note, one for the status


def test_every_child_run_is_closed_though_one_meets_a_full_disk(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_file.parse({**TINY, "track": {"uri": store}}, registry.JOBS, "tiny")
    folder = RunFolder(tmp_path / "whole")
    folder.children.mkdir(parents=True)
    lifecycle.write_job(job, folder)
    with (
        pytest.raises(OSError, match=r"whole-001/track\.jsonl: No space left"),
        child_runs.open_group(folder, job, [job] * 3) as whole,
    ):
        full_disk_for(monkeypatch, "whole-001")
    client = MlflowClient(store)
    ids = [tracker.run_id for tracker in (whole.tracker, *(p.tracker for p in whole.children))]
    statuses = [client.get_run(each).info.status for each in ids if each]
    assert statuses == ["FINISHED", "FINISHED", "RUNNING", "FINISHED"]


def test_delivery_continues_when_its_count_cannot_be_written(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = mlflow_tracker.write_text, []

    def full_write(path: Path, text: str) -> None:
        if path.name == "track.sent" and len(failures) < 2:
            failures.append(path)
            raise OSError(28, f"cannot write {path}: No space left on device")
        write(path, text)

    monkeypatch.setattr(mlflow_tracker, "write_text", full_write)
    monkeypatch.setattr(mlflow_tracker, "BACKOFF", (0.01, 0.05))
    tracker = open_tracker(store, tmp_path / "count")
    for step in (1, 2, 3):
        tracker.metrics(step, {"payoff": float(step)})
    assert tracker.close("FINISHED") == 0
    assert len(failures) == 2
    assert logged_metrics.in_mlflow(MlflowClient(store), tracker.run_id) == {
        "payoff": [(s, float(s)) for s in (1, 2, 3)]
    }


def test_steps_are_recorded_once_and_in_order_though_the_clock_jumps_by_an_hour(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour, clock = 3_600_000_000_000, time.time_ns
    jumps = [0, -hour, hour, 0, -hour]
    folder = tmp_path / "clock"
    for opened in (0, 1):  # the second resume has its clock an hour behind
        tracker = open_tracker(store, folder)
        for step, jump in enumerate(jumps, 1 + opened * len(jumps)):
            monkeypatch.setattr(time, "time_ns", lambda jump=jump: clock() + jump)
            tracker.metrics(step, {"payoff": float(step)})
        assert tracker.close("FINISHED") == 0
    client = MlflowClient(store)
    history = client.get_metric_history(tracker.run_id, "payoff")
    assert [(m.step, m.value) for m in history] == [(s, float(s)) for s in range(1, 11)]
    stamps = [m.timestamp for m in history]
    assert stamps == sorted(stamps)
    about = client.get_run(tracker.run_id)
    assert about.info.start_time <= stamps[0] <= stamps[-1] <= about.info.end_time
    assert about.data.metrics["payoff"] == 10.0
