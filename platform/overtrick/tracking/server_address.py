"""The address of MLflow: which one is meant, and whether anything answers there."""

from __future__ import annotations

import base64
import configparser
import contextlib
import errno
import fcntl
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

DEFAULT = "sqlite:///mlflow.db"
API = "/api/2.0/mlflow"
GATES = (
    http.HTTPStatus.BAD_GATEWAY,
    http.HTTPStatus.SERVICE_UNAVAILABLE,
    http.HTTPStatus.GATEWAY_TIMEOUT,
)
UNREACHED = (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN)
OTHERWISE = ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_AUTH", "MLFLOW_TRACKING_AWS_SIGV4")


def absolute(uri: str) -> str:
    """The same address from any folder."""
    path = uri.removeprefix("sqlite:///")
    return uri if path == uri else f"sqlite:///{Path(path).absolute()}"


def validate(uri: str) -> str:
    """An address that somebody gives: the same from any folder. Raises ValueError for another kind
    of address, and for one with a password in it: it would be kept with the run, and shown."""
    if not uri.startswith("sqlite:///"):
        if not uri.startswith(("http://", "https://")):
            raise ValueError("must be sqlite:///FILE or the http address of a server")
        if "@" in uri:
            raise ValueError(
                "leave the password out: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD "
                "instead"
            )
    return absolute(uri)


def default() -> str:
    """Where one looks who names none: MLFLOW_TRACKING_URI, or mlflow.db here, as MLflow does.
    Raises UserError for one with a password in it."""
    return validated(os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT, "MLFLOW_TRACKING_URI")


def validated(uri: str, where: str) -> str:
    """As told; raises UserError, which names where the address was given."""
    try:
        return validate(uri)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None


def artifact_folder(uri: str, experiment: str) -> str | None:
    """Where an experiment keeps its files: beside a SQLite file, else as the server chooses."""
    if not uri.startswith("sqlite:///"):
        return None
    database = Path(uri.removeprefix("sqlite:///")).absolute()
    return (database.parent / "mlartifacts" / experiment).as_uri()


def check(uri: str, must_exist: bool = False, experiment: str = "") -> None:
    """Raise UserError if nothing can be tracked at this address, into this experiment, before any
    training; or, where something is to be there already, if it is not.

    A server that is away only makes a run say so: what it has to tell waits on disk.
    """
    if uri.startswith("sqlite:///"):
        file = Path(uri.removeprefix("sqlite:///")).absolute()
        if must_exist and not file.exists():
            raise UserError(
                f"no MLflow store at {uri}: set MLFLOW_TRACKING_URI, or train something"
            )
        _check_sqlite(uri, file)
        return
    _check_server(uri, must_exist, experiment)


@functools.cache  # all trials of a sweep ask
def _check_server(uri: str, must_exist: bool, experiment: str) -> None:
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=5) as answer:
            answer.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        said = f"no MLflow server answers at {uri} ({reason})"
        if not must_exist and _away(error, reason):
            logging.getLogger(__name__).warning(f"{said}: what is for it waits on disk")
            return
        remedy = "MLFLOW_TRACKING_URI" if must_exist else "track.uri"
        raise UserError(f"{said}: start it, or set {remedy}") from None
    _check_rights(uri, experiment)


def _away(error: Exception, reason: object) -> bool:
    """Whether a server that does not answer may do so later, as it is asked now."""
    if isinstance(error, urllib.error.HTTPError):  # of one who stands before it
        return error.code in GATES
    if isinstance(reason, socket.gaierror):
        return reason.errno == socket.EAI_AGAIN  # a name that nobody knows is a wrong one
    known = isinstance(reason, (ConnectionError, TimeoutError))
    return known or (isinstance(reason, OSError) and reason.errno in UNREACHED)


def _check_rights(uri: str, experiment: str) -> None:
    """Raise UserError if a server that answers wants a name and a password, or others, or takes no
    runs of this name into an experiment that it has."""
    if any(os.environ.get(name) for name in OTHERWISE):
        return  # MLflow says who one is in a way that is not known here
    name, password = _credentials()
    headers = {"Content-Type": "application/json"}
    if name and password:
        word = base64.b64encode(f"{name}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {word}"

    def ask(path: str, content: dict[str, str] | None = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{uri.rstrip('/')}{API}{path}", data)
        for header, value in headers.items():
            request.add_unredirected_header(header, value)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    try:
        ask("/experiments/search?max_results=1")  # what nobody may ask without a password
        if experiment:
            query = urllib.parse.urlencode({"experiment_name": experiment})
            known = ask(f"/experiments/get-by-name?{query}")["experiment"]["experiment_id"]
            # rights are looked at first, so that this asks for them and makes no run
            ask("/runs/create", {"experiment_id": known, "start_time": "never"})
    except urllib.error.HTTPError as error:
        both = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        if error.code == http.HTTPStatus.UNAUTHORIZED:
            said = "does not take the name and password in" if name else "wants a password: set"
            raise UserError(f"MLflow at {uri} {said} {both}") from None
        if error.code == http.HTTPStatus.FORBIDDEN:
            why = " ".join(error.read(200).decode(errors="replace").split())
            said = f"lets '{name}' see nothing ({why}): set {both}"
            if experiment:
                said = (
                    f"takes no runs of '{name}' in the experiment '{experiment}' ({why}): ask for "
                )
                said += "EDIT on it, or set track.experiment to one of your own"
            raise UserError(f"MLflow at {uri} {said}") from None
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        return  # it answers to its health alone: what it is told waits until it listens


def _credentials() -> tuple[str | None, str | None]:
    """The name and password that MLflow's clients give: of the environment, or of their file."""
    names = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"
    kept = configparser.ConfigParser(interpolation=None)
    kept.read(Path.home() / ".mlflow" / "credentials")
    name, password = (os.environ.get(n) or kept.get("mlflow", n, fallback=None) for n in names)
    return name, password


@contextlib.contextmanager
def sqlite_lock(uri: str) -> Iterator[None]:
    """Nobody else opens this SQLite file meanwhile: two that make its tables at once spoil it."""
    if not uri.startswith("sqlite:///"):
        yield
        return
    with Path(f"{uri.removeprefix('sqlite:///')}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed when it is closed
        yield


def _check_sqlite(uri: str, file: Path) -> None:
    place = file if file.exists() else file.parent
    if not os.access(place, os.W_OK):
        raise UserError(f"track.uri {uri}: {place} cannot be written")
    if file.exists():
        try:
            with contextlib.closing(sqlite3.connect(file)) as database:
                database.execute("SELECT name FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            raise UserError(f"track.uri {uri}: {file} is no SQLite database ({error})") from None
