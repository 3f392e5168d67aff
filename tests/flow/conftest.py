"""One Ray for all tests that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray

from overtrick.workers import start_ray


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    start_ray([{"CPU": 1.0}] * 4)
    yield
    ray.shutdown()
