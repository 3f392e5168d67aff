"""Measure the cost of PettingZoo's interface per step of limit hold'em, beside our game."""

from __future__ import annotations

from tests.bench.doors import beside_ourselves
from tests.bench.measure import Result


def run() -> Result:
    return beside_ourselves("doors_holdem", "holdem")
