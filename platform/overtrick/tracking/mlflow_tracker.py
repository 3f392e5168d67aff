"""Everything a run tells MLflow: batched, on a thread, and never in the way of training.

Every event is first appended to a spool file in the run's folder, then delivered from there in
order. While the server is away events wait on disk; what a run leaves undelivered goes out when
the run is opened again. Delivering twice changes nothing: an event keeps its time and step, and
MLflow drops a metric that it already has.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from overtrick.core import RunError, UserError
from overtrick.core.files import append_line, read_complete_lines, write_text
from overtrick.tracking import model_versions, server_address

os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # else 4 minutes for a dead server
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

SPOOL = "track.jsonl"  # the file in a run's folder that holds every event
REJECTED_EVENTS = "track.rejected"  # the file in a run's folder of events that MLflow refuses
IDENTITY = "track.run"  # the file in a run's folder that holds MLflow's name for it
BATCH = 200  # events delivered in one call
BACKOFF = (1.0, 30.0)  # seconds between tries while the server is away: first, most
REJECTED = "INVALID_PARAMETER_VALUE"  # MLflow will never take such an event
PARAM_BATCH, PARAM_LENGTH = 100, 6000  # MLflow's limits
LOADER = (
    Path(__file__).parents[1] / "serving" / "pyfunc_model.py"
)  # what MLflow runs to load a model
MODEL = "model"  # what MLflow calls the model of a run, and the folder of its data
KIND = {"mlflow.experimentKind": "custom_model_development"}  # or its pages are of chat models
STORED = f"artifacts/{MODEL}"  # where that lies within what MLflow keeps


class Tracker:
    """One run in MLflow, fed through a spool in the run's folder."""

    def __init__(
        self, uri: str, experiment: str, name: str, folder: Path, tags: Mapping[str, str],
        parent: Path | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self._uri = uri
        self._experiment = experiment
        self._name = name
        self._tags = dict(tags)
        self._spool = folder / SPOOL
        self._sent = folder / "track.sent"
        self._identity = folder / IDENTITY
        self._parent = parent  # the folder of the run that this one is a part of
        events = [json.loads(line) for line in read_complete_lines(self._spool)]
        self.reported = max((e.get("step", 0) for e in events), default=0)  # last iteration told
        self._told = max((e["time"] for e in events), default=0)  # ms since 1970
        self._sent_events = int(self._sent.read_text()) if self._sent.exists() else 0
        self._waiting = deque(events[self._sent_events :])
        self._new = threading.Event()
        self._new.set()
        self._closing = threading.Event()
        self._deadline = 0.0  # monotonic time at which a closing run gives up
        self.error = ""  # why the last try failed
        self.rejected = 0  # events that MLflow will never take, stored in REJECTED_EVENTS
        self._thread = threading.Thread(target=self._deliver, name="mlflow", daemon=True)
        self._thread.start()

    @property
    def run_id(self) -> str | None:
        """MLflow's name for the run, once it has been delivered."""
        return run_id(self.folder)

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
        return history(self.folder)

    def artifact(self, path: Path, place: str = "") -> None:
        """A file or folder that belongs to the run."""
        self._add({"artifact": str(path.absolute()), "place": place})

    def model(self, path: Path, answers: Mapping[str, Any]) -> None:
        """The folder of the model that the run leaves behind; what it answers: see `_log_model`."""
        self._add({"model": str(path.absolute()), "answers": dict(answers), "step": self.reported})

    def note(self, text: str) -> None:
        """What stands at the top of the run's page, in Markdown."""
        self._add({"note": text})

    def register(self, name: str) -> None:
        """Let that model stand in the registry under a name."""
        self._add({"register": name})

    def close(self, status: str, patience: float = 30.0) -> int:
        """Deliver what is left for so many seconds; the number of events that stay on disk."""
        try:
            self._add({"status": status})
        finally:  # what stands in the spool goes out even if the disk takes no more
            self._deadline = time.monotonic() + patience
            self._closing.set()
            self._new.set()
            self._thread.join(patience + 5)  # a call in flight may outlast the last try
        return len(self._waiting)

    def _add(self, event: dict[str, Any]) -> None:
        self._told = event["time"] = max(self._told, time.time_ns() // 1_000_000)  # never back
        append_line(self._spool, json.dumps(event))
        self._waiting.append(event)
        self._new.set()

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
                    size = size if self._hand_over(client, run_id, part) else 1  # which is it?
                    wait = BACKOFF[0]
                except Exception as error:  # training goes on, events wait
                    self.error = " ".join(str(error).split())
                    if not self._wait(wait):
                        return
                    wait = min(2 * wait, longest)
            size = BATCH

    def _hand_over(self, client: Any, run_id: str, part: list[dict[str, Any]]) -> bool:
        """Deliver some events and count them; False if MLflow refuses one of several."""
        try:
            _send(client, run_id, part)
        except Exception as error:
            if getattr(error, "error_code", "") != REJECTED:
                raise
            if len(part) > 1:
                return False
            append_line(
                self.folder / "track.rejected", json.dumps({"error": str(error), **part[0]})
            )
            self.rejected += 1
        write_text(self._sent, str(self._sent_events + len(part)))
        self._sent_events += len(part)
        for _ in part:
            self._waiting.popleft()
        return True

    def _wait(self, seconds: float) -> bool:
        """Wait before another try; False when the run is closing and its patience is over."""
        if not self._closing.wait(seconds):
            return True
        time.sleep(min(seconds, 1.0))
        return time.monotonic() < self._deadline

    def _open(self) -> tuple[Any, str]:
        """A client, and this run: the same one after a restart."""
        from mlflow.exceptions import MlflowException

        with server_address.sqlite_lock(self._uri):
            client = connect(self._uri)
        if self.run_id:
            client.update_run(self.run_id, status="RUNNING")
            return client, self.run_id
        known = partial(client.get_experiment_by_name, self._experiment)
        if known() is None:
            try:
                where = server_address.artifact_folder(self._uri, self._experiment)
                client.create_experiment(self._experiment, where, KIND)
            except MlflowException:  # another run has just made it
                if known() is None:
                    raise
        tags = self._tags
        if self._parent is not None:  # if it is not there yet, all waits for it
            tags = {**tags, "mlflow.parentRunId": (self._parent / IDENTITY).read_text().strip()}
        place, began = known().experiment_id, self._waiting[0]["time"]
        made = client.search_runs([place], f"attributes.start_time = {began}")
        mine = [run for run in made if run.info.run_name == self._name]  # its answer was lost
        run = mine[0] if mine else client.create_run(place, began, tags, self._name)
        write_text(self._identity, run.info.run_id)
        return client, run.info.run_id


def history(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Every iteration that a run in a folder has reported and its metrics; the run may go on."""
    events = [json.loads(line) for line in read_complete_lines(folder / SPOOL, repair=False)]
    return [(e["step"], e["metrics"]) for e in events if "metrics" in e]


def run_id(folder: Path) -> str | None:
    """MLflow's name for the run of a folder; None if it has not been delivered."""
    identity = folder / IDENTITY
    return identity.read_text().strip() if identity.exists() else None


def connect(uri: str) -> Any:
    """A client of MLflow; its registry is at the same address."""
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


@contextmanager
def command_client(uri: str) -> Iterator[Any]:
    """A client for a command: what MLflow complains of is RunError, in one line."""
    from mlflow.exceptions import MlflowException

    try:
        yield connect(uri)
    except MlflowException as error:
        raise RunError(f"MLflow at {uri} says: {error}") from None


def fetch(uri: str, file: str, folder: Path) -> Path:
    """A copy in a folder of a file that MLflow keeps, by its address. Raises UserError."""
    from mlflow import artifacts
    from mlflow.exceptions import MlflowException

    try:
        return Path(artifacts.download_artifacts(file, dst_path=str(folder), tracking_uri=uri))
    except (MlflowException, OSError):
        raise UserError(f"MLflow at {uri} cannot give {file}: restore it, or train again") from None


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
        if path := event.get("artifact"):
            log = client.log_artifacts if os.path.isdir(path) else client.log_artifact
            log(run_id, path, event["place"] or None)
        if "note" in event:
            client.set_tag(run_id, "mlflow.note.content", event["note"])
        if "model" in event:
            _log_model(client, run_id, event)
        if "register" in event:
            model_versions.register(client, run_id, event["register"])
        if "status" in event:
            client.set_terminated(run_id, event["status"], event["time"])


def _log_model(client: Any, run_id: str, event: Mapping[str, Any]) -> None:
    """Give MLflow the model of a run, loaded by code (served.py), its weights as they are.

    answers: `facts` and `said`, names to MLflow's types; an `example` of facts by column; and
    `about`, what is known of the model. Done twice, it comes to the same.
    """
    from mlflow import pyfunc
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema

    known, told = model_versions.model_id(client, run_id), event["answers"]
    if known is None:
        place = client.get_run(run_id).info.experiment_id
        known = client.create_logged_model(place, MODEL, run_id, model_type="overtrick").model_id
        client.log_outputs(run_id, [LoggedModelOutput(known, event["step"])])
    where = client.get_logged_model(known).artifact_location
    both = (Schema([ColSpec(t, n) for n, t in told[key].items()]) for key in ("facts", "said"))
    logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as beside:
        pyfunc.save_model(
            f"{beside}/{MODEL}",
            python_model=LOADER,
            artifacts={MODEL: event["model"]},
            mlflow_model=Model(where, run_id, model_id=known),
            signature=ModelSignature(*both),
            input_example=told["example"],
            pip_requirements=[f"overtrick=={told['about']['version']}"],
            metadata={"overtrick": told["about"]},
        )
        client.log_model_artifacts(known, f"{beside}/{MODEL}")
    client.finalize_logged_model(known, "READY")
