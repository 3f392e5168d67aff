"""Ray metrics of the game workers: games played, busy time and idle time.

Ray exports these metrics with the prefix `ray_`, and counters with the suffix `_total`. The
dashboards in cluster/grafana show them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

BOUNDS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]  # of the histogram, in seconds
_played = {"games": 0}


def count_games(games: int) -> None:
    """Add `games` finished games to this process's count, which a worker reports to Ray."""
    _played["games"] += games


def games_played() -> int:
    """Return the number of games that this process and its game workers have finished."""
    return _played["games"]


class WorkerMetrics:
    """Ray metrics of one worker: games played, seconds for each shard, seconds between shards.

    A shard is a part of an iteration's work that one worker computes.
    """

    def __init__(self) -> None:
        from ray.util.metrics import Counter, Histogram  # count_games works without Ray

        self._games = Counter("overtrick_games", "games played to their end")
        self._shards = Histogram("overtrick_shard_seconds", "time at work on a shard", BOUNDS)
        self._idle = Counter("overtrick_idle_seconds", "time between shards")
        self._free = time.perf_counter()

    @contextmanager
    def shard(self) -> Iterator[None]:
        """Context manager: record the block as work on a shard, and the time before it as idle."""
        began, games = time.perf_counter(), _played["games"]
        if began > self._free:  # Ray raises an error for an increment of 0
            self._idle.inc(began - self._free)
        try:
            yield
        finally:
            self._free = time.perf_counter()
            self._shards.observe(self._free - began)
            if _played["games"] > games:
                self._games.inc(_played["games"] - games)
