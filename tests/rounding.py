"""Comparison of float32 results that batch sizes, threads or CPUs may round differently."""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDINGS = 64
"""Number of float32 roundings that accumulate in sums of a few thousand terms: about the square
root of the number of terms, because they are random."""


def assert_float32_close(found: Any, wanted: Any, size: float = 1.0) -> None:
    """Assert that arrays differ by at most the rounding of float32 sums of numbers of this size.

    size: the largest magnitude that enters the sums; that of the wanted numbers, if it is larger.
    """
    one, other = (np.asarray(each, dtype=np.float64) for each in (found, wanted))
    most = ROUNDINGS * np.finfo(np.float32).eps * max(size, np.abs(other).max(initial=0.0))
    assert np.abs(one - other).max(initial=0.0) <= most
