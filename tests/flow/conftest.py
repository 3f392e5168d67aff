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


class SharedPool:
    """Pool that many trainers use in turn: `close` kills the hosted objects, but no worker."""

    def __init__(self, pool: RayPool) -> None:
        self.map = pool.map
        self.host = pool.host
        self._hosts = pool._hosts

    def close(self) -> None:
        """Kill the actors that host objects."""
        while self._hosts:
            ray.kill(self._hosts.pop().actor)


@pytest.fixture(scope="session")
def two_workers(local_ray: None) -> Iterator[WorkerPool]:
    """Two Ray workers, which take seconds to start. They hold none of Ray's CPUs, so that trials
    can have all of them."""
    pool = RayPool(2, cpus=0)
    yield SharedPool(pool)
    pool.close()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of an MLflow store whose tables exist."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
