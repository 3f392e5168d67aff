"""Card play for the learners of Mini-Bridge, made by two Ray workers and by one."""

from __future__ import annotations

from tests.bench.crews import make_cardplay, two_against_one
from tests.bench.measure import Result


def run() -> Result:
    return two_against_one("two_workers_cardplay", "won games of card play", make_cardplay)
