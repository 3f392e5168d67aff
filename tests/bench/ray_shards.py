"""What Ray costs in shards of 200 ms of work and more: one worker against this process."""

from __future__ import annotations

from tests.bench.crews import long_enough, one_against_none, play_holdem
from tests.bench.measure import Result


def run() -> Result:
    return one_against_none("ray_shards", long_enough(play_holdem), goal=1 / 1.1)
