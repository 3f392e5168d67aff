"""Comparison of float32 results that other batch sizes, threads or CPUs may round otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

ROUNDINGS = 64
"""Roundings of float32 that may add up in sums of some thousand terms, as they do at random: about
the square root of the number of terms."""


def assert_float32_close(found: Any, wanted: Any, size: float = 1.0) -> None:
    """Assert that arrays differ by at most the rounding of float32 sums of numbers of this size.

    size: the largest magnitude that enters the sums; that of the wanted numbers, if it is larger.
    """
    one, other = (np.asarray(each, dtype=np.float64) for each in (found, wanted))
    most = ROUNDINGS * np.finfo(np.float32).eps * max(size, np.abs(other).max(initial=0.0))
    assert np.abs(one - other).max(initial=0.0) <= most
