"""Measure iterations of CFR+ per second on OpenSpiel's leduc_poker."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.same_tree import compare


def run() -> Result:
    return compare(
        "cfr_plus_leduc_unfolded", "leduc_poker", goal=20, iterations=2_000, peer_iterations=20
    )
