"""Batches of Optuna's draws: repeatable, continued from a file, and better than random ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overtrick.config.search_space import Search, TrialValues
from overtrick.core import UserError
from overtrick.sweeps.optuna_search import BatchedStudy, importances

PLANE = {"x": {"uniform": [-1, 1]}, "y": {"loguniform": [0.01, 1]}}
LAYERS = [[64], [64, 64], "none"]


def search(method: str, trials: int, batch: int = 8, **more: Any) -> Search:
    content = {"method": method, "trials": trials, "batch": batch, **(more or PLANE)}
    return Search.model_validate(content)


def run(study: BatchedStudy, score: Callable[[TrialValues], list[float] | None]) -> list[Any]:
    """Run a study to its end and return its draws."""
    while batch := study.ask():
        study.tell([score(values) for values in batch])
    return study.draws


def bowl(values: TrialValues) -> list[float]:
    return [-((values["x"] - 0.3) ** 2) - np.log10(values["y"] / 0.05) ** 2]


@pytest.mark.parametrize("method", ["tpe", "cmaes"])
def test_an_interrupted_study_draws_what_a_whole_one_draws(method: str, tmp_path: Path) -> None:
    section = search(method, 30)
    whole = run(BatchedStudy(section, 3, tmp_path / "whole.json"), bowl)
    assert len(whole) == 30
    for _ in range(4):  # each process draws, trains and reports one batch
        study = BatchedStudy(section, 3, tmp_path / "parts.json")
        study.tell([bowl(values) for values in study.ask()])
        assert study.draws == whole[: len(study.draws)]
    assert BatchedStudy(section, 3, tmp_path / "parts.json").ask() == []
    assert json.loads((tmp_path / "parts.json").read_text()) == whole
    other = run(BatchedStudy(section, 4, tmp_path / "other.json"), bowl)
    assert other[0]["values"] != whole[0]["values"]


def test_more_trials_continue_a_study(tmp_path: Path) -> None:
    few = run(BatchedStudy(search("tpe", 8), 0, tmp_path / "study.json"), bowl)
    many = run(BatchedStudy(search("tpe", 16), 0, tmp_path / "study.json"), bowl)
    assert many[:8] == few
    assert len(many) == 16


@pytest.mark.parametrize("method", ["tpe", "cmaes"])
def test_the_draws_are_better_than_random_ones(method: str, tmp_path: Path) -> None:
    """The best of 40 draws, mean of 5 seeds, of a function with its maximum 0 inside the ranges."""
    found, drawn = [], []
    for seed in range(5):
        study = BatchedStudy(search(method, 40), seed, tmp_path / f"{seed}.json")
        found.append(max(each["scores"][0] for each in run(study, bowl)))
        rng = np.random.default_rng(seed)
        spaces = search(method, 40).spaces
        drawn.append(max(bowl({k: s.draw(rng) for k, s in spaces.items()})[0] for _ in range(40)))
    assert np.mean(found) > np.mean(drawn)


def test_a_failed_draw_is_kept_and_not_drawn_again(tmp_path: Path) -> None:
    def fragile(values: TrialValues) -> list[float] | None:
        return None if values["x"] < 0 else bowl(values)

    section = search("tpe", 24)
    draws = run(BatchedStudy(section, 0, tmp_path / "study.json"), fragile)
    failed = [each for each in draws if each["scores"] is None]
    assert failed
    assert all(each["values"]["x"] < 0 for each in failed)
    assert BatchedStudy(section, 0, tmp_path / "study.json").draws == draws


def test_a_choice_may_have_values_of_any_type(tmp_path: Path) -> None:
    section = search("tpe", 20, hidden={"choice": LAYERS}, batch_size={"randint": [1, 3]})
    draws = run(
        BatchedStudy(section, 0, tmp_path / "study.json"),
        lambda values: [float(values["hidden"] == [64, 64])],
    )
    tried = [each["values"]["hidden"] for each in draws]
    assert all(each in tried for each in LAYERS)
    assert {each["values"]["batch_size"] for each in draws} == {1, 2, 3}
    assert BatchedStudy(section, 0, tmp_path / "study.json").draws == draws


def test_the_pareto_front_has_no_better_draw(tmp_path: Path) -> None:
    section = search("tpe", 20, metric=["gain", "-cost"], **PLANE)
    study = BatchedStudy(section, 0, tmp_path / "study.json")
    draws = run(study, lambda values: [values["x"], -(values["x"] ** 2) - values["y"]])
    scores = np.array([each["scores"] for each in draws])
    better = (scores[:, None] >= scores[None]).all(axis=2) & (scores[:, None] > scores[None]).any(2)
    assert study.pareto_front() == np.flatnonzero(~better.any(axis=0)).tolist()


def test_importances_are_the_shares_of_the_variance() -> None:
    """The score is 3 x + z for uniform x and z, so its variance is 9 to 1 due to x and z."""
    spaces = {"x": {"uniform": [0, 1]}, "z": {"uniform": [0, 1]}}
    section = Search.model_validate({"method": "random", "trials": 300, **spaces})
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    for trial in range(300):
        x, z = rng.random(2).tolist()
        rows.append({"trial": trial, "x": x, "z": z, "score": 3 * x + z})
    found = importances([*rows, {"trial": 300, "x": 0.5, "z": 0.5, "score": None}], section)
    assert found["x"] == pytest.approx(0.9, abs=0.05)
    assert sum(found.values()) == pytest.approx(1)
    assert importances([{**row, "score": 1.0} for row in rows], section) == {}


def test_another_version_of_optuna_and_damaged_files_are_refused(tmp_path: Path) -> None:
    section, file = search("tpe", 16), tmp_path / "study.json"
    draws = run(BatchedStudy(section, 0, file), bowl)
    draws[9]["values"]["x"] += 0.1
    file.write_text(json.dumps(draws))
    with pytest.raises(UserError, match=r"study.json: Optuna .* draws other values than the vers"):
        BatchedStudy(section, 0, file)
    for text in ("[", "{}", '[{"values": {"x": 1}}]', '[{"values": {}, "scores": "many"}]'):
        file.write_text(text)
        with pytest.raises(UserError, match=r"study\.json"):
            BatchedStudy(section, 0, file)
