"""Limit hold'em by two Ray workers and by one."""

from __future__ import annotations

from tests.bench.crews import play_holdem, two_against_one
from tests.bench.measure import Result


def run() -> Result:
    return two_against_one("two_workers_holdem", "random limit hold'em", play_holdem)
