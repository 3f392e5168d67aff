"""Measure the overhead of Ray with shards of a few milliseconds: one worker beside this process."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.worker_pools import SMALL, one_against_none


def run() -> Result:
    return one_against_none("ray_small_shards", SMALL, goal=None)
