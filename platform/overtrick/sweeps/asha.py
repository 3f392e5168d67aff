"""Which trials of a sweep stop early: asynchronous successive halving, remembered on disk."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from overtrick.core.files import append_line, read_complete_lines

Measure = Callable[[Mapping[str, float]], float | None]
"""The score of an iteration's metrics, larger is better; None if it was not measured then."""


def sound(score: float) -> float:
    """A score to compare by: one that is no finite number is the worst there is, -inf."""
    return score if math.isfinite(score) else -math.inf


class Asha:
    """At rungs of grace, grace * factor, grace * factor^2, ... iterations a trial goes on if its
    score is among the best 1 / factor of those that have come there before it; not if its score
    is no finite number, though it be the first.

    Nobody waits for others, so a trial that comes early meets few. A decision is written to the
    file before it is carried out; read again, it stands. Li et al. 2020, "A system for massively
    parallel hyperparameter tuning", in the variant that stops trials, as Tune's ASHAScheduler.
    """

    def __init__(self, file: Path, grace: int, factor: int, measure: Measure) -> None:
        self._file, self._grace, self._factor, self._measure = file, grace, factor, measure
        self._rungs: dict[int, dict[int, float]] = {}  # by iteration: scores by trial
        self._stopped: dict[int, int] = {}  # by trial: its last iteration
        self._error = ""  # why no trial can be judged, so that all stop
        for line in read_complete_lines(file):
            told = json.loads(line)
            self._decide(told["trial"], told["iteration"], told["score"])

    def stops(self, trial: int, iteration: int, metrics: Mapping[str, float]) -> bool:
        """Is this iteration the trial's last, because others do better?"""
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
        score = sound(score)
        told = {"trial": trial, "iteration": iteration, "score": score}
        append_line(self._file, json.dumps(told))
        self._decide(trial, iteration, score)
        return trial in self._stopped

    def stopped_at(self) -> Mapping[int, int]:
        """Return the last iteration of each stopped trial, by trial."""
        return self._stopped

    def error(self) -> str:
        """Return the reason why no trial can be judged, or an empty string."""
        return self._error

    def _decide(self, trial: int, iteration: int, score: float) -> None:
        rung = self._rung(iteration)
        assert rung is not None
        before = self._rungs.setdefault(rung, {})
        scores = np.nan_to_num(list(before.values()))  # between infinities there is no number
        least = np.percentile(scores, 100 - 100 / self._factor) if before else score
        if score < least or score == -math.inf:
            self._stopped[trial] = iteration
        before[trial] = score

    def _rung(self, iteration: int) -> int | None:
        """The highest rung that an iteration has come to."""
        if iteration < self._grace:
            return None
        rung = self._grace
        while rung * self._factor <= iteration:
            rung *= self._factor
        return rung

    def _passed(self, trial: int) -> list[int]:
        return [rung for rung, scores in self._rungs.items() if trial in scores]
