"""What it takes to run the command line from outside, as a user does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

PATIENCE = 240  # seconds for what a busy machine may take
COMMAND = [sys.executable, "-c", "from overtrick.cli import main; main()"]


def environment() -> dict[str, str]:
    """As a user has it: nothing of what these tests' own Ray and MLflow have set."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "MLFLOW_"))}


def kill_once(there: Callable[[], object], driver: subprocess.Popen) -> None:
    """Kill a process, and all that it has started, when something is there; not after its end."""
    deadline = time.monotonic() + PATIENCE
    try:
        while not there():
            assert driver.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline, "what was waited for did not come"
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
