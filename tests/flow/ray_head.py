"""Start a Ray cluster of one machine as a user does: on loopback, with a token."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TOKEN = "RAY_AUTH_TOKEN"


def free_ports(count: int) -> list[int]:
    """Return ports that no process listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def started(cpus: int, token: str, environment: Mapping[str, str], **more: str) -> Iterator[str]:
    """Start a head in an environment without Ray settings and yield the address of its dashboard.
    The head is stopped at the end. `more`: further options of `ray start`, with underscores."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # paths of sockets must be short
    port, dashboard, agent, client = free_ports(4)
    python = Path(sys.executable)
    environment = {
        **environment,
        "PATH": f"{python.parent}:{environment['PATH']}",  # the head finds python here
        "RAY_AUTH_MODE": "token",
        TOKEN: token,
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    options = {
        "port": port, "dashboard-host": "127.0.0.1", "dashboard-port": dashboard,
        "dashboard-agent-listen-port": agent, "ray-client-server-port": client,
        "min-worker-port": 0, "max-worker-port": 0, "temp-dir": folder, "num-cpus": cpus,
        "object-store-memory": 80 * 2**20,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }  # fmt: skip
    log = folder / "head.log"
    with log.open("w") as out:
        head = subprocess.Popen(
            [python.parent / "ray", "start", "--head", "--block",
             *(f"--{name}={value}" for name, value in options.items())],
            cwd=folder, env=environment, stdout=out, stderr=out,
        )  # fmt: skip
    address = f"http://127.0.0.1:{dashboard}"
    try:
        deadline = time.monotonic() + 180
        while not _answers(address, token):
            assert head.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        # the signal goes to the head alone, which stops its children
        head.send_signal(signal.SIGTERM)
        head.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(address: str, token: str) -> bool:
    asked = urllib.request.Request(
        f"{address}/api/jobs/", headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
