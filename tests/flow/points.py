"""The metrics of a run, each with its steps and values in order: in MLflow, and as they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mlflow import MlflowClient

Points = dict[str, list[tuple[int, float]]]


def known(client: MlflowClient, run_id: str) -> Points:
    """What MLflow has."""
    names = client.get_run(run_id).data.metrics
    return {n: [(m.step, m.value) for m in client.get_metric_history(run_id, n)] for n in names}


def of(history: Iterable[tuple[int, Mapping[str, float]]]) -> Points:
    """What a run's own record comes to."""
    found: Points = defaultdict(list)
    for step, metrics in history:
        for name, value in metrics.items():
            found[name].append((step, value))
    return found
