"""Measure iterations of CFR+ per second on OpenSpiel's kuhn_poker."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.same_tree import compare


def run() -> Result:
    return compare("cfr_plus_kuhn", "kuhn_poker", goal=3, iterations=200_000, peer_iterations=2_000)
