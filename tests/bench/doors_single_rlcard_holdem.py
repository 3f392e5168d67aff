"""Compare one seat of limit hold'em against a random opponent, one game at a time: our Gymnasium
environment beside RLCard's environment with its random agent."""

from __future__ import annotations

from tests.bench.doors_single_rlcard import beside_rlcard
from tests.bench.measure import Result


def run() -> Result:
    return beside_rlcard("doors_single_rlcard_holdem", "holdem", "limit-holdem")
