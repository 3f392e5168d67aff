"""Standard error of a mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array


def standard_error(values: Sequence[float] | Array) -> float | None:
    """Return the standard error of the mean of values (n,); None for fewer than two values."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
