"""Fixtures of a local Ray and of an MLflow store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import ray
from tests.bucket_server import BUCKET, bucket_server, client_settings, free_port

from overtrick.distributed.workers import RayPool, WorkerPool, start_ray


@pytest.fixture(scope="session")
def bucket_port() -> int:
    """Return the port of the S3 server, which the workers of Ray know before it is started."""
    return free_port()


@pytest.fixture(scope="session")
def running_bucket_server(bucket_port: int) -> Iterator[None]:
    with bucket_server(bucket_port):
        yield


@pytest.fixture
def bucket(
    bucket_port: int,
    running_bucket_server: None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Return the URL of an empty folder of a bucket, for the test alone."""
    for name, value in client_settings(bucket_port).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{request.node.name.replace('[', '-').replace(']', '')}"


@pytest.fixture(scope="session")
def local_ray(bucket_port: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in client_settings(bucket_port).items():
            patch.setenv(name, value)
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


FAULT_ROWS = pytest.StashKey[list[Any]]()


@pytest.fixture
def fault_rows(request: pytest.FixtureRequest) -> list[Any]:
    """Return the list of rows that are printed as a table at the end of all tests."""
    return request.config.stash.setdefault(FAULT_ROWS, [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table of the faults that were tested."""
    rows = config.stash.get(FAULT_ROWS, [])
    if rows:
        terminalreporter.write_line(f"\n{'fault':40} {'lost':>5} {'doubled':>8} equal {'s':>6}")
    for row in rows:
        equal = "yes" if row.equal else "NO"
        terminalreporter.write_line(
            f"{row.fault:40} {row.lost:5} {row.doubled:8} {equal:>5} {row.seconds:6.1f}"
        )
