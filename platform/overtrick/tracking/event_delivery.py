"""Send the events of a run to MLflow: metrics, settings, data sets, files, tables, models, status.

Sending an event twice changes nothing.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overtrick.tracking import model_versions

LOADER = Path(__file__).parents[1] / "serving" / "pyfunc_model.py"  # loads a model in MLflow
MODEL = "model"  # MLflow's name for the model of a run, and the folder of the model's data
BEST_MODEL = "best_model"  # MLflow's name for the model with the best score in training
STORED = f"artifacts/{MODEL}"  # the folder of the model's data within MLflow's model
TABLES_TAG = "mlflow.loggedArtifacts"  # of a run: its tables, which MLflow shows and compares
PARAM_BATCH = 100  # MLflow's limit
SAVING = threading.Lock()  # while MLflow saves a model, it changes sys.modules for all threads


class LostFileError(Exception):
    """An event names a file or folder that no longer exists, so that no try can deliver it."""


def send(client: Any, run_id: str, events: list[dict[str, Any]], folder: Path) -> None:
    """Send events of a run to MLflow: first all metrics, then the other events in order.

    `client`: of MLflow. `folder`: of the run. Raises LostFileError.
    """
    from mlflow.entities import Metric, Param

    metrics = [
        Metric(name, value, event["time"], event["step"])
        for event in events
        for values in (event.get("metrics", event.get("result", {})), event.get("speed", {}))
        for name, value in values.items()
    ]
    for start in range(0, len(metrics), 1000):
        client.log_batch(run_id, metrics=metrics[start : start + 1000])
    for event in events:
        params = [Param(name, value) for name, value in event.get("params", {}).items()]
        for start in range(0, len(params), PARAM_BATCH):
            client.log_batch(run_id, params=params[start : start + PARAM_BATCH])
        named = event.get("artifact") or event.get("model")
        path = str(folder / named) if named else None
        if path and not os.path.exists(path):
            raise LostFileError(f"{path} does not exist")
        if path and "artifact" in event:
            log = client.log_artifacts if os.path.isdir(path) else client.log_artifact
            log(run_id, path, event["place"] or None)
        if "dataset" in event:
            client.log_inputs(run_id, [_dataset_input(event)])
        if "table" in event:
            _log_table(client, run_id, event["table"], event["rows"])
        if "note" in event:
            client.set_tag(run_id, "mlflow.note.content", event["note"])
        if "model" in event:
            _log_model(client, run_id, {**event, "model": path})
        if "register" in event:
            model_versions.register(client, run_id, event["register"])
        if "status" in event:
            client.set_terminated(run_id, event["status"], event["time"])


def _log_table(client: Any, run_id: str, name: str, rows: list[dict[str, Any]]) -> None:
    """Log a table of a run, in the form of MLflow's `log_table`; a second call changes nothing.

    MLflow's own function would append the rows again.
    """
    columns = list(rows[0]) if rows else []
    content = {"columns": columns, "data": [[row[column] for column in columns] for row in rows]}
    client.log_text(run_id, json.dumps(content), name)
    client.set_tag(run_id, TABLES_TAG, json.dumps([{"path": name, "type": "table"}]))


def _dataset_input(event: Mapping[str, Any]) -> Any:
    """Return MLflow's description of a data set on which a run trains."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    source, profile = {"uri": event["dataset"]}, {"num_rows": event["rows"]}
    dataset = Dataset(
        event["kind"], event["digest"], "local", json.dumps(source), None, json.dumps(profile)
    )
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])


def _log_model(client: Any, run_id: str, event: Mapping[str, Any]) -> None:
    """Log a model of a run in MLflow as that of its step, with LOADER as the code that loads it.

    A second call changes nothing. `event["measured"]` has the metrics of the step, which MLflow
    shows with the model. `event["answers"]` has these keys:

    - `facts`: input schema of the MLflow signature, the MLflow type of each input column.
    - `said`: output schema of the MLflow signature, the MLflow type of each output column.
    - `example`: MLflow input example, the values of each input column.
    - `about`: MLflow metadata of the model.
    """
    from mlflow import pyfunc
    from mlflow.entities import LoggedModelOutput, Metric
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema

    step, answers, name = event["step"], event["answers"], event.get("name", MODEL)
    known = model_versions.model_ids(client, run_id).get(name)
    if known is None:
        experiment = client.get_run(run_id).info.experiment_id
        made = client.create_logged_model(experiment, name, run_id, model_type="overtrick")
        known = made.model_id
        client.log_outputs(run_id, [LoggedModelOutput(known, step)])
    measured = event.get("measured", {"time": 0, "metrics": {}})
    metrics = [
        Metric(metric, value, measured["time"], step, model_id=known)
        for metric, value in measured["metrics"].items()
    ]
    client.log_batch(run_id, metrics=metrics)
    where = client.get_logged_model(known).artifact_location
    schemas = (
        Schema([ColSpec(kind, name) for name, kind in answers[key].items()])
        for key in ("facts", "said")
    )
    logging.getLogger("mlflow.pyfunc").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as beside:
        with SAVING:
            pyfunc.save_model(
                f"{beside}/{MODEL}",
                python_model=LOADER,
                artifacts={MODEL: event["model"]},
                mlflow_model=Model(where, run_id, model_id=known),
                signature=ModelSignature(*schemas),
                input_example=answers["example"],
                pip_requirements=[f"overtrick=={answers['about']['version']}"],
                metadata={"overtrick": answers["about"]},
            )
        client.log_model_artifacts(known, f"{beside}/{MODEL}")
    client.finalize_logged_model(known, "READY")
