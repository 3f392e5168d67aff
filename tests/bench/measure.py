"""Compare two functions: run them in turns in one process and take their medians."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Result:
    """Result of one bench; `ratio` rises as overtrick gets better, whatever the unit."""

    name: str
    work: str  # description of the measured work
    ours: float
    peer: float | None  # None if nothing comparable exists
    peer_name: str
    unit: str  # unit of ours and peer
    ratio: float | None
    goal: float | None  # smallest acceptable ratio


def seconds_of(work: Callable[[], object]) -> float:
    """Return the wall-clock seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turns(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Return the median seconds of a call of each. The calls alternate, so that other load hits
    both.

    The first call of each compiles and fills caches; it is not measured.
    """
    ours(), peer()
    pairs = [(seconds_of(ours), seconds_of(peer)) for _ in range(rounds)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


def as_good(ours: float, peer: float, iterations: int) -> None:
    """Raise AssertionError if ours is more exploitable than the peer's after as many iterations.

    A faster iteration with less progress would be no gain.
    """
    assert ours <= peer * (1 + 1e-6), (
        f"after {iterations:,} iterations our exploitability {ours:.9g} is above the peer's "
        f"{peer:.9g}: the speeds cannot be compared"
    )
