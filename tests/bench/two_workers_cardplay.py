"""Compare two Ray workers with one on generating card play for the learners of Mini-Bridge."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.worker_pools import make_cardplay, two_against_one


def run() -> Result:
    return two_against_one("two_workers_cardplay", "won games of card play", make_cardplay)
