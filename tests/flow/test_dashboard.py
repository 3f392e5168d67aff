"""`overtrick dashboard`: the right store, on this machine only, and a page that shows a run's
results."""

from __future__ import annotations

import http.server
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from browser import needs_browser, screenshot, text_of
from command_process import COMMAND, environment
from ray_head import free_ports
from small_meta_job import TINY

from overtrick import cli
from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.reports import tables
from overtrick.storage import locate
from overtrick.tracking import mlflow_tracker
from overtrick.training.registry import JOBS

PICTURES = Path(__file__).parents[2] / "build"


@pytest.fixture
def open_dashboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Return a function that runs `dashboard` in an empty folder and returns the exit code and the
    last line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("OVERTRICK_RUNS", raising=False)

    def ask(*arguments: str) -> tuple[Any, str]:
        monkeypatch.setattr(sys, "argv", ["overtrick", "dashboard", *arguments])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, " ".join(capsys.readouterr().err.split())

    return ask


def a_run(folder: Path, name: str, uri: str) -> Path:
    """Write the files of a run that `dashboard` reads."""
    place = folder / "runs" / name
    place.mkdir(parents=True)
    job = {"trainer": "meta", "game": {"name": "kuhn", "options": {}}, "track": {"uri": uri}}
    (place / "job.json").write_text(json.dumps(job))
    return place


def test_a_password_in_the_tracking_uri_is_refused_and_not_shown(
    open_dashboard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_text = "MLFLOW_TRACKING_URI: leave the password out: set MLFLOW_TRACKING_USERNAME and"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:1")
    code, line = open_dashboard()
    assert code == 2
    assert line.startswith(f"error: {page_text}")
    assert "secret" not in line
    # as when a job is read, and when a registered model is looked up
    for ask in (
        lambda: job_file.parse({"trainer": "meta", "game": "kuhn"}, JOBS, "job.yaml"),
        job_file.Track,
        lambda: locate.model_folder("models:/bidder@best"),
    ):
        with pytest.raises(UserError, match=page_text) as refused:
            ask()
        assert "secret" not in str(refused.value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:secret@db/mlflow")
    assert open_dashboard() == (
        2,
        "error: MLFLOW_TRACKING_URI: must be sqlite:///FILE or the http address of a server",
    )
    job = {"model": "models:/bidder@best", "track": {"uri": "http://me:secret@127.0.0.1:1"}}
    with pytest.raises(UserError, match=r"'track\.uri' in job\.yaml: leave the password out"):
        locate.pin_models(job, "job.yaml")


def test_a_missing_or_invalid_store_is_refused_with_one_line(
    open_dashboard: Any, tmp_path: Path
) -> None:
    code, page_text = open_dashboard()
    assert code == 2
    assert page_text.startswith("error: no MLflow store at sqlite:///")
    assert page_text.endswith("set MLFLOW_TRACKING_URI, or train a model")
    assert open_dashboard("--uri", "http://me:secret@x")[1].startswith(
        "error: --uri: leave the password out"
    )
    gone = f"sqlite:///{tmp_path}/gone.db"
    a_run(tmp_path, "mine", gone)
    assert f"no MLflow store at {gone}" in open_dashboard()[1]  # the store of the last run
    assert "no run 'mime' in" in open_dashboard("--run", "mime")[1]
    (tmp_path / "gone.db").touch()
    assert open_dashboard("--run", "mine")[1] == (
        "error: MLflow does not know mine: `overtrick resume mine` records it there"
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert open_dashboard("--port", port)[1].startswith(
            f"error: nothing can listen at 127.0.0.1:{port}"
        )
    assert open_dashboard("--host", "ü" * 64)[1].startswith("error: nothing can listen at ü")


class Healthy(http.server.BaseHTTPRequestHandler):
    """Server that answers every request with success, and knows the experiment of run abc."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path.endswith("/runs/get?run_id=abc"):
            self.wfile.write(b'{"run": {"info": {"experiment_id": "7"}}}')

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_the_address_of_a_running_server_is_printed(open_dashboard: Any, tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        (a_run(tmp_path, "mine", url) / mlflow_tracker.IDENTITY).write_text("abc")
        training = "workflowType=machine_learning"
        assert open_dashboard() == (0, f"open {url}/#/experiments?{training}")
        page = f"{url}/#/experiments/7/runs/abc?{training}"
        assert open_dashboard("--run", "mine") == (0, f"open {page}")
        (tmp_path / "runs" / "mine" / mlflow_tracker.IDENTITY).write_text("unknown")
        page = f"{url}/#/runs/unknown?{training}"
        assert open_dashboard("--run", "mine") == (0, f"open {page}")
        server.shutdown()


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[tuple[str, psutil.Process]]:
    """Start a dashboard as a user does; yield its address and its process, and stop it at the
    end."""
    process = subprocess.Popen(
        [*COMMAND, "dashboard", *arguments],
        cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        found = next(filter(None, (re.match(r"open (\S+)", line) for line in process.stderr)), None)
        assert found is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()
        whole = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        yield found[1], whole[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    _, left = psutil.wait_procs(whole, timeout=30)
    assert left == []


@pytest.mark.slow
@needs_browser
def test_the_page_of_a_run_shows_its_results_at_the_top(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(TINY))
    done = subprocess.run(
        [*COMMAND, "train", "small.yaml", "track.register=small", "--json"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    folder = tmp_path / "runs" / answer["run"]
    PICTURES.mkdir(exist_ok=True)
    picture = PICTURES / "dashboard.png"
    picture.unlink(missing_ok=True)
    with started(tmp_path, "--run", answer["run"], "--port", str(*free_ports(1))) as (url, process):
        listening = [
            each.laddr
            for one in (process, *process.children(recursive=True))
            for each in one.net_connections()
            if each.status == psutil.CONN_LISTEN
        ]
        assert {place.ip for place in listening} == {"127.0.0.1"}
        for _ in range(5):  # the page waits for its server, which may be slow
            page_text = text_of(screenshot(url, 30_000, picture))
            if answer["run"] in page_text and "Logged models (1)" in page_text:
                break
    assert answer["run"] in page_text
    for tag in ("overtrick.trainer", "overtrick.game", "overtrick.version"):
        assert tag in page_text
    for entry in _entries(folder):
        assert entry in page_text
    for name, value in answer["metrics"].items():
        printed = re.search(rf" {re.escape(name)} (-?[\d.]\S*)", page_text)
        assert printed is not None, name
        assert float(printed[1]) == pytest.approx(value), name
    assert "small v1" in page_text
    assert picture.stat().st_size > 20_000


def _entries(folder: Path) -> list[str]:
    """Return every entry of the table in the note of a run, with its row and column."""
    rows = json.loads((folder / "table.json").read_text())
    names, cells = tables.cells(tables.evaluation(rows, "chip"))
    return ["meta on kuhn", "seed 5, 6 iterations", *names, *(c for row in cells for c in row)]
