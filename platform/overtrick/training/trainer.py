"""What a trainer has to show at the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

History = Sequence[tuple[int, dict[str, float]]]
"""Every iteration and its metrics, in order."""


@dataclass(frozen=True)
class Report:
    """A table and the figures of a run."""

    rows: list[dict[str, Any]]
    figures: dict[str, Figure]
