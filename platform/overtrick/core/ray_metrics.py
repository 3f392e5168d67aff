"""What game workers do with their time, as Ray's own metrics: cluster/grafana draws them.

A node exports them with `ray_` before their names, and counts with `_total` behind.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

BOUNDS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]  # seconds of a shard
_played = {"games": 0}


def count_games(games: int) -> None:
    """So many games came to their end in this process."""
    _played["games"] += games


class WorkerMetrics:
    """Of one worker: the games that it plays, the seconds of its shards and those between them."""

    def __init__(self) -> None:
        from ray.util.metrics import Counter, Histogram  # whoever counts games needs no Ray

        self._games = Counter("overtrick_games", "games played to their end")
        self._shards = Histogram("overtrick_shard_seconds", "time at work on a shard", BOUNDS)
        self._idle = Counter("overtrick_idle_seconds", "time between shards")
        self._free = time.perf_counter()

    @contextmanager
    def shard(self) -> Iterator[None]:
        """A shard is worked on meanwhile."""
        began, games = time.perf_counter(), _played["games"]
        if began > self._free:  # Ray refuses to count nothing
            self._idle.inc(began - self._free)
        try:
            yield
        finally:
            self._free = time.perf_counter()
            self._shards.observe(self._free - began)
            if _played["games"] > games:
                self._games.inc(_played["games"] - games)
