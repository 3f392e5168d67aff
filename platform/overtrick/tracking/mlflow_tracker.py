"""Send a run's metrics, files and model to MLflow, in batches on a background thread.

Every event is first appended to a spool file in the run's folder, and delivered from there in
order. While the server does not answer, events wait on disk and training continues. Events that
remain when a run ends are delivered when the run is opened again. Delivering an event twice changes
nothing: it keeps its time and step, and MLflow drops a metric that it already has.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from overtrick.core import RunError, UserError
from overtrick.core.files import append_line, read_complete_lines, write_bytes, write_text
from overtrick.core.json_files import parse_lines, read_intact_lines
from overtrick.tracking import event_delivery, server_address
from overtrick.tracking.event_delivery import MODEL, LostFileError
from overtrick.tracking.run_events import EVENT

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # or a dead server blocks 4 minutes
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

SPOOL = "track.jsonl"  # the file in a run's folder that holds every event
DAMAGED_EVENTS = "track.damaged"  # the file in a run's folder of lines that are not events
REJECTED_EVENTS = "track.rejected"  # the file in a run's folder of events that MLflow rejects
IDENTITY = "track.run"  # the file in a run's folder that holds MLflow's id of the run
RUN_ID = re.compile(rb"\s*([\w-]{1,64})\s*")  # content of the file IDENTITY
BATCH = 200  # events delivered in one call
BACKOFF = (1.0, 30.0)  # seconds between tries while the server is away: first, most
UNKNOWN = "RESOURCE_DOES_NOT_EXIST"  # MLflow's error code for a run that it does not have
REJECTED = "INVALID_PARAMETER_VALUE"  # MLflow's error code for an event that it never accepts
PARAM_LENGTH = 6000  # MLflow's limit
FOLDER_TAG = "overtrick.folder"  # of a run: the name of its folder
MODEL_TAG = "overtrick.model."  # prefix of the tags of the models that a run reads
KIND = {"mlflow.experimentKind": "custom_model_development"}  # else MLflow expects chat models
SPEED = "speed/"  # beginning of the names of metrics that measure the machine, not the learner

log = logging.getLogger(__name__)


class Tracker:
    """The record of one run in MLflow, written through a spool file in the run's folder.

    `name`: of the run in MLflow. `reported`: the last reported iteration. `error`: the error of the
    last failed delivery. `rejected`: the number of events that MLflow rejected.
    """

    def __init__(
        self, uri: str, experiment: str, name: str, folder: Path, tags: Mapping[str, str],
        parent: Path | None = None, system_metrics: bool = False,
    ) -> None:  # fmt: skip
        self.folder = folder
        self._uri = uri
        self._experiment = experiment
        self.name = name
        self._tags = {**tags, FOLDER_TAG: folder.name}
        self._spool = folder / SPOOL
        self._sent = folder / "track.sent"  # holds the number of delivered events
        self._parent = parent  # the folder of the run group of a child run
        self._system_metrics = system_metrics
        self._monitor: Any = None  # of MLflow, which measures this machine
        events = self._read_events()
        self.reported = max((e.get("step", 0) for e in events), default=0)
        self._last_time = max((e["time"] for e in events), default=0)  # ms since 1970
        self._waiting = deque(events[self._sent_events :])
        self._new = threading.Event()
        self._new.set()
        self._closing = threading.Event()
        self._deadline = 0.0  # monotonic time at which a closing run gives up
        self.error = ""
        self.rejected = 0
        self._thread = threading.Thread(target=self._deliver, name="mlflow", daemon=True)
        self._thread.start()

    @property
    def run_id(self) -> str | None:
        """The run's id in MLflow; None until the run has been created in MLflow."""
        return run_id(self.folder)

    def params(self, values: Mapping[str, Any]) -> None:
        """Report the run's settings; call this only once.

        `values`: the settings, keyed by their dotted path in the job file.
        """
        self._add({"params": {k: str(v)[:PARAM_LENGTH] for k, v in values.items()}})

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Report an iteration's metrics; ignore an iteration that was reported before.

        Metrics whose names begin with SPEED, such as seconds, differ between equal runs. MLflow
        gets them, but they do not belong to the run's history.
        """
        if step > self.reported:
            speed = {name: v for name, v in values.items() if name.startswith(SPEED)}
            metrics = {name: v for name, v in values.items() if name not in speed}
            self._add({"step": step, "metrics": metrics, **({"speed": speed} if speed else {})})
            self.reported = step

    def result(self, values: Mapping[str, float]) -> None:
        """Report final metrics, which are not those of an iteration."""
        self._add({"step": self.reported, "result": dict(values)})

    def dataset(self, path: str, kind: str, rows: int, digest: str) -> None:
        """Report a data set that the run reads. `digest`: at most 36 characters."""
        self._add({"dataset": path, "kind": kind, "rows": rows, "digest": digest})

    def artifact(self, path: Path, place: str = "") -> None:
        """Log a file or folder as an artifact of the run.

        `place`: the artifact folder in MLflow; empty: the root of the run's artifacts.
        """
        self._add({"artifact": self._stored_path(path), "place": place})

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log rows with equal columns as a table of MLflow. `name`: of its file, NAME.json."""
        self._add({"table": name, "rows": [dict(row) for row in rows]})

    def model(
        self, path: Path, answers: Mapping[str, Any], iteration: int, name: str = MODEL
    ) -> None:
        """Report the folder of a model of the run, to be logged in MLflow with its metrics.

        `answers`: the model's signature, example inputs and metadata, as
        `predictor.mlflow_description` returns them. `iteration`: after which it was stored.
        `name`: MODEL for the last model of the run, BEST_MODEL for another one.
        """
        event: dict[str, Any] = {"model": self._stored_path(path), "answers": dict(answers)}
        event |= {"step": iteration, "name": name}
        reported = read_intact_lines(self._spool, EVENT, repair=False)
        of_step = (e for e in reported if "metrics" in e and e["step"] == iteration)
        if found := next(of_step, None):
            event["measured"] = {"time": found["time"], "metrics": found["metrics"]}
        self._add(event)

    def _stored_path(self, path: Path) -> str:
        """Return the path of a file, relative to the run's folder if the file is in it."""
        path, folder = path.absolute(), self.folder.absolute()
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)

    def note(self, text: str) -> None:
        """Set the description on the run's page in MLflow. `text`: in Markdown."""
        self._add({"note": text})

    def register(self, name: str) -> None:
        """Register the run's logged model under `name` in MLflow's model registry."""
        self._add({"register": name})

    def close(self, status: str, patience: float = 30.0) -> int:
        """End the run, deliver waiting events, and return the number of undelivered events.

        `status`: MLflow's status of the run. `patience`: seconds after which delivery gives up.
        Undelivered events stay on disk.
        """
        if self._monitor is not None:
            self._monitor.finish()
        try:
            self._add({"status": status})
        finally:  # earlier events are delivered even if the disk is full
            self._deadline = time.monotonic() + patience
            self._closing.set()
            self._new.set()
            self._thread.join(patience + 5)  # a call in flight may outlast the last try
        return len(self._waiting)

    def _read_events(self) -> list[dict[str, Any]]:
        """Read the spool file, and move its damaged lines to the file DAMAGED_EVENTS.

        Also reads the number of delivered events from its own file. If that file is damaged, the
        number is set to 0, and all events are delivered again.
        """
        lines = read_complete_lines(self._spool)
        found = parse_lines(lines, EVENT)
        text = self._sent.read_bytes().strip() if self._sent.exists() else b"0"
        sent = int(text) if text.isdigit() and len(text) < 20 else 0
        sent = sent if sent <= len(lines) else 0
        self._sent_events = sum(event is not None for event in found[:sent])
        damaged = [line for line, event in zip(lines, found, strict=True) if event is None]
        if damaged:
            append_line(self.folder / DAMAGED_EVENTS, b"\n".join(damaged))
            write_text(self._sent, str(self._sent_events))  # first: an event may be sent twice
            intact = [line for line, event in zip(lines, found, strict=True) if event is not None]
            write_bytes(self._spool, b"".join(line + b"\n" for line in intact))
            where = self.folder / DAMAGED_EVENTS
            log.warning("%s had %d damaged lines, now in %s", self._spool, len(damaged), where)
        return [event for event in found if event is not None]

    def _add(self, event: dict[str, Any]) -> None:
        """Append an event to the spool file, with the current time or the time of the event before.

        Of the two times the later one is taken, so that times never decrease.
        """
        now = time.time_ns() // 1_000_000
        self._last_time = event["time"] = max(self._last_time, now)
        append_line(self._spool, json.dumps(event))
        self._waiting.append(event)
        self._new.set()

    def _deliver(self) -> None:
        """Deliver events until the run is closed; the function of the background thread."""
        wait, longest = BACKOFF
        client, run_id, size = None, "", BATCH
        while not (self._closing.is_set() and not self._waiting):
            self._new.wait()
            self._new.clear()
            while self._waiting:
                try:
                    if client is None:
                        client, run_id = self._open()
                        if self._system_metrics:
                            self._monitor = _start_monitor(self._uri, run_id)
                    batch = list(itertools.islice(self._waiting, size))
                    if not self._deliver_batch(client, run_id, batch):
                        size = 1  # to find the rejected event
                    wait = BACKOFF[0]
                except Exception as error:  # training goes on, events wait
                    self.error = " ".join(str(error).split())
                    if not self._wait(wait):
                        return
                    wait = min(2 * wait, longest)
            size = BATCH

    def _deliver_batch(self, client: Any, run_id: str, batch: list[dict[str, Any]]) -> bool:
        """Deliver a batch of events, and return True once they are delivered or set aside.

        `client`: of MLflow. If MLflow rejects a batch of several events, or a file of one of them
        is lost, returns False, so that the caller sends them one by one. An event that is rejected
        on its own, or whose file is lost, is written to the file REJECTED_EVENTS.
        """
        try:
            event_delivery.send(client, run_id, batch, self.folder)
        except Exception as error:
            lost = isinstance(error, LostFileError)
            if not lost and getattr(error, "error_code", "") != REJECTED:
                raise
            if len(batch) > 1:
                return False
            refused = json.dumps({"error": str(error), **batch[0]})
            append_line(self.folder / REJECTED_EVENTS, refused)
            self.rejected += 1
        write_text(self._sent, str(self._sent_events + len(batch)))
        self._sent_events += len(batch)
        for _ in batch:
            self._waiting.popleft()
        return True

    def _wait(self, seconds: float) -> bool:
        """Wait before the next try to send events to MLflow; return False to give up.

        Sending is given up once the run is closing and the `patience` of `close` has passed.
        """
        if not self._closing.wait(seconds):
            return True
        time.sleep(min(seconds, 1.0))
        return time.monotonic() < self._deadline

    def _send_again(self) -> None:
        """Mark all events that were delivered before this process began as not delivered."""
        lines = read_complete_lines(self._spool, repair=False)
        sent = [event for event in parse_lines(lines, EVENT) if event is not None]
        self._waiting.extendleft(reversed(sent[: self._sent_events]))
        self._sent_events = 0
        write_text(self._sent, "0")

    def _open(self) -> tuple[Any, str]:
        """Connect to MLflow; return the client and the run's id.

        The run is created in MLflow only once, and again if MLflow has lost it.
        """
        from mlflow.exceptions import MlflowException

        with server_address.sqlite_lock(self._uri):
            client = connect(self._uri)
        if self.run_id:
            try:
                client.update_run(self.run_id, status="RUNNING")
                return client, self.run_id
            except MlflowException as error:
                if error.error_code != UNKNOWN:
                    raise
        # the run's id is lost, or it is of another MLflow, such as that of another machine
        self._send_again()
        known = partial(client.get_experiment_by_name, self._experiment)
        if known() is None:
            try:
                where = server_address.artifact_folder(self._uri, self._experiment)
                client.create_experiment(self._experiment, where, KIND)
            except MlflowException:  # another process has just made it
                if known() is None:
                    raise
        tags = self._tags
        if self._parent is not None:  # fails, and is tried again, until MLflow knows the parent
            parent = client.get_run(_parent_id(self._parent))
            tags = {**tags, "mlflow.parentRunId": parent.info.run_id}
        experiment, began = known().experiment_id, self._waiting[0]["time"]
        found = client.search_runs([experiment], f"attributes.start_time = {began}")
        # the run exists already if the answer to its creation was lost
        named = [run for run in found if run.info.run_name == self.name]
        same = [run for run in named if run.data.tags.get(FOLDER_TAG) == self.folder.name]
        run = same[0] if same else client.create_run(experiment, began, tags, self.name)
        write_text(self.folder / IDENTITY, run.info.run_id)
        return client, run.info.run_id


def _start_monitor(uri: str, run_id: str) -> Any:
    """Start MLflow's measurement of this machine for a run; return the monitor, which has a thread.

    The interval is that of MLflow: 10 seconds, or MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL.
    """
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=uri)
    monitor.start()
    return monitor


def history(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Read all reported iterations of a run with their metrics, even while the run continues.

    `folder`: of the run.
    """
    found: dict[int, dict[str, float]] = {}
    for event in read_intact_lines(folder / SPOOL, EVENT, repair=False):
        if "metrics" in event:
            found.setdefault(event["step"], event["metrics"])
    return sorted(found.items())


def run_id(folder: Path) -> str | None:
    """Read the MLflow id of a run from the run's folder.

    Returns None if the run has not been created in MLflow yet, or if the file is damaged; a tracker
    then finds the run in MLflow by its name and time.
    """
    identity = folder / IDENTITY
    found = RUN_ID.fullmatch(identity.read_bytes()) if identity.exists() else None
    return found[1].decode() if found else None


def _parent_id(folder: Path) -> str:
    """Return the MLflow id of a child run's parent. Raises RunError if the parent has none yet."""
    found = run_id(folder)
    if found is None:
        raise RunError(f"MLflow does not know the run of {folder} yet")
    return found


def connect(uri: str) -> Any:
    """Return a client of an MLflow server and its model registry."""
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


@contextmanager
def command_client(uri: str) -> Iterator[Any]:
    """Context manager that yields an MLflow client for a command.

    Errors of MLflow are raised as a one-line RunError.
    """
    from mlflow.exceptions import MlflowException

    try:
        yield connect(uri)
    except MlflowException as error:
        raise RunError(f"MLflow at {uri} says: {error}") from None


def fetch(uri: str, file: str, folder: Path) -> Path:
    """Download an MLflow artifact into a folder and return its path there.

    `uri`: the MLflow server. `file`: the URI of the artifact. Raises UserError if that fails.
    """
    from mlflow import artifacts
    from mlflow.exceptions import MlflowException

    try:
        return Path(artifacts.download_artifacts(file, dst_path=str(folder), tracking_uri=uri))
    except (MlflowException, OSError):
        raise UserError(f"MLflow at {uri} cannot load {file}: restore it, or train again") from None
