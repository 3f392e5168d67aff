"""Measure the overhead of Ray with shards of 200 ms and more: one worker beside this process."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.worker_pools import games_per_long_shard, one_against_none, play_holdem


def run() -> Result:
    return one_against_none("ray_shards", games_per_long_shard(play_holdem), goal=1 / 1.1)
