"""A real MLflow server that is away when a run begins, or killed while it goes on: the run comes to
the same numbers, and in the end MLflow has every step of it once and in order."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import points
import pytest
from head import free_ports
from mlflow import MlflowClient
from outside import PATIENCE, kill, mlflow_server
from tiny import TINY, alone

from overtrick.config import job_file
from overtrick.runs import lifecycle
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import mlflow_tracker
from overtrick.training import registry

pytestmark = pytest.mark.slow

STEPS = 12
JOB: dict[str, Any] = {**TINY, "stop": {"iterations": STEPS}}


class Server:
    """`mlflow server` on a SQLite file, at an address that it keeps."""

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
    """That of a run which tells this server."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    job = {**JOB, "track": {"uri": server.uri}}
    asked = job_file.parse(job, registry.JOBS, "tiny")
    lifecycle.check_job(asked)  # it need not be there yet
    return lifecycle.open_folder(asked, "tiny")


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[dict[str, float]], dict[str, Any]]:
    """What such a run comes to, told to nobody."""
    return alone(JOB)


def told(folder: RunFolder) -> tuple[int, int]:
    """How many events a run has kept on disk, and how many of them MLflow has taken."""
    sent = folder.path / "track.sent"
    kept = (folder.path / mlflow_tracker.SPOOL).read_text().count("\n")
    return kept, int(sent.read_text()) if sent.exists() else 0


def check(
    folder: RunFolder, server: Server, expected: tuple[list[dict[str, float]], dict[str, Any]]
) -> None:
    """MLflow has what the run has on disk, which is what an undisturbed run has."""
    metrics, weights = expected
    assert folder.history() == list(enumerate(metrics, start=1))
    stored = model_files.load(folder.model, "kuhn").weights
    assert stored.keys() == weights.keys()
    assert all(np.array_equal(stored[name], weights[name]) for name in weights)
    client = MlflowClient(server.uri)
    place = client.get_experiment_by_name("overtrick").experiment_id
    (known,) = client.search_runs([place])
    assert known.info.status == "FINISHED"
    assert known.data.params["meta.inner_lr"] == "0.1"
    expected_points = points.of(enumerate(metrics, start=1))
    assert points.known(client, known.info.run_id) == expected_points
    assert known.data.metrics == {name: each[-1][1] for name, each in expected_points.items()}
    assert {"job.json", "table.json", "figures"} <= {
        file.path for file in client.list_artifacts(known.info.run_id)
    }
    (left,) = client.search_logged_models([place])
    assert (left.source_run_id, left.status) == (known.info.run_id, "READY")


def test_a_server_that_comes_up_while_a_run_goes_on_hears_of_all_of_it(
    local_ray: None, server: Server, folder: RunFolder, undisturbed: Any
) -> None:
    def progress(iteration: int, metrics: Mapping[str, float]) -> None:
        if iteration == STEPS // 2:
            kept, sent = told(folder)
            assert (kept, sent) == (iteration + 3, 0)  # after parameters, job and note
            server.start()

    assert lifecycle.train(folder, progress).undelivered == ""
    check(folder, server, undisturbed)


def test_a_server_that_was_away_all_the_time_hears_of_a_run_when_that_is_opened_again(
    local_ray: None, server: Server, folder: RunFolder, undisturbed: Any
) -> None:
    done = lifecycle.train(folder, lambda iteration, metrics: None)
    kept, sent = told(folder)
    assert sent == 0
    assert done.undelivered.startswith(f"{kept} events: ")
    server.start()
    assert lifecycle.train(folder, lambda iteration, metrics: None).undelivered == ""
    check(folder, server, undisturbed)


def test_a_server_that_is_killed_and_started_again_has_every_step_once(
    local_ray: None, server: Server, folder: RunFolder, undisturbed: Any
) -> None:
    taken = []

    def progress(iteration: int, metrics: Mapping[str, float]) -> None:
        if iteration == 4:
            deadline = time.monotonic() + PATIENCE
            while told(folder)[1] == 0:
                assert time.monotonic() < deadline, "nothing is delivered"
                time.sleep(0.02)
        if iteration in (5, 9):  # the iteration is on its way there
            server.kill()
            taken.append(told(folder))
        if iteration in (7, 10):
            kept, sent = told(folder)
            assert kept > sent
            server.start()

    server.start()
    assert lifecycle.train(folder, progress).undelivered == ""
    assert [kept for kept, sent in taken] == [8, 12]
    assert all(0 < sent <= kept for kept, sent in taken)
    check(folder, server, undisturbed)
