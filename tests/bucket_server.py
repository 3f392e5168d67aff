"""An S3 server for tests and benches, and a connection to it that can be cut."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 240  # seconds to wait on a busy machine
BUCKET = "overtrick-tests"


def free_port() -> int:
    """Return a port of this machine that nobody listens to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def client_settings(port: int) -> dict[str, str]:
    """Return the environment variables of a client of the server."""
    return {
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }


@contextmanager
def bucket_server(port: int, log: Path = Path("/dev/null")) -> Iterator[None]:
    """Context manager that runs moto's S3 server with one empty bucket. Everything is in memory.

    `log`: the file of its log, which has a line for each request.
    """
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", "from moto.server import main; main()", "-p", str(port)]
    with log.open("wb") as file:
        server = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{address}/moto-api/"):
                break
            assert server.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
        request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).close()
        yield
    finally:
        server.kill()
        server.wait()


class Connection:
    """A way to a server through a port of its own, which can be cut in the middle of an upload."""

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self._server_port = server_port
        self._left: int | None = None  # bytes that still pass; None: all
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, size: int) -> None:
        """Close all connections, now and later, once `size` more bytes were sent to the server."""
        self._left = size

    def mend(self) -> None:
        """Let everything pass again."""
        self._left = None

    def close(self) -> None:
        """Close the port and all connections."""
        self._listener.close()
        self._cut()

    def _accept(self) -> None:
        with suppress(OSError):  # the port has been closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open += [client, server]
                for ends in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                if counted and self._left is not None:
                    data, self._left = data[: self._left], max(self._left - len(data), 0)
                target.sendall(data)
                if self._left == 0:
                    self._cut()
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _cut(self) -> None:
        while self._open:
            with suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)
