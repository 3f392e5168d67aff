"""The interface by which a rule that stops some trials early is asked, such as ASHA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class EarlyStopping(Protocol):
    """A rule that ends trials before their last iteration."""

    def stops(self, trial: int, iteration: int, metrics: Mapping[str, float]) -> bool:
        """Decide whether this iteration, with these metrics, is the last of this trial."""

    def stopped_at(self) -> Mapping[int, int]:
        """Return the last iteration of each stopped trial, by trial."""

    def error(self) -> str:
        """Return the reason why no trial can be judged, or an empty string."""
