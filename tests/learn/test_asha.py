"""Our ASHA decides as Tune's does, and keeps its decisions after a crash."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from overtrick.runs.tune_trial import _Stopper
from overtrick.sweeps.asha import Asha

LAST = 100  # iterations of a trial


def score_of(metrics: dict[str, float]) -> float | None:
    return metrics.get("score")


@pytest.mark.parametrize(("grace", "factor"), [(1, 2), (2, 3), (5, 4)])
def test_the_same_trials_are_stopped_as_by_tunes_asha(
    tmp_path: Path, rng: np.random.Generator, grace: int, factor: int
) -> None:
    ours = Asha(tmp_path / "halving.jsonl", grace, factor, LAST, score_of)
    tune = ASHAScheduler("iteration", "score", "max", 100, grace, factor, stop_last_trials=False)
    trials = [SimpleNamespace(trial_id=n, iteration=0, talent=rng.normal()) for n in range(30)]
    for trial in trials:
        tune.on_trial_add(None, trial)
    going = list(trials)
    while going:
        trial = going[rng.integers(len(going))]  # the next trial in random order
        trial.iteration += 1
        score = trial.talent + rng.normal() / trial.iteration
        told_tune = {"iteration": trial.iteration, "score": score}
        stop = ours.stops(trial.trial_id, trial.iteration, {"score": score})
        assert stop == (tune.on_trial_result(None, trial, told_tune) == TrialScheduler.STOP)
        if stop or trial.iteration == 99:
            going.remove(trial)
    assert 0 < len(ours.stopped_at()) < 30
    again = Asha(tmp_path / "halving.jsonl", grace, factor, LAST, score_of)
    assert again.stopped_at() == ours.stopped_at()


def test_a_decision_stays_when_a_trial_reaches_its_rung_again(tmp_path: Path) -> None:
    file = tmp_path / "halving.jsonl"
    first = Asha(file, 2, 2, LAST, score_of)
    assert not first.stops(0, 2, {"score": 1.0})
    assert first.stops(1, 2, {"score": 0.5})
    with file.open("a") as cut:
        cut.write('{"trial": 2, "iter')  # killed while it wrote
    again = Asha(file, 2, 2, LAST, score_of)
    assert again.stopped_at() == {1: 2}
    assert not again.stops(0, 2, {"score": 0.1})  # resumed from its checkpoint before the rung
    assert not again.stops(0, 3, {"score": 0.1})
    assert again.stops(2, 2, {"score": 0.6})
    assert Asha(file, 2, 2, LAST, score_of).stopped_at() == {1: 2, 2: 2}


def test_a_trial_is_not_stopped_at_its_last_iteration(tmp_path: Path) -> None:
    asha = Asha(tmp_path / "halving.jsonl", 2, 2, 4, score_of)
    assert not asha.stops(0, 2, {"score": 1.0})
    assert not asha.stops(0, 4, {"score": 1.0})
    assert not asha.stops(1, 4, {"score": 0.0})
    assert asha.stopped_at() == {}


def test_nothing_is_decided_before_the_first_rung_or_without_a_score(tmp_path: Path) -> None:
    halving = Asha(tmp_path / "halving.jsonl", 3, 2, LAST, score_of)
    assert not halving.stops(0, 2, {"score": 9.0})
    assert not halving.stops(0, 3, {"loss": 9.0})
    assert not halving.stops(1, 4, {"score": 1.0})  # the first score at this rung
    assert (tmp_path / "halving.jsonl").read_text().count("\n") == 1
    assert halving.stops(0, 7, {"loss": 9.0, "kl": 0.1})
    assert halving.error().startswith("nothing was measured by iteration 7: name another")
    assert "one of kl, loss" in halving.error()


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_nan_score_stops_its_trial_and_does_not_affect_others(
    tmp_path: Path, broken: float
) -> None:
    halving = Asha(tmp_path / "halving.jsonl", 1, 2, LAST, score_of)
    assert halving.stops(0, 1, {"score": broken})  # although it is the first
    for trial, score in enumerate([1.0, 2.0, 3.0], start=1):
        assert not halving.stops(trial, 1, {"score": score})
    assert halving.stops(4, 1, {"score": 1.0})  # the median of the four is 1.5
    assert halving.stops(5, 1, {"score": broken})
    assert Asha(tmp_path / "halving.jsonl", 1, 2, LAST, score_of).stopped_at() == {0: 1, 4: 1, 5: 1}


def test_the_last_score_of_a_trial_is_recorded_before_the_decision(tmp_path: Path) -> None:
    ours = Asha(tmp_path / "halving.jsonl", 1, 2, LAST, score_of)

    def full_disk(iteration: int, metrics: dict[str, float]) -> None:
        raise OSError("No space left on device")

    plan: Any = SimpleNamespace(listener=full_disk, done=0)
    config = {"run": {"number": 0}}
    result = {"config": config, "iteration": 1, "last": 0, "metrics": {"score": -np.inf}}
    with pytest.raises(OSError, match="No space left"):
        _Stopper({0: plan}, ours)("0", result)
    assert ours.stopped_at() == {}
    assert not (tmp_path / "halving.jsonl").exists()
    plan.listener = lambda iteration, metrics: None
    assert _Stopper({0: plan}, ours)("0", result)
    assert ours.stopped_at() == {0: 1}
