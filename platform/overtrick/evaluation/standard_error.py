"""Standard error of a mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean of values; None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
