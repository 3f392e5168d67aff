"""Run the command line in a process of its own, as a user does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

PATIENCE = 240  # seconds to wait on a busy machine
COMMAND = [sys.executable, "-c", "from overtrick.cli import main; main()"]


def environment() -> dict[str, str]:
    """Return the environment of a user, without the Ray and MLflow settings of these tests."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "MLFLOW_"))}


def start_command(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start `overtrick ARGUMENTS` in a folder, in a session of its own that can be killed whole."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def wait_for(there: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    """Wait until `there()` is true. Raise AssertionError if the process ends before."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert process.poll() is None, "it ended before it could be disturbed"
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def kill_once(there: Callable[[], object], driver: subprocess.Popen) -> None:
    """Kill a process and all processes that it started, as soon as `there()` is true.

    Raises AssertionError if the process ends before.
    """
    try:
        wait_for(there, driver)
    finally:
        kill(driver)


def mlflow_server(
    folder: Path, port: int, *options: str, **settings: str
) -> subprocess.Popen[bytes]:
    """Start `mlflow server` in its own session and wait until it answers. It logs to the file
    `log`."""
    command = ["mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    settings["PATH"] = (
        f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # uvicorn must be found
    )
    settings["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    with (folder / "log").open("a") as log:
        serving = subprocess.Popen(
            [sys.executable, "-m", *command, *options],
            cwd=folder, env=environment() | settings, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + PATIENCE
    try:
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert serving.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
    except BaseException:
        kill(serving)
        raise
    return serving


def kill(process: subprocess.Popen) -> None:
    """Kill a process and its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
