"""The address of the MLflow server or store: default, validation, and a connection check."""

from __future__ import annotations

import base64
import configparser
import contextlib
import errno
import functools
import http
import http.client
import json
import logging
import os
import socket
import sqlite3
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overtrick.core import UserError
from overtrick.core.file_lock import waiting_for_lock

SQLITE = "sqlite:///"
DEFAULT = f"{SQLITE}mlflow.db"
API = "/api/2.0/mlflow"
GATEWAY_ERRORS = (
    http.HTTPStatus.BAD_GATEWAY,
    http.HTTPStatus.SERVICE_UNAVAILABLE,
    http.HTTPStatus.GATEWAY_TIMEOUT,
)
UNREACHABLE = (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN)
OTHER_CREDENTIALS = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_AUTH", "MLFLOW_TRACKING_AWS_SIGV4")


def absolute(uri: str) -> str:
    """Return an MLflow address, with an absolute path if it is the address of a SQLite file."""
    file = sqlite_file(uri)
    return uri if file is None else f"{SQLITE}{file}"


def sqlite_file(uri: str) -> Path | None:
    """Return the absolute path of a SQLite store; None if `uri` is the address of a server."""
    return Path(uri.removeprefix(SQLITE)).absolute() if uri.startswith(SQLITE) else None


def validate(uri: str) -> str:
    """Validate an MLflow address, and return it with an absolute path if it is a SQLite store.

    Raises ValueError unless it is sqlite:///FILE or an http(s) URL without a password. A password
    would be stored with the run and shown.
    """
    if sqlite_file(uri) is None:
        if not uri.startswith(("http://", "https://")):
            raise ValueError("must be sqlite:///FILE or the http address of a server")
        if "@" in uri:
            raise ValueError(
                "leave the password out: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD "
                "instead"
            )
    return absolute(uri)


def default() -> str:
    """Return the MLflow address in MLFLOW_TRACKING_URI, or else mlflow.db in the current folder.

    Raises UserError if the address is invalid or contains a password.
    """
    return validated(os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT, "MLFLOW_TRACKING_URI")


def validated(uri: str, where: str) -> str:
    """Validate an MLflow address, and return it with an absolute path if it is a SQLite store.

    `where`: the origin of the address, named in errors. Raises UserError for an invalid address.
    """
    try:
        return validate(uri)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def usable_here(uri: str) -> str:
    """Return an MLflow address; for a SQLite file whose folder this machine lacks, `default()`."""
    file = sqlite_file(uri)
    return uri if file is None or file.parent.is_dir() else default()


def artifact_folder(uri: str, experiment: str) -> str | None:
    """Return the URI of a folder beside the SQLite file `uri`, for the artifacts of an experiment.

    Returns None if `uri` is the address of a server, which chooses the folder itself.
    """
    database = sqlite_file(uri)
    return None if database is None else (database.parent / "mlartifacts" / experiment).as_uri()


def check(uri: str, must_exist: bool = False, experiment: str = "") -> None:
    """Check an MLflow tracking URI. Raise UserError if no run can be logged there.

    - `must_exist`: also raise the error if the store does not exist or the server does not answer.
      Otherwise a server that does not answer only causes a warning, because metrics and artifacts
      are kept on disk until the server answers.
    - `experiment`: name of the experiment, in which the user must be permitted to add runs. Empty:
      this permission is not checked.
    """
    file = sqlite_file(uri)
    if file is None:
        _check_server(uri, must_exist, experiment)
    elif must_exist and not file.exists():
        raise UserError(f"no MLflow store at {uri}: set MLFLOW_TRACKING_URI, or train a model")
    else:
        _check_sqlite(uri, file)


@functools.cache  # every trial of a sweep checks it
def _check_server(uri: str, must_exist: bool, experiment: str) -> None:
    """Check that an MLflow server answers and accepts runs of this user; cached by arguments.

    `must_exist`, `experiment`: as in `check`. Raises UserError.
    """
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=5) as answer:
            answer.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        problem = f"no MLflow server answers at {uri} ({reason})"
        if not must_exist and _away(error, reason):
            logging.getLogger(__name__).warning(f"{problem}: events for it wait on disk")
            return
        remedy = "MLFLOW_TRACKING_URI" if must_exist else "track.uri"
        raise UserError(f"{problem}: start it, or set {remedy}") from None
    _check_rights(uri, experiment)


def _away(error: Exception, reason: object) -> bool:
    """Return True if a connection error may be temporary, so that a later try may succeed.

    `reason`: the error that caused `error`, or `error` itself.
    """
    if isinstance(error, urllib.error.HTTPError):  # of a proxy in front of the server
        return error.code in GATEWAY_ERRORS
    if isinstance(reason, socket.gaierror):
        return reason.errno == socket.EAI_AGAIN  # an unknown host name stays unknown
    known = isinstance(reason, (ConnectionError, TimeoutError))
    return known or (isinstance(reason, OSError) and reason.errno in UNREACHABLE)


def _check_rights(uri: str, experiment: str) -> None:
    """Raise UserError if a server rejects the credentials, or if this user may not add runs.

    `experiment`: the experiment of the runs. The right to add runs is only checked for an
    experiment that exists.
    """
    name, _ = _credentials()  # MLflow's client always reads its file, so it must be intact
    if any(os.environ.get(other) for other in OTHER_CREDENTIALS):
        return  # another way to authenticate, which MLflow's client handles
    try:
        _ask(uri, "/experiments/search?max_results=1")  # refused without credentials
        if experiment:
            query = urllib.parse.urlencode({"experiment_name": experiment})
            known = _ask(uri, f"/experiments/get-by-name?{query}")["experiment"]["experiment_id"]
            # the server checks rights before the invalid time, so this makes no run
            _ask(uri, "/runs/create", {"experiment_id": known, "start_time": "never"})
    except urllib.error.HTTPError as error:
        both = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        if error.code == http.HTTPStatus.UNAUTHORIZED:
            problem = "rejects the name and password in" if name else "requires a password: set"
            raise UserError(f"MLflow at {uri} {problem} {both}") from None
        if error.code == http.HTTPStatus.FORBIDDEN:
            why = " ".join(error.read(200).decode(errors="replace").split())
            problem = f"gives '{name}' no access ({why}): set {both}"
            if experiment:
                problem = f"accepts no runs of '{name}' in '{experiment}' ({why}): ask for "
                problem += "EDIT on this experiment, or set track.experiment to one of your own"
            raise UserError(f"MLflow at {uri} {problem}") from None
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        return  # only the health check answers yet; events wait on disk


def experiment_of(uri: str, run_id: str) -> str | None:
    """Return the id of the experiment of a run; None if the server does not tell it.

    `uri`: the address of an MLflow server.
    """
    try:
        answer = _ask(uri, f"/runs/get?{urllib.parse.urlencode({'run_id': run_id})}")
        return str(answer["run"]["info"]["experiment_id"])
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        return None


def _ask(uri: str, path: str, content: dict[str, str] | None = None) -> Any:
    """Send a request to an MLflow server's REST interface and return its answer.

    `path`: path and query of the request. `content`: sent as JSON by POST; None: a GET request.
    Raises an error of urllib, or ValueError if the answer is not JSON.
    """
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"{uri.rstrip('/')}{API}{path}", data)
    request.add_unredirected_header("Content-Type", "application/json")
    name, password = _credentials()
    if name and password and not any(os.environ.get(other) for other in OTHER_CREDENTIALS):
        token = base64.b64encode(f"{name}:{password}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def _credentials() -> tuple[str | None, str | None]:
    """Return user name and password for MLflow, from the environment or MLflow's own file.

    Both may be None. Raises UserError if the file is damaged; the message does not quote it.
    """
    names = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
    file = Path.home() / ".mlflow" / "credentials"
    stored = configparser.ConfigParser(interpolation=None)
    try:
        stored.read(file)
    except (configparser.Error, UnicodeDecodeError):
        raise UserError(
            f"{file} is damaged: write a section [mlflow] with {' and '.join(names)}, or delete it"
        ) from None
    name, password = (os.environ.get(n) or stored.get("mlflow", n, fallback=None) for n in names)
    return name, password


@contextlib.contextmanager
def sqlite_lock(uri: str) -> Iterator[None]:
    """Context manager that locks a SQLite store against other processes.

    Two processes that create the tables of a store at the same time would damage it. Does nothing
    if `uri` is the address of a server.
    """
    file = sqlite_file(uri)
    if file is None:
        yield
        return
    with waiting_for_lock(Path(f"{file}.lock")):
        yield


def _check_sqlite(uri: str, file: Path) -> None:
    """Raise UserError if a SQLite store cannot be written, or if its file is not a SQLite file."""
    known = os.path.exists(file)  # Path.exists raises for a name that is too long
    place = file if known else file.parent
    if not os.access(place, os.W_OK):
        raise UserError(f"track.uri {uri}: {place} cannot be written")
    if known:
        try:
            with contextlib.closing(sqlite3.connect(file)) as database:
                database.execute("SELECT name FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            raise UserError(f"track.uri {uri}: {file} is not a SQLite database ({error})") from None
