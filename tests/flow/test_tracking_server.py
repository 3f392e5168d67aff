"""A real MLflow server that is away when a run begins, or killed during the run: the run gives the
same numbers, and in the end MLflow has every step once and in order."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import logged_metrics
import numpy as np
import pytest
from command_process import PATIENCE, kill, mlflow_server
from mlflow import MlflowClient
from ray_head import free_ports
from small_meta_job import TINY, local_run

from overtrick.config import job_file
from overtrick.reports.metric_names import GAMES_PER_SECOND, ITERATION_SECONDS, SCORE
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import mlflow_tracker
from overtrick.training import registry

pytestmark = pytest.mark.slow

STEPS = 12
JOB: dict[str, Any] = {**TINY, "stop": {"iterations": STEPS}}


class Server:
    """`mlflow server` on a SQLite file, at a fixed address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        where = "--backend-store-uri", f"sqlite:///{self.folder}/server.db"
        files = "--artifacts-destination", f"{self.folder}/files"
        self.process = mlflow_server(self.folder, self.port, *where, *files)

    def kill(self) -> None:
        if self.process is not None:
            kill(self.process)
            self.process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.kill()


@pytest.fixture
def folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """Return the folder of a run that is tracked at this server."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    job = {**JOB, "track": {"uri": server.uri}}
    parsed = job_file.parse(job, registry.JOBS, "tiny")
    lifecycle.check_job(parsed)  # it need not exist yet
    return lifecycle.open_folder(parsed, "tiny")


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[dict[str, float]], dict[str, Any]]:
    """Return the result of such a run without tracking."""
    return local_run(JOB)


def event_counts(folder: RunFolder) -> tuple[int, int]:
    """Return the number of events that a run has on disk, and of those that MLflow has received."""
    sent = folder.path / "track.sent"
    on_disk = (folder.path / mlflow_tracker.SPOOL).read_text().count("\n")
    return on_disk, int(sent.read_text()) if sent.exists() else 0


def check(
    folder: RunFolder, server: Server, expected: tuple[list[dict[str, float]], dict[str, Any]]
) -> None:
    """Assert that MLflow has the events on disk, and that they equal those of an undisturbed
    run."""
    metrics, weights = expected
    assert folder.history() == list(enumerate(metrics, start=1))
    stored = model_files.load(folder.model, "kuhn").weights
    assert stored.keys() == weights.keys()
    assert all(np.array_equal(stored[name], weights[name]) for name in weights)
    client = MlflowClient(server.uri)
    place = client.get_experiment_by_name("overtrick").experiment_id
    (recorded,) = client.search_runs([place])
    assert recorded.info.status == "FINISHED"
    assert recorded.data.params["meta.inner_lr"] == str(folder.read_job()["meta"]["inner_lr"])
    expected_points = logged_metrics.of_history(enumerate(metrics, start=1))
    assert logged_metrics.in_mlflow(client, recorded.info.run_id) == expected_points
    last = {name: each[-1][1] for name, each in expected_points.items()}
    others = recorded.data.metrics.keys() - last.keys()
    assert others == {SCORE, ITERATION_SECONDS, GAMES_PER_SECOND}
    assert recorded.data.metrics.items() >= last.items()
    assert {"job.json", "table.json", "figures"} <= {
        file.path for file in client.list_artifacts(recorded.info.run_id)
    }
    (left,) = client.search_logged_models([place])
    assert (left.source_run_id, left.status) == (recorded.info.run_id, "READY")


def test_a_server_that_starts_during_a_run_receives_all_of_it(
    local_ray: None, server: Server, folder: RunFolder, undisturbed: Any
) -> None:
    def progress(iteration: int, metrics: Mapping[str, float]) -> None:
        if iteration == STEPS // 2:
            on_disk, sent = event_counts(folder)
            assert (on_disk, sent) == (iteration + 3, 0)  # after parameters, job and note
            server.start()

    assert lifecycle.train(folder, progress).undelivered == ""
    check(folder, server, undisturbed)


def test_a_server_that_was_away_during_a_run_receives_it_when_it_is_opened_again(
    local_ray: None, server: Server, folder: RunFolder, undisturbed: Any
) -> None:
    done = lifecycle.train(folder, lambda iteration, metrics: None)
    on_disk, sent = event_counts(folder)
    assert sent == 0
    assert done.undelivered.startswith(f"{on_disk} events: ")
    server.start()
    assert lifecycle.train(folder, lambda iteration, metrics: None).undelivered == ""
    check(folder, server, undisturbed)


def test_a_killed_and_restarted_server_has_every_step_once(
    local_ray: None, server: Server, folder: RunFolder, undisturbed: Any
) -> None:
    taken = []

    def progress(iteration: int, metrics: Mapping[str, float]) -> None:
        if iteration == 4:
            deadline = time.monotonic() + PATIENCE
            while event_counts(folder)[1] == 0:
                assert time.monotonic() < deadline, "nothing is delivered"
                time.sleep(0.02)
        if iteration in (5, 9):  # the iteration is being sent
            server.kill()
            taken.append(event_counts(folder))
        if iteration in (7, 10):
            on_disk, sent = event_counts(folder)
            assert on_disk > sent
            server.start()

    server.start()
    assert lifecycle.train(folder, progress).undelivered == ""
    assert [on_disk for on_disk, sent in taken] == [8, 12]
    assert all(0 < sent <= on_disk for on_disk, sent in taken)
    check(folder, server, undisturbed)
