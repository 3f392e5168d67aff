"""Commands that tests disturb: a folder with runs, rows of the table of faults, comparisons."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import logged_metrics
import psutil
import pytest
import yaml
from command_process import COMMAND, environment, kill
from mlflow import MlflowClient
from small_meta_job import TINY

from overtrick import cli
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import mlflow_tracker

ITERATIONS = 25
DISTURBED = 5  # the iteration after which a run is disturbed
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


class JobFolder:
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
        """Return True once a run in this folder has recorded an iteration."""
        walked = os.walk(self.folder)  # which passes over a checkpoint that is deleted meanwhile
        found = [
            Path(folder, "track.jsonl") for folder, _, files in walked if "track.jsonl" in files
        ]
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


def outcome(run: RunFolder) -> dict[str, Any]:
    """Return the metrics, models and table of a run, without what differs between equal runs."""
    best = run.best_model / model_files.WEIGHTS
    card = json.loads((run.model / model_files.CARD).read_text())
    del card["job"]["track"]  # the server
    return {
        "metrics": run.history(),
        "weights": (run.model / model_files.WEIGHTS).read_bytes(),
        "best": best.read_bytes() if best.exists() else None,
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
