"""Asynchronous successive halving (ASHA): stop the worse trials of a sweep early.

Li et al. 2020, "A system for massively parallel hyperparameter tuning", in the variant that stops
trials instead of pausing them, like Ray Tune's ASHAScheduler. Differences:

| here | Tune |
|---|---|
| scores are logged to a file, from which a resumed sweep restores its decisions | in memory only |
| one bracket | one or several |
| a score that is not finite stops the trial | a trial with score NaN continues |
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter

from overtrick.core.files import append_line
from overtrick.core.json_files import ClosedRecord, read_intact_lines
from overtrick.storage import bucket_copy

log = logging.getLogger(__name__)


class RungScore(ClosedRecord):
    """Schema of a line of the log: the score of a trial at a rung."""

    trial: Annotated[int, Field(ge=0)]
    iteration: Annotated[int, Field(ge=1)]
    score: float


RUNG_SCORE: TypeAdapter[Any] = TypeAdapter(RungScore)
Measure = Callable[[Mapping[str, float]], float | None]
"""Returns the score of one iteration's metrics: larger is better, None if it was not measured."""


def finite_or_worst(score: float) -> float:
    """Return the score, or -inf if it is NaN or infinite."""
    return score if math.isfinite(score) else -math.inf


class Asha:
    """ASHA scheduler: decides which trials stop early, and logs their scores to a file.

    The rungs are at `grace`, `grace` * `factor`, `grace` * `factor`^2, ... iterations, below the
    last iteration of the trials. A trial that reaches a rung continues if its score is finite and
    in the best 1 / `factor` of the scores that trials had at this rung before. A score is logged
    before it takes effect.
    """

    def __init__(self, file: Path, grace: int, factor: int, last: int, measure: Measure) -> None:
        """Create the scheduler, and restore its earlier decisions by replaying the log `file`.

        - `file`: log of the trials' scores. It may not exist yet.
        - `grace`: the iteration of the first rung.
        - `factor`: the reduction factor between rungs.
        - `last`: the last iteration of each trial.
        - `measure`: function from an iteration's metrics to the score.
        """
        self._file, self._grace, self._factor, self._last = file, grace, factor, last
        self._measure = measure
        self._rungs: dict[int, dict[int, float]] = {}  # by rung: scores by trial
        self._stopped: dict[int, int] = {}  # by trial: its last iteration
        self._error = ""
        logged = read_intact_lines(file, RUNG_SCORE)
        possible = [entry for entry in logged if self._rung(entry["iteration"]) is not None]
        for entry in possible:
            self._decide(entry["trial"], entry["iteration"], entry["score"])
        if early := len(logged) - len(possible):
            log.warning("%s: scores that belong to no rung left out: %d", file, early)

    def stops(self, trial: int, iteration: int, metrics: Mapping[str, float]) -> bool:
        """Return True if the trial should end after this iteration, given its metrics.

        If a trial passes the second rung and its metrics never had a score, the search is
        misconfigured. From then on every trial is stopped, and `error` returns a message.
        """
        score = self._measure(metrics)
        if score is None and iteration > self._grace * self._factor and not self._passed(trial):
            self._error = (
                f"nothing was measured by iteration {iteration}: name another search.metric, one "
                f"of {', '.join(sorted(metrics))}, or raise search.grace_period"
            )
        if self._error:
            return True
        if score is None or self._rung(iteration) in (None, *self._passed(trial)):
            return False
        score = finite_or_worst(score)
        entry = {"trial": trial, "iteration": iteration, "score": score}
        append_line(self._file, json.dumps(entry))
        bucket_copy.push(self._file)
        self._decide(trial, iteration, score)
        return trial in self._stopped

    def stopped_at(self) -> Mapping[int, int]:
        """Return a map from the number of each stopped trial to its last iteration."""
        return self._stopped

    def error(self) -> str:
        """Return the error message if a trial's score was never measured, else an empty string."""
        return self._error

    def _decide(self, trial: int, iteration: int, score: float) -> None:
        """Record a trial's score at its rung, and stop the trial if the score is too low."""
        rung = self._rung(iteration)
        assert rung is not None
        earlier = self._rungs.setdefault(rung, {})
        scores = np.nan_to_num(list(earlier.values()))  # a percentile between infinities is NaN
        least = np.percentile(scores, 100 - 100 / self._factor) if earlier else score
        if score < least or score == -math.inf:
            self._stopped[trial] = iteration
        earlier[trial] = score

    def _rung(self, iteration: int) -> int | None:
        """Return the highest rung at or below an iteration.

        Returns None below the first rung and at the last iteration, when the trial ends anyway.
        """
        if not self._grace <= iteration < self._last:
            return None
        rung = self._grace
        while rung * self._factor <= iteration:
            rung *= self._factor
        return rung

    def _passed(self, trial: int) -> list[int]:
        """Return the rungs that a trial has reached with a score."""
        return [rung for rung, scores in self._rungs.items() if trial in scores]
