"""What it takes to run the command line from outside, as a user does."""

from __future__ import annotations

import os
import socket
import sys

COMMAND = [sys.executable, "-c", "from overtrick.cli import main; main()"]


def environment() -> dict[str, str]:
    """As a user has it: nothing of what these tests' own Ray and MLflow have set."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "MLFLOW_"))}


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
