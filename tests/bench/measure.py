"""How two contenders are compared: in turns, in one process, by their medians."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Result:
    """One bench; `ratio` rises as overtrick gets better, whatever the unit."""

    name: str
    work: str  # what was measured, in words
    ours: float
    peer: float | None  # None where nothing comparable exists
    peer_name: str
    unit: str  # of ours and peer
    ratio: float | None
    goal: float | None  # the least ratio to be content with


def seconds_of(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turns(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Median seconds of a call of each. They alternate, so that a busy moment hits both.

    The first call of each compiles and warms caches; it is not counted.
    """
    ours(), peer()
    pairs = [(seconds_of(ours), seconds_of(peer)) for _ in range(rounds)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def as_good(ours: float, peer: float, iterations: int) -> None:
    """Raise AssertionError if we are more exploitable than the peer after equal iterations.

    A faster iteration that comes less near to an equilibrium would be no gain.
    """
    assert ours <= peer * (1 + 1e-6), (
        f"after {iterations:,} iterations our exploitability {ours:.9g} is above the peer's "
        f"{peer:.9g}: the speeds cannot be compared"
    )
