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


Draw = tuple[TrialValues, list[float] | None]


def draws_of(study: BatchedStudy) -> list[Draw]:
    return list(zip(study.values, study.scores, strict=True))


def run(study: BatchedStudy, score: Callable[[TrialValues], list[float] | None]) -> list[Draw]:
    """Run a study to its end and return the values and scores of its draws."""
    while batch := study.ask():
        study.tell([score(values) for values in batch])
    return draws_of(study)


def bowl(values: TrialValues) -> list[float]:
    return [-((values["x"] - 0.3) ** 2) - np.log10(values["y"] / 0.05) ** 2]


@pytest.mark.parametrize("method", ["tpe", "cmaes"])
def test_an_interrupted_study_draws_what_a_whole_one_draws(method: str, tmp_path: Path) -> None:
    section = search(method, 30)
    whole = run(BatchedStudy(section, 3, tmp_path / "whole.json"), bowl)
    assert len(whole) == 30
    for _ in range(4):
        lost = BatchedStudy(section, 3, tmp_path / "parts.json").ask()  # and killed in training
        study = BatchedStudy(section, 3, tmp_path / "parts.json")
        assert study.ask() == lost
        study.tell([bowl(values) for values in lost])
        assert draws_of(study) == whole[: len(study.values)]
    assert BatchedStudy(section, 3, tmp_path / "parts.json").ask() == []
    assert (tmp_path / "parts.json").read_text() == (tmp_path / "whole.json").read_text()
    other = run(BatchedStudy(section, 4, tmp_path / "other.json"), bowl)
    assert other[0][0] != whole[0][0]


@pytest.mark.parametrize("trials", [8, 10])
def test_more_trials_continue_a_study(trials: int, tmp_path: Path) -> None:
    few = run(BatchedStudy(search("tpe", trials), 0, tmp_path / "study.json"), bowl)
    many = run(BatchedStudy(search("tpe", 24), 0, tmp_path / "study.json"), bowl)
    assert many[:trials] == few
    assert len(many) == 24


def test_the_rounding_of_another_processor_is_no_other_draw(tmp_path: Path) -> None:
    """The values that were trained remain; only Optuna's own numbers differ."""
    file = tmp_path / "study.json"
    run(BatchedStudy(search("tpe", 16), 0, file), bowl)
    batches = json.loads(file.read_text())
    for batch in batches:
        for values in batch["values"]:
            values["x"] *= 1 + 1e-12
    file.write_text(json.dumps(batches))
    study = BatchedStudy(search("tpe", 16), 0, file)
    assert study.values == [values for batch in batches for values in batch["values"]]


@pytest.mark.parametrize("method", ["tpe", "cmaes"])
def test_the_draws_are_better_than_random_ones(method: str, tmp_path: Path) -> None:
    """The best of 40 draws, mean of 5 seeds, of a function with its maximum 0 inside the ranges."""
    found, drawn = [], []
    for seed in range(5):
        study = BatchedStudy(search(method, 40), seed, tmp_path / f"{seed}.json")
        found.append(max(scores[0] for _, scores in run(study, bowl) if scores))
        rng = np.random.default_rng(seed)
        spaces = search(method, 40).spaces
        drawn.append(max(bowl({k: s.draw(rng) for k, s in spaces.items()})[0] for _ in range(40)))
    assert np.mean(found) > np.mean(drawn)


def test_a_failed_draw_is_kept_and_not_drawn_again(tmp_path: Path) -> None:
    def fragile(values: TrialValues) -> list[float] | None:
        return None if values["x"] < 0 else bowl(values)

    section = search("tpe", 24)
    draws = run(BatchedStudy(section, 0, tmp_path / "study.json"), fragile)
    failed = [values for values, scores in draws if scores is None]
    assert failed
    assert all(values["x"] < 0 for values in failed)
    assert draws_of(BatchedStudy(section, 0, tmp_path / "study.json")) == draws


def test_a_choice_may_have_values_of_any_type(tmp_path: Path) -> None:
    section = search("tpe", 20, hidden={"choice": LAYERS}, batch_size={"randint": [1, 3]})
    draws = run(
        BatchedStudy(section, 0, tmp_path / "study.json"),
        lambda values: [float(values["hidden"] == [64, 64])],
    )
    tried = [values["hidden"] for values, _ in draws]
    assert all(each in tried for each in LAYERS)
    assert {values["batch_size"] for values, _ in draws} == {1, 2, 3}
    assert draws_of(BatchedStudy(section, 0, tmp_path / "study.json")) == draws


def test_the_pareto_front_has_no_better_draw(tmp_path: Path) -> None:
    section = search("tpe", 20, metric=["gain", "-cost"], **PLANE)
    study = BatchedStudy(section, 0, tmp_path / "study.json")
    draws = run(study, lambda values: [values["x"], -(values["x"] ** 2) - values["y"]])
    scores = np.array([each for _, each in draws])
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
    # nothing is explained without different draws and scores
    assert importances([{**row, "score": 1.0} for row in rows], section) == {}
    assert importances([{**row, "x": 0.5} for row in rows], section) == {}
    assert importances([{**row, "x": 0.5, "z": 0.5} for row in rows], section) == {}
    assert (
        importances([{**row, "x": k % 2, "z": k % 2} for k, row in enumerate(rows)], section) == {}
    )


def test_other_draws_and_damaged_files_are_refused(tmp_path: Path) -> None:
    section, file = search("tpe", 16), tmp_path / "study.json"
    run(BatchedStudy(section, 0, file), bowl)
    batches = json.loads(file.read_text())
    batches[1]["values"][3]["x"] += 0.1
    file.write_text(json.dumps(batches))
    with pytest.raises(
        UserError, match=r"study.json: Optuna .* draws other values on this machine"
    ):
        BatchedStudy(section, 0, file)
    values = {"x": 0.1, "y": 0.1}
    for content in (
        {}, [{"values": [values]}], [{"values": [values], "scores": "many"}],
        [{"values": [values], "scores": []}], [{"values": [], "scores": None}],
        [{"values": [values], "scores": [[1.0, 2.0]]}],
        [{"values": [values], "scores": None}, {"values": [values], "scores": None}],
    ):  # fmt: skip
        file.write_text(json.dumps(content))
        with pytest.raises(UserError, match=r"study\.json"):
            BatchedStudy(section, 0, file)
