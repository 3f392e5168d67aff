"""What Ray costs in shards of a few milliseconds: one worker against this process."""

from __future__ import annotations

from tests.bench.crews import SMALL, one_against_none
from tests.bench.measure import Result


def run() -> Result:
    return one_against_none("ray_small_shards", SMALL, goal=None)
