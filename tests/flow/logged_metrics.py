"""Metrics of a run by name, each with its steps and values in order: from MLflow, or from a
history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mlflow import MlflowClient

Points = dict[str, list[tuple[int, float]]]


def in_mlflow(client: MlflowClient, run_id: str) -> Points:
    """Return the metrics of a run's iterations in MLflow, without those of the machine's speed."""
    logged = client.get_run(run_id).data.metrics
    names = [name for name in logged if name != "score" and not name.startswith("speed/")]
    return {n: [(m.step, m.value) for m in client.get_metric_history(run_id, n)] for n in names}


def of_history(history: Iterable[tuple[int, Mapping[str, float]]]) -> Points:
    """Return the metrics of a run's own history."""
    found: Points = defaultdict(list)
    for step, metrics in history:
        for name, value in metrics.items():
            found[name].append((step, value))
    return found
