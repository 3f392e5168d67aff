"""Compare two Ray workers with one on limit hold'em."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.worker_pools import play_holdem, two_against_one


def run() -> Result:
    return two_against_one("two_workers_holdem", "random limit hold'em", play_holdem)
