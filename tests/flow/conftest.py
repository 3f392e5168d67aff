"""Fixtures of a local Ray and of an MLflow store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from overtrick.distributed.workers import RayPool, WorkerPool, start_ray


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_metrics_report_interval_ms", "1000")  # the default is 10 seconds
        start_ray([{"CPU": 1.0}] * 4)
    yield
    ray.shutdown()


class SharedPool(RayPool):
    """Pool that many trainers use in turn."""

    def close(self) -> None:
        """Kill the actors that host objects of all trainers, but no worker."""
        while self._hosts:
            ray.kill(self._hosts.pop().actor)


@pytest.fixture(scope="session")
def two_workers(local_ray: None) -> Iterator[WorkerPool]:
    """Two Ray workers, which take seconds to start. They hold none of Ray's CPUs, so that trials
    can have all of them."""
    pool = SharedPool(2, cpus=0)
    yield pool
    RayPool.close(pool)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of an MLflow store whose tables exist."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
