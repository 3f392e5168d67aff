"""Measure iterations of CFR+ per second on OpenSpiel's liars_dice."""

from __future__ import annotations

from tests.bench.measure import Result
from tests.bench.same_tree import compare


def run() -> Result:
    return compare("cfr_plus_liars_dice", "liars_dice", goal=20, iterations=50, peer_iterations=1)
