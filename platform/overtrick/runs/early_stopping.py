"""The interface of rules that stop some trials of a sweep early, such as ASHA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class EarlyStopping(Protocol):
    """A rule that ends some trials before their last iteration."""

    def stops(self, trial: int, iteration: int, metrics: Mapping[str, float]) -> bool:
        """Return True if the trial should end after this iteration, given its metrics.

        `trial`: the number of the trial.
        """

    def stopped_at(self) -> Mapping[int, int]:
        """Return the last iteration of each stopped trial, by number of the trial."""

    def error(self) -> str:
        """Return the reason why trials cannot be compared, or an empty string if they can."""
