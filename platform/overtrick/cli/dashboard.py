"""Command `overtrick dashboard`: open MLflow's dashboard on a tracking store or on a run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Annotated

from typer import Option

from overtrick.cli import TRAIN, app, say
from overtrick.core import RunError, UserError

START_TIMEOUT = 120.0  # seconds in which MLflow's server must answer


@app.command(rich_help_panel=TRAIN)
def dashboard(
    run: Annotated[str | None, Option(help="Open at this run, in its store.")] = None,
    uri: Annotated[
        str | None, Option(help="Tracking store. Default: MLFLOW_TRACKING_URI, or newest run's.")
    ] = None,
    host: Annotated[str, Option(help="127.0.0.1 admits this machine only.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 5000,
) -> None:
    """Serve MLflow's dashboard until Ctrl-C, and print its URL."""
    from overtrick.tracking import server_address

    store = _tracking_store(run, uri)
    server_address.check(store, must_exist=True)
    run_id = None if run is None else _run_id(run)
    if not store.startswith("sqlite:///"):
        say(f"open {_page(store.rstrip('/'), run_id)}")
        return
    _check_port_free(host, port)
    command = [sys.executable, "-m", "mlflow", "server", "--host", host, "--port", str(port)]
    command += ["--backend-store-uri", store, "--registry-store-uri", store]
    command += ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
    say(f"starting MLflow on {store} (a moment)")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else MLflow's server outlives us
    with subprocess.Popen(command, env={**os.environ, **quiet}) as server:
        try:
            _wait_for_server(server, f"http://{host}:{port}")
            say(f"open {_page(f'http://{host}:{port}', run_id)} (Ctrl-C ends it)")
            code = server.wait()
        finally:
            server.terminate()
    raise RunError(f"MLflow's server ended with exit code {code}: its messages are above")


def _tracking_store(run: str | None, uri: str | None) -> str:
    """Return the URI of the MLflow tracking store to show.

    It is `uri`, or the store of the run, or the default store, or that of the newest run. Raises
    UserError for an invalid URI.
    """
    from overtrick.storage import bucket_copy, locate
    from overtrick.tracking import server_address

    if uri is not None:
        return server_address.validated(uri, "--uri")
    names = locate.run_names() if run is None else [run]
    if run is None and (os.environ.get("MLFLOW_TRACKING_URI") or not names):
        return server_address.default()
    newest = locate.newest_run(names) if run is None else run
    folder = locate.existing_run(newest)
    uri = str(folder.read_job()["track"]["uri"])
    return server_address.usable_here(uri) if bucket_copy.copy_of(folder.path) else uri


def _run_id(run: str) -> str:
    """Return the id of a run in MLflow.

    Raises UserError if MLflow does not know the run.
    """
    from overtrick.storage import locate

    run_id = locate.existing_run(run).run_id
    if run_id is None:
        raise UserError(f"MLflow does not know {run}: `overtrick resume {run}` records it there")
    return run_id


def _page(server: str, run_id: str | None) -> str:
    """Return the URL of a run's page, or of the list of experiments, in MLflow's dashboard.

    `server`: the URL of MLflow's server. MLflow's short address of a run, #/runs/ID, leads to its
    pages for generative AI instead of those for training.
    """
    from overtrick.tracking.server_address import experiment_of

    experiment = None if run_id is None else experiment_of(server, run_id)
    place = "#/experiments" if run_id is None else f"#/runs/{run_id}"
    if experiment is not None:
        place = f"#/experiments/{experiment}/runs/{run_id}"
    return f"{server}/{place}?workflowType=machine_learning"


def _check_port_free(host: str, port: int) -> None:
    """Raise UserError if a server cannot listen at `host` and `port`."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind((host, port))
        except (OSError, TypeError) as error:  # TypeError: a name that IDNA cannot write
            why = f"nothing can listen at {host}:{port} ({getattr(error, 'strerror', error)})"
            raise UserError(f"{why}: name another --port") from None


def _wait_for_server(server: subprocess.Popen[bytes], url: str) -> None:
    """Wait until MLflow's server answers.

    Raises RunError if the server ends, or if it does not answer within START_TIMEOUT.
    """
    end = time.monotonic() + START_TIMEOUT
    while server.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
            return
        except urllib.error.HTTPError:
            return  # it is running, though it refuses requests under this host name
        except OSError:
            time.sleep(0.3)
    raise RunError("MLflow's server does not answer: its messages are above")
