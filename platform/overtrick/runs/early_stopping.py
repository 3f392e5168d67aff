"""The interface of rules that stop some trials of a sweep early, such as ASHA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class EarlyStopping(Protocol):
    """A rule that ends some trials before their last iteration."""

    def stops(self, trial: int, iteration: int, metrics: Mapping[str, float]) -> bool:
        """Return True if a trial should end after this iteration, given the iteration's metrics.

        `trial`: the number of the trial.
        """

    def stopped_at(self) -> Mapping[int, int]:
        """Return a map from the number of each stopped trial to the trial's last iteration."""

    def error(self) -> str:
        """Return an error message if the rule cannot rank the trials, else an empty string.

        For example, a rule cannot rank trials by a score that is never measured.
        """
