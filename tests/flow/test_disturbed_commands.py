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
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import logged_metrics
import psutil
import pytest
import yaml
from command_process import COMMAND, PATIENCE, environment, kill, mlflow_server
from mlflow import MlflowClient
from ray_head import free_ports
from small_meta_job import TINY
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
ITERATIONS = 25
DISTURBED = 5  # the iteration after which a run is disturbed
RESUME = "`overtrick resume RUN` continues"
SIGNAL_ROUND = 60.0  # seconds in which a command must end after a fault


@dataclass
class FaultRow:
    """A row of the table of faults."""

    fault: str
    lost: int = 0  # iterations that the track record or MLflow lack
    doubled: int = 0  # iterations that either has more than once
    compared: list[bool] = field(default_factory=list)  # equal to an undisturbed run, one each
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """Return True if all comparisons were made and found metrics, model and table equal."""
        return bool(self.compared) and all(self.compared)


class Place:
    """A folder in which commands run, with a job file and runs of its own."""

    def __init__(self, folder: Path, store: str, **changes: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.store = folder, store
        stop = {"iterations": ITERATIONS}
        job = {**TINY, "workers": 1, "stop": stop, "track": {"uri": store}, **changes}
        (folder / "tiny.yaml").write_text(yaml.safe_dump(job))

    @property
    def runs(self) -> list[RunFolder]:
        return [RunFolder(path) for path in sorted((self.folder / "runs").glob("*"))]

    @property
    def run(self) -> RunFolder:
        (only,) = self.runs
        return only

    def reached(self, iteration: int = DISTURBED) -> bool:
        """Return True once a run of this place has recorded an iteration."""
        found = self.folder.rglob("track.jsonl")
        return any(f'"step": {iteration},' in file.read_text() for file in found)

    def command(self, *words: str) -> tuple[int, str]:
        """Run a command in this process and return its exit code and the line of its error."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["overtrick", *words])
            with (self.folder / "errors").open("w") as errors:
                patch.setattr(sys, "stderr", errors)
                with pytest.raises(SystemExit) as ended:
                    cli.main()
        assert "Traceback" not in self.errors
        return int(ended.value.code or 0), self.last_line

    @property
    def errors(self) -> str:
        return (self.folder / "errors").read_text()

    @property
    def last_line(self) -> str:
        return self.errors.strip().rpartition("\n")[2]

    def start(self, *words: str, errors: str = "errors") -> subprocess.Popen[bytes]:
        """Start a command in a process and a session of its own. `errors`: file of its errors."""
        with (self.folder / errors).open("w") as file:
            return subprocess.Popen(
                [*COMMAND, *words],
                cwd=self.folder, env=environment(), stdout=subprocess.DEVNULL, stderr=file,
                start_new_session=True,
            )  # fmt: skip

    def resume(self) -> None:
        code, _ = self.command("resume", self.run.name)
        assert code == 0, self.errors


@pytest.fixture
def place(local_ray: None, store: str, tmp_path: Path) -> Place:
    return Place(tmp_path, store)


@pytest.fixture(scope="module")
def undisturbed(local_ray: None, store: str, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    place = Place(tmp_path_factory.mktemp("undisturbed"), store)
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


def outcome(run: RunFolder) -> dict[str, Any]:
    """Return the metrics, model and table of a run, without what differs between equal runs."""
    card = json.loads((run.model / model_files.CARD).read_text())
    del card["job"]["track"]  # the server
    return {
        "metrics": run.history(),
        "weights": (run.model / model_files.WEIGHTS).read_bytes(),
        "card": card,
        "table": run.table.read_bytes(),
    }


def compare(row: FaultRow, run: RunFolder, expected: RunFolder, store: str) -> None:
    """Fill a row with the comparison of a finished run with an undisturbed one, and assert that
    nothing is lost, doubled or different, and that MLflow knows that the run has finished."""
    lines = [json.loads(line) for line in (run.path / mlflow_tracker.SPOOL).open()]
    steps = [Counter(e["step"] for e in lines if "metrics" in e)]
    client, points = MlflowClient(store), logged_metrics.of_history(expected.history())
    in_mlflow = logged_metrics.in_mlflow(client, str(run.run_id))
    steps += [Counter(step for step, _ in in_mlflow.get(name, [])) for name in points]
    wanted = [Counter(step for step, _ in expected.history())]
    wanted += [Counter(step for step, _ in each) for each in points.values()]
    row.lost += max(sum((w - s).values()) for w, s in zip(wanted, steps, strict=True))
    row.doubled += max(sum((s - w).values()) for w, s in zip(wanted, steps, strict=True))
    row.compared.append(outcome(run) == outcome(expected) and in_mlflow == points)
    assert (row.lost, row.doubled, row.equal) == (0, 0, True)
    assert client.get_run(str(run.run_id)).info.status == "FINISHED"


@contextmanager
def meanwhile(there: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Act in a thread as soon as `there()` is true, while the block goes on. Assert at its end that
    it was."""
    over, done = threading.Event(), []

    def wait() -> None:
        while not over.wait(0.02):
            if there():
                act()
                done.append(True)
                return

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert done, "it ended before it was disturbed"


def wait_for(there: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    """Wait until `there()` is true. Raise AssertionError if the process ends before."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert process.poll() is None, "it ended before it could be disturbed"
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.02)


def session_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the live processes of the session of a command, the command itself among them."""
    found = []
    for each in psutil.process_iter():
        try:
            if os.getsid(each.pid) == process.pid and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def ended(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a command that must end soon, and leave no process of its session."""
    try:
        code = process.wait(SIGNAL_ROUND)
        deadline = time.monotonic() + 10
        while (left := session_of(process)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not left
    finally:
        kill(process)
    return code


def process_of_ray(name: str, driver: int) -> psutil.Process:
    """Return the process of a driver's Ray that has a name."""
    (found,) = (p for p in psutil.Process(driver).children() if p.name() == name)
    return found


def actor(title: str, driver: int) -> psutil.Process | None:
    """Return the process of an actor on a driver's Ray; None if there is none."""
    for each in psutil.Process(driver).children(recursive=True):
        try:
            if each.cmdline()[:1] and each.cmdline()[0].startswith(title):
                return each
        except psutil.Error:  # the process has ended
            continue
    return None


def actor_here(title: str) -> psutil.Process:
    """Return the process of an actor on the Ray of this process."""
    found = actor(title, os.getpid())
    assert found is not None
    return found


def test_driver_killed(row: FaultRow, place: Place, undisturbed: RunFolder) -> None:
    driver = place.start("train", "tiny.yaml")
    try:
        wait_for(place.reached, driver)
    finally:
        kill(driver)
    place.resume()
    compare(row, place.run, undisturbed, place.store)


@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_process_of_ray_killed(
    name: str, row: FaultRow, place: Place, undisturbed: RunFolder
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


def test_raylet_killed_while_data_is_generated(row: FaultRow, tmp_path: Path) -> None:
    place = Place(tmp_path, "")
    generate = "generate", "minibridge", "--games", "30000", "--out"
    command = place.start(*generate, "games", "--workers", "1")
    try:
        wait_for(lambda: actor("ray::_Worker", command.pid), command)
        process_of_ray("raylet", command.pid).kill()
        assert ended(command) == 1
    finally:
        kill(command)
    assert place.last_line.startswith("error: Ray's process raylet has died")
    assert place.last_line.endswith(": run the command again")
    assert not (tmp_path / "games").exists()
    for out in ("games", "whole"):
        assert place.command(*generate, out)[0] == 0
    row.compared.append(file_contents(tmp_path / "games") == file_contents(tmp_path / "whole"))
    assert row.equal


@pytest.mark.parametrize("title", ["ray::_Worker", "ray::_HostActor"], ids=["worker", "host"])
def test_actor_killed(title: str, row: FaultRow, place: Place, undisturbed: RunFolder) -> None:
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
    place = Place(tmp_path, f"http://127.0.0.1:{port}")
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
    what: str, row: FaultRow, place: Place, undisturbed: RunFolder, monkeypatch: pytest.MonkeyPatch
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
    row: FaultRow, place: Place, undisturbed: RunFolder, monkeypatch: pytest.MonkeyPatch,
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


def test_disk_full_at_a_checkpoint(row: FaultRow, place: Place, undisturbed: RunFolder) -> None:
    with meanwhile(place.reached, lambda: limit_file_size(actor_here("ray::Trial").pid, 100)):
        code, _ = place.command("train", "tiny.yaml")
    assert code == 0, place.errors  # Tune starts the trial again, from its last checkpoint
    compare(row, place.run, undisturbed, place.store)


def test_disk_full_at_a_data_set(
    row: FaultRow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, "")
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
    row: FaultRow, place: Place, undisturbed: RunFolder, monkeypatch: pytest.MonkeyPatch
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


def test_ctrl_c_while_ray_starts(row: FaultRow, place: Place, undisturbed: RunFolder) -> None:
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


def test_ctrl_c_in_training(row: FaultRow, place: Place, undisturbed: RunFolder) -> None:
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
    stage: str, row: FaultRow, place: Place, undisturbed: RunFolder, monkeypatch: pytest.MonkeyPatch
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


def test_sweep_stopped_by_ctrl_c(
    row: FaultRow, local_ray: None, store: str, tmp_path: Path
) -> None:
    search = {"seed": {"grid": [5, 6]}}
    places = [Place(tmp_path / name, store, search=search) for name in ("whole", "stopped")]
    assert places[0].command("sweep", "tiny.yaml")[0] == 0, places[0].errors
    with meanwhile(places[1].reached, interrupt):
        code, line = places[1].command("sweep", "tiny.yaml")
    assert_stopped(code, line)
    places[1].resume()
    for number in range(2):
        whole, resumed = (place.run.child(number) for place in places)
        compare(row, resumed, whole, store)
    row.compared.append(places[0].run.table.read_bytes() == places[1].run.table.read_bytes())
    assert row.equal
