"""Measure games of random Leduc per second beside RLCard's environment."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.random_play import beside_rlcard


def run() -> Result:
    return beside_rlcard("leduc_play", "leduc", "leduc-holdem", goal=50)
