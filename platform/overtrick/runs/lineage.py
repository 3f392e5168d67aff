"""Lineage of a model: the run, job, code, data sets and models that made it, as MLflow has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from overtrick.core import UserError
from overtrick.runs.provenance import COMMIT
from overtrick.storage import bucket_copy, locate
from overtrick.tracking import mlflow_tracker, model_versions, server_address


def lineage(name: str) -> dict[str, Any]:
    """Return where a model comes from, as MLflow has recorded it.

    `name`: a run of this machine, or a registered model models:/NAME/VERSION. The result has the
    model, the run and its MLflow id, the iteration after which the model was stored, the trainer
    and game, the version and commit of the code, whether uncommitted changes were used, the job's
    settings by dotted key, and lists of data sets and models that the run has read. Raises
    UserError if MLflow does not know the model.
    """
    if locate.is_registered(name):
        uri = server_address.default()
        with mlflow_tracker.command_client(uri) as client:
            version = model_versions.find(client, model_versions.parse(name), uri)
            return _of_run(client, name, version.run_id, version.tags)
    run = locate.existing_run(name)
    uri = run.read_job().get("track", {}).get("uri") or server_address.default()
    if bucket_copy.copy_of(run.path):
        uri = server_address.usable_here(uri)
    if run.run_id is None:
        sent = run.group.short_name(locate.runs_location())
        remedy = f"`overtrick resume {sent}` sends it"
        raise UserError(f"MLflow at {uri} does not know {run.name}: {remedy}")
    server_address.check(uri, must_exist=True)
    with mlflow_tracker.command_client(uri) as client:
        return _of_run(client, name, run.run_id)


def _of_run(
    client: Any, name: str, run_id: str, version: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the lineage of a run's last model, or of a registered version with these tags."""
    run = client.get_run(run_id)
    last = max(model_versions.iterations(client, run_id).values(), default=None)
    iteration = (version or {}).get(model_versions.ITERATION, last)
    tags = run.data.tags
    datasets = [
        {
            "path": json.loads(each.dataset.source)["uri"],
            "kind": each.dataset.name,
            "rows": json.loads(each.dataset.profile)["num_rows"],
            "digest": each.dataset.digest,
        }
        for each in run.inputs.dataset_inputs
    ]
    models = [
        json.loads(value)
        for key, value in sorted(tags.items())
        if key.startswith(mlflow_tracker.MODEL_TAG)
    ]
    return {
        "model": name,
        "run": run.info.run_name,
        "run_id": run_id,
        "iteration": None if iteration is None else int(iteration),
        "trainer": tags.get("overtrick.trainer"),
        "game": tags.get("overtrick.game"),
        "version": tags.get("overtrick.version"),
        "commit": tags.get(COMMIT),
        "uncommitted": tags.get("overtrick.uncommitted"),
        "datasets": sorted(datasets, key=lambda each: str(each["path"])),
        "models": models,
        "job": dict(sorted(run.data.params.items())),
    }
