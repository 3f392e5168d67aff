"""The command that opens MLflow's dashboard: on the store that is meant, at a run if asked."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Annotated

import typer

from overtrick.cli import app, people
from overtrick.core import RunError, UserError

if TYPE_CHECKING:
    from overtrick.storage.run_folder import RunFolder

PATIENCE = 120.0  # seconds until MLflow's server must answer


@app.command()
def dashboard(
    run: Annotated[str | None, typer.Option(help="Open at this run, where it is tracked.")] = None,
    uri: Annotated[
        str | None,
        typer.Option(help="The tracking store; else MLFLOW_TRACKING_URI, or that of the last run."),
    ] = None,
    host: Annotated[str, typer.Option(help="Who may look: 127.0.0.1 is this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> None:
    """Open MLflow's dashboard until Ctrl-C, and say where."""
    from overtrick.tracking import server_address

    store = _store(run, uri)
    server_address.check(store, must_exist=True)
    page = "" if run is None else _page(run)
    if not store.startswith("sqlite:///"):
        people.print(f"open {store.rstrip('/')}/{page}", soft_wrap=True)
        return
    _check_free(host, port)
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port)]
    command += ["--backend-store-uri", store, "--registry-store-uri", store]
    command += ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    people.print(f"starting MLflow on {store} (a moment)", soft_wrap=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or MLflow's would outlive us
    with subprocess.Popen(command, env={**os.environ, **quiet}) as server:
        try:
            _await(server, f"http://{host}:{port}")
            people.print(f"open http://{host}:{port}/{page} (Ctrl-C ends it)", soft_wrap=True)
            code = server.wait()
        finally:
            server.terminate()
    raise RunError(f"MLflow's server ended with exit code {code}: what it says is above")


def _store(run: str | None, uri: str | None) -> str:
    """The store that is meant. Raises UserError for one that cannot be."""
    from overtrick.runs import lifecycle as room
    from overtrick.storage import locate
    from overtrick.tracking import server_address

    if uri is not None:
        return server_address.validated(uri, "--uri")
    if run is not None:
        return _tracked_at(room.find(run))
    newest = sorted(map(room.find, locate.run_names()), key=lambda run: run.job.stat().st_mtime)
    if os.environ.get("MLFLOW_TRACKING_URI") or not newest:
        return server_address.default()
    return _tracked_at(newest[-1])


def _tracked_at(run: RunFolder) -> str:
    """Where a run, a sweep or a table is tracked."""
    return str(run.read_job()["track"]["uri"])


def _page(run: str) -> str:
    """The URL of a run's page on the dashboard. Raises UserError for a run unknown to MLflow."""
    from overtrick.runs import lifecycle as room

    known = room.find(run).run_id
    if known is None:
        raise UserError(f"MLflow does not know {run}: `overtrick resume {run}` tells it")
    return f"#/runs/{known}"


def _check_free(host: str, port: int) -> None:
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind((host, port))
        except OSError as error:
            raise UserError(
                f"nothing can listen at {host}:{port} ({error.strerror}): name another --port"
            ) from None


def _await(server: subprocess.Popen[bytes], url: str) -> None:
    """Wait until a server answers. Raises RunError if it ends or does not."""
    end = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        except urllib.error.HTTPError:
            return  # it answers, though not to this name of its host
        except OSError:
            time.sleep(0.3)
    raise RunError("MLflow's server does not answer: what it says is above")
