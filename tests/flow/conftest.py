"""Fixtures of a local Ray and of an MLflow store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from overtrick.distributed.workers import start_ray


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_metrics_report_interval_ms", "1000")  # the default is 10 seconds
        start_ray([{"CPU": 1.0}] * 4)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of an MLflow store whose tables exist."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
