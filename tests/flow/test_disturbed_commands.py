"""Commands that are killed, interrupted or out of disk space, and then continued.

Each test is one row of the table that `make faults` prints. It disturbs a command, continues its
run, and compares the run with an undisturbed one: the metrics of every iteration in the run's track
record and in MLflow, the files of the model, and the results table. Where a test needs no signal to
another process, the command runs in this process, on the Ray of all tests.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from command_process import PATIENCE, kill, mlflow_server, wait_for
from disturbed_command import (
    DISTURBED,
    ITERATIONS,
    FaultRow,
    JobFolder,
    actor,
    actor_here,
    compare,
    ended,
    meanwhile,
    process_of_ray,
)
from ray_head import free_ports
from test_cluster_faults import limit_file_size
from test_faults import file_contents, full_disk

from overtrick import cli
from overtrick.runs import html_page, lifecycle
from overtrick.storage import model_files, parquet
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import mlflow_tracker
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.adaptation.meta import MetaTrainer

pytestmark = pytest.mark.slow
RESUME = "`overtrick resume RUN` continues"


@pytest.fixture
def place(local_ray: None, store: str, tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, store)


@pytest.fixture(scope="module")
def undisturbed(local_ray: None, store: str, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = JobFolder(tmp_path_factory.mktemp("undisturbed"), store)
    code, _ = place.command("train", "tiny.yaml")
    assert code == 0, place.errors
    return place.run


@pytest.fixture
def row(request: pytest.FixtureRequest, fault_rows: list[FaultRow]) -> Iterator[FaultRow]:
    """Return the row of a test, which is printed with the table at the end."""
    made = FaultRow(request.node.originalname.removeprefix("test_").replace("_", " "))
    if hasattr(request.node, "callspec"):
        made.fault += f": {request.node.callspec.id}"
    began = time.monotonic()
    yield made
    made.seconds = time.monotonic() - began
    fault_rows.append(made)


def test_driver_killed(row: FaultRow, place: JobFolder, undisturbed: RunFolder) -> None:
    driver = place.start("train", "tiny.yaml")
    try:
        wait_for(place.reached, driver)
    finally:
        kill(driver)
    place.resume()
    compare(row, place.run, undisturbed, place.store)


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_process_of_ray_killed(
    name: str, row: FaultRow, place: JobFolder, undisturbed: RunFolder
) -> None:
    driver = place.start("train", "tiny.yaml")
    try:
        wait_for(place.reached, driver)
        process_of_ray(name, driver.pid).kill()
        assert ended(driver) == 1
    finally:
        kill(driver)
    assert place.last_line.startswith(f"error: Ray's process {name} has died")
    assert place.last_line.endswith(f"{RESUME} the run")
    assert "Traceback" not in place.errors
    place.resume()
    compare(row, place.run, undisturbed, place.store)


def lose_raylet(place: JobFolder, there: Callable[[int], object], *words: str) -> None:
    """Start a command, kill its raylet once `there(pid)` is true, and wait for its error."""
    command = place.start(*words)
    try:
        wait_for(lambda: there(command.pid), command)
        process_of_ray("raylet", command.pid).kill()
        assert ended(command) == 1
    finally:
        kill(command)
    assert place.last_line.startswith("error: Ray's process raylet has died")
    assert "Traceback" not in place.errors


def has_worker(driver: int) -> bool:
    """Return whether a command has a worker on its Ray."""
    return actor("ray::_Worker", driver) is not None


def test_raylet_killed_while_data_is_generated(row: FaultRow, tmp_path: Path) -> None:
    place = JobFolder(tmp_path, "")
    generate = "generate", "minibridge", "--games", "30000", "--out"
    lose_raylet(place, has_worker, *generate, "games", "--workers", "1")
    assert place.last_line.endswith(": run the command again")
    assert not (tmp_path / "games").exists()
    for out in ("games", "whole"):
        assert place.command(*generate, out)[0] == 0
    row.compared.append(file_contents(tmp_path / "games") == file_contents(tmp_path / "whole"))
    assert row.equal


def test_raylet_killed_while_a_run_is_evaluated(row: FaultRow, undisturbed: RunFolder) -> None:
    place = JobFolder(undisturbed.path.parents[1], "")
    lose_raylet(place, has_worker, "evaluate", undisturbed.name, "--workers", "1")
    assert place.last_line.endswith(": run the command again")
    rows, _, _ = lifecycle.evaluate_stored(str(undisturbed.model), 1)
    row.compared.append(rows == json.loads(undisturbed.table.read_text()))
    assert row.equal


@pytest.mark.parametrize("title", ["ray::_Worker", "ray::_HostActor"], ids=["worker", "host"])
def test_actor_killed(title: str, row: FaultRow, place: JobFolder, undisturbed: RunFolder) -> None:
    with meanwhile(place.reached, lambda: actor_here(title).kill()):
        code, _ = place.command("train", "tiny.yaml")
    assert code == 0, place.errors
    compare(row, place.run, undisturbed, place.store)


def test_mlflow_server_killed(
    row: FaultRow, local_ray: None, undisturbed: RunFolder, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    options = "--backend-store-uri", f"sqlite:///{tmp_path}/server.db"
    server = mlflow_server(tmp_path, port, *options)
    place = JobFolder(tmp_path, f"http://127.0.0.1:{port}")
    try:
        with meanwhile(place.reached, lambda: kill(server)):
            code, _ = place.command("train", "tiny.yaml")
        assert code == 0, place.errors
        assert "MLflow has not received" in place.errors
        server = mlflow_server(tmp_path, port, *options)
        place.resume()
        compare(row, place.run, undisturbed, place.store)
    finally:
        kill(server)


def on_full_disk(patch: pytest.MonkeyPatch, owner: Any, name: str, text: str = "") -> None:
    """Run a function on a full disk, in calls whose arguments contain a text."""
    function = getattr(owner, name)

    def limited(*arguments: Any, **more: Any) -> Any:
        if text not in "".join(map(str, arguments)):
            return function(*arguments, **more)
        with full_disk(10):
            return function(*arguments, **more)

    patch.setattr(owner, name, limited)


FILES: Mapping[str, tuple[Any, str, str]] = {
    "track record": (mlflow_tracker, "append_line", f'"step": {DISTURBED},'),
    "table": (lifecycle, "write_text", "table.json"),
    "model": (model_files, "save", ""),
}


@pytest.mark.parametrize("what", FILES)
def test_disk_full(
    what: str,
    row: FaultRow,
    place: JobFolder,
    undisturbed: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        on_full_disk(patch, *FILES[what])
        code, line = place.command("train", "tiny.yaml")
    assert code == 1
    assert "File too large" in line
    assert line.endswith(f"{RESUME} the run")
    place.resume()
    compare(row, place.run, undisturbed, place.store)


def test_disk_full_at_the_page(
    row: FaultRow, place: JobFolder, undisturbed: RunFolder, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    with monkeypatch.context() as patch:
        on_full_disk(patch, html_page, "write_text", "view.html")
        code, _ = place.command("train", "tiny.yaml")
    assert code == 0  # the run is whole without its page
    assert "no page of the run" in caplog.text
    assert not place.run.page.exists()
    place.resume()
    assert place.run.page.exists()
    compare(row, place.run, undisturbed, place.store)


def test_disk_full_at_a_checkpoint(row: FaultRow, place: JobFolder, undisturbed: RunFolder) -> None:
    with meanwhile(place.reached, lambda: limit_file_size(actor_here("ray::Trial").pid, 100)):
        code, _ = place.command("train", "tiny.yaml")
    assert code == 0, place.errors  # Tune starts the trial again, from its last checkpoint
    compare(row, place.run, undisturbed, place.store)


def test_disk_full_at_a_data_set(
    row: FaultRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = JobFolder(tmp_path, "")
    generate = "generate", "minibridge", "--games", "3000", "--out"
    assert place.command(*generate, "whole")[0] == 0
    before = set(tmp_path.rglob("*"))
    with monkeypatch.context() as patch:
        on_full_disk(patch, parquet, "save")
        code, line = place.command(*generate, "games")
    assert code == 1
    assert "File too large" in line
    assert [p for p in tmp_path.rglob("*") if p.is_file() and p not in before] == []
    assert place.command(*generate, "games")[0] == 0
    row.compared.append(file_contents(tmp_path / "games") == file_contents(tmp_path / "whole"))
    assert row.equal


def test_two_runs_of_one_name(
    row: FaultRow, place: JobFolder, undisturbed: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_second = SimpleNamespace(strftime=lambda form: "noon", perf_counter=time.perf_counter)
    monkeypatch.setattr(lifecycle, "time", one_second)
    refused, append = list[int](), mlflow_tracker.append_line

    def resume_it_too(path: Path, line: str) -> None:
        append(path, line)
        if f'"step": {DISTURBED},' in line:
            refused.append(place.start("resume", place.run.name, errors="refused").wait(PATIENCE))

    with monkeypatch.context() as patch:
        patch.setattr(mlflow_tracker, "append_line", resume_it_too)
        assert place.command("train", "tiny.yaml")[0] == 0, place.errors
    *_, line = (place.folder / "refused").read_text().splitlines()
    assert (refused, line) == ([2], "error: run tiny-noon is still going on in another process")
    assert place.command("train", "tiny.yaml")[0] == 0, place.errors
    assert [run.name for run in place.runs] == ["tiny-noon", "tiny-noon-1"]
    for run in place.runs:
        compare(row, run, undisturbed, place.store)


def assert_stopped(code: int, line: str) -> None:
    assert (code, line) == (cli.INTERRUPTED, f"stopped; {RESUME} it")


def test_ctrl_c_while_ray_starts(row: FaultRow, place: JobFolder, undisturbed: RunFolder) -> None:
    driver = place.start("train", "tiny.yaml")
    try:
        children = psutil.Process(driver.pid).children
        wait_for(lambda: "gcs_server" in {p.name() for p in children()}, driver)
        os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
        code = ended(driver)
    finally:
        kill(driver)
    assert "Traceback" not in place.errors
    assert_stopped(code, place.last_line)
    place.resume()
    compare(row, place.run, undisturbed, place.store)


def interrupt() -> None:
    """Send this process what Ctrl-C sends."""
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_in_training(row: FaultRow, place: JobFolder, undisturbed: RunFolder) -> None:
    with meanwhile(place.reached, interrupt):
        code, line = place.command("train", "tiny.yaml")
    assert_stopped(code, line)
    assert len(place.run.history()) < ITERATIONS
    place.resume()
    compare(row, place.run, undisturbed, place.store)


STAGES: Mapping[str, tuple[Any, str]] = {
    "judging": (MetaTrainer, "report"),
    "delivering": (Tracker, "close"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_in(
    stage: str,
    row: FaultRow,
    place: JobFolder,
    undisturbed: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner, name = STAGES[stage]
    function, interrupts = getattr(owner, name), []

    def interrupted(*arguments: Any) -> Any:
        if not interrupts:
            interrupts.append(True)
            threading.Timer(0.05, interrupt).start()
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:  # within the call
                time.sleep(0.01)
        return function(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        code, line = place.command("train", "tiny.yaml")
    assert interrupts
    assert_stopped(code, line)
    assert place.run.table.exists() == (stage == "delivering")
    place.resume()
    compare(row, place.run, undisturbed, place.store)


SWEEP = {"search": {"seed": {"grid": [5, 6]}}}


@pytest.fixture(scope="module")
def whole_sweep(local_ray: None, store: str, tmp_path_factory: pytest.TempPathFactory) -> JobFolder:
    place = JobFolder(tmp_path_factory.mktemp("sweep"), store, **SWEEP)
    assert place.command("sweep", "tiny.yaml")[0] == 0, place.errors
    return place


def resume_sweep(row: FaultRow, place: JobFolder, whole: JobFolder) -> None:
    """Resume a disturbed sweep; compare its two trials and its table with an undisturbed one."""
    place.resume()
    for number in range(2):
        compare(row, place.run.child(number), whole.run.child(number), place.store)
    row.compared.append(place.run.table.read_bytes() == whole.run.table.read_bytes())
    assert row.equal


def test_sweep_stopped_by_ctrl_c(
    row: FaultRow, whole_sweep: JobFolder, store: str, tmp_path: Path
) -> None:
    place = JobFolder(tmp_path, store, **SWEEP)
    with meanwhile(place.reached, interrupt):
        code, line = place.command("sweep", "tiny.yaml")
    assert_stopped(code, line)
    resume_sweep(row, place, whole_sweep)


def test_raylet_of_a_sweep_killed(
    row: FaultRow, whole_sweep: JobFolder, store: str, tmp_path: Path
) -> None:
    place = JobFolder(tmp_path, store, **SWEEP)
    lose_raylet(place, lambda _: place.reached(), "sweep", "tiny.yaml")
    assert place.last_line.endswith(f"{RESUME} the run")
    resume_sweep(row, place, whole_sweep)
