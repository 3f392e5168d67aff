"""Everything a run tells MLflow: batched, on a thread, and never in the way of training.

Every event is first appended to a spool file in the run's folder, then delivered from there in
order. While the server is away events wait on disk; what a run leaves undelivered goes out when
the run is opened again. Delivering twice changes nothing: an event keeps its time and step, and
MLflow drops a metric that it already has.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import sqlite3
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overtrick.atomic import write_text
from overtrick.core import Refused

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # else 4 minutes for a dead server
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

SPOOL = "track.jsonl"  # the file in a run's folder that holds every event
IDENTITY = "track.run"  # the file in a run's folder that holds MLflow's name for it
BATCH = 200  # events delivered in one call
BACKOFF = (1.0, 30.0)  # seconds between tries while the server is away: first, most
REJECTED = "INVALID_PARAMETER_VALUE"  # MLflow will never take such an event
PARAM_BATCH, PARAM_LENGTH = 100, 6000  # MLflow's limits


def check(uri: str) -> None:
    """Raise Refused if nothing can be tracked at this address, before any training."""
    if uri.startswith("sqlite:///"):
        _check_sqlite(uri, Path(uri.removeprefix("sqlite:///")).absolute())
        return
    if not uri.startswith(("http://", "https://")):
        raise Refused(f"track.uri {uri}: must be sqlite:///FILE or the http address of a server")
    try:
        with urllib.request.urlopen(f"{uri.rstrip('/')}/health", timeout=5) as answer:
            answer.read()
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise Refused(
            f"no MLflow server answers at {uri} ({reason}): start it, or set track.uri"
        ) from None


def _check_sqlite(uri: str, file: Path) -> None:
    place = file if file.exists() else file.parent
    if not os.access(place, os.W_OK):
        raise Refused(f"track.uri {uri}: {place} cannot be written")
    if file.exists():
        try:
            with contextlib.closing(sqlite3.connect(file)) as database:
                database.execute("SELECT name FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            raise Refused(f"track.uri {uri}: {file} is no SQLite database ({error})") from None


class Tracker:
    """One run in MLflow, fed through a spool in the run's folder."""

    def __init__(
        self,
        uri: str,
        experiment: str,
        name: str,
        folder: Path,
        tags: Mapping[str, str],
        parent: Path | None = None,
    ) -> None:
        self.folder = folder
        self._uri = uri
        self._experiment = experiment
        self._name = name
        self._tags = dict(tags)
        self._spool = folder / SPOOL
        self._sent = folder / "track.sent"
        self._identity = folder / IDENTITY
        self._parent = parent  # the folder of the run that this one is a part of
        events = self._read()
        self.reported = max((e.get("step", 0) for e in events), default=0)  # last iteration told
        self._sent_events = int(self._sent.read_text()) if self._sent.exists() else 0
        self._waiting = deque(events[self._sent_events :])
        self._new = threading.Event()
        self._new.set()
        self._closing = threading.Event()
        self._deadline = 0.0  # monotonic time at which a closing run gives up
        self.error = ""  # why the last try failed
        self.rejected = 0  # events that MLflow will never take, kept in track.rejected
        self._thread = threading.Thread(target=self._deliver, name="mlflow", daemon=True)
        self._thread.start()

    @property
    def run_id(self) -> str | None:
        """MLflow's name for the run, once it has been delivered."""
        return self._identity.read_text().strip() if self._identity.exists() else None

    def params(self, values: Mapping[str, Any]) -> None:
        """The run's configuration by dotted key; written once."""
        self._add({"params": {k: str(v)[:PARAM_LENGTH] for k, v in values.items()}})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """One iteration's metrics; an iteration that was reported before is passed over."""
        if step > self.reported:
            self._add({"step": step, "metrics": dict(values)})
            self.reported = step

    def history(self) -> list[tuple[int, dict[str, float]]]:
        """Every iteration reported so far and its metrics, in order."""
        return _told(self._read())

    def artifact(self, path: Path, place: str = "") -> None:
        """A file or folder that belongs to the run."""
        self._add({"artifact": str(path.absolute()), "place": place})

    def close(self, status: str, patience: float = 30.0) -> int:
        """Deliver what is left for so many seconds; the number of events that stay on disk."""
        self._add({"status": status})
        self._deadline = time.monotonic() + patience
        self._closing.set()
        self._new.set()
        self._thread.join(patience + 5)  # a call in flight may outlast the last try
        return len(self._waiting)

    def _add(self, event: dict[str, Any]) -> None:
        event["time"] = time.time_ns() // 1_000_000
        with self._spool.open("a") as spool:
            spool.write(json.dumps(event) + "\n")
        self._waiting.append(event)
        self._new.set()

    def _read(self) -> list[dict[str, Any]]:
        """All events of the spool, without a last line that a kill cut in two."""
        if not self._spool.exists():
            return []
        text, whole = _lines(self._spool)
        if whole != text:
            write_text(self._spool, whole)
        return [json.loads(line) for line in whole.splitlines()]

    def _deliver(self) -> None:
        wait, longest = BACKOFF
        client, run_id, size = None, "", BATCH
        while not (self._closing.is_set() and not self._waiting):
            self._new.wait()
            self._new.clear()
            while self._waiting:
                part = list(itertools.islice(self._waiting, size))
                try:
                    if client is None:
                        client, run_id = self._open()
                    _send(client, run_id, part)
                except Exception as error:  # training goes on, events wait
                    self.error = " ".join(str(error).split())
                    if getattr(error, "error_code", "") != REJECTED:
                        if not self._wait(wait):
                            return
                        wait = min(2 * wait, longest)
                        continue
                    if size > 1:
                        size = 1  # which one of them is it?
                        continue
                    self.rejected += 1
                    with self._spool.with_name("track.rejected").open("a") as rejected:
                        rejected.write(json.dumps({"error": self.error, **part[0]}) + "\n")
                wait = BACKOFF[0]
                self._sent_events += len(part)
                write_text(self._sent, str(self._sent_events))
                for _ in part:
                    self._waiting.popleft()
            size = BATCH

    def _wait(self, seconds: float) -> bool:
        """Wait before another try; False when the run is closing and its patience is over."""
        if not self._closing.wait(seconds):
            return True
        time.sleep(min(seconds, 1.0))
        return time.monotonic() < self._deadline

    def _open(self) -> tuple[Any, str]:
        """A client, and this run: the same one after a restart."""
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        client = MlflowClient(tracking_uri=self._uri)
        if self.run_id:
            client.update_run(self.run_id, status="RUNNING")
            return client, self.run_id
        known = client.get_experiment_by_name(self._experiment)
        if known is None:
            try:
                experiment_id = client.create_experiment(self._experiment, self._artifacts())
            except MlflowException:  # another run has just made it
                known = client.get_experiment_by_name(self._experiment)
                if known is None:
                    raise
        if known is not None:
            experiment_id = known.experiment_id
        tags = self._tags
        if self._parent is not None:  # if it is not there yet, all waits for it
            tags = {**tags, "mlflow.parentRunId": (self._parent / IDENTITY).read_text().strip()}
        run = client.create_run(experiment_id, run_name=self._name, tags=tags)
        write_text(self._identity, run.info.run_id)
        return client, run.info.run_id

    def _artifacts(self) -> str | None:
        """Where an experiment keeps its files: beside a SQLite file, else the server's choice."""
        if not self._uri.startswith("sqlite:///"):
            return None
        database = Path(self._uri.removeprefix("sqlite:///")).absolute()
        return (database.parent / "mlartifacts" / self._experiment).as_uri()


def history(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Every iteration that a run in a folder has reported and its metrics; the run may go on."""
    spool = folder / SPOOL
    if not spool.exists():
        return []
    return _told([json.loads(line) for line in _lines(spool)[1].splitlines()])


def _lines(spool: Path) -> tuple[str, str]:
    """A spool's text, and the same without a last line that was cut in two."""
    text = spool.read_text()
    return text, text[: text.rfind("\n") + 1]


def _told(events: list[dict[str, Any]]) -> list[tuple[int, dict[str, float]]]:
    return [(e["step"], e["metrics"]) for e in events if "metrics" in e]


def _send(client: Any, run_id: str, events: list[dict[str, Any]]) -> None:
    from mlflow.entities import Metric, Param

    metrics = [
        Metric(name, value, event["time"], event["step"])
        for event in events
        for name, value in event.get("metrics", {}).items()
    ]
    for start in range(0, len(metrics), 1000):
        client.log_batch(run_id, metrics=metrics[start : start + 1000])
    for event in events:
        params = [Param(name, value) for name, value in event.get("params", {}).items()]
        for start in range(0, len(params), PARAM_BATCH):
            client.log_batch(run_id, params=params[start : start + PARAM_BATCH])
        if "artifact" in event:
            path, place = event["artifact"], event["place"] or None
            log = client.log_artifacts if os.path.isdir(path) else client.log_artifact
            log(run_id, path, place)
        if "status" in event:
            client.set_terminated(run_id, event["status"], event["time"])
