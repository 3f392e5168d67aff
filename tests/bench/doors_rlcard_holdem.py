"""Compare limit hold'em one game at a time: our PettingZoo environment beside RLCard's
environment."""

from __future__ import annotations

from tests.bench.doors_rlcard import beside_rlcard
from tests.bench.measure import Result


def run() -> Result:
    return beside_rlcard("doors_rlcard_holdem", "holdem", "limit-holdem")
