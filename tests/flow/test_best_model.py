"""The model with the best score in training is kept, and MLflow has it as that of its iteration."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from mlflow import MlflowClient
from small_meta_job import TINY

from overtrick.config import job_file
from overtrick.core import Array, UserError
from overtrick.distributed.workers import LocalPool
from overtrick.reports.metric_names import opponent_label
from overtrick.runs import lifecycle, lineage
from overtrick.runs.best_model import BestModel
from overtrick.runs.next_commands import next_commands
from overtrick.runs.tune_trial import PlannedTrial, train
from overtrick.storage import locate, model_files
from overtrick.sweeps import pbt, sweep
from overtrick.tracking import model_versions
from overtrick.training.registry import JOBS, TRAINERS

JOB: dict[str, Any] = {
    **TINY,
    "stop": {"iterations": 4},
    "evaluate": {**TINY["evaluate"], "every": 1},
}


def assert_equal(one: Any, other: Any) -> None:
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_later_model_replaces_the_best_only_with_a_better_score() -> None:
    weights = {"w": np.arange(3.0)}
    asked: list[int] = []

    def model(number: int) -> dict[str, Array]:
        asked.append(number)
        return {"w": weights["w"] + number}

    best = BestModel()
    assert BestModel.of_state(best.state()) == best
    scores = [None, math.nan, -2.0, -2.0, None, 3.0, 1.0]
    for number, score in enumerate(scores):
        best = best.updated(number, score, lambda number=number: model(number))
    assert asked == [2, 5]
    assert (best.iteration, best.score) == (5, 3.0)
    again = BestModel.of_state(best.state())
    assert (again.iteration, again.score) == (5, 3.0)
    assert_equal(again.weights, {"w": weights["w"] + 5})


def test_the_best_model_of_an_earlier_versions_run_stays_unknown() -> None:
    """Its checkpoint has no arrays of it."""
    best = BestModel.of_state({}).updated(9, 1e9, lambda: {})
    assert best.weights is None
    assert BestModel.of_state(best.state()).updated(10, 1e9, lambda: {}).weights is None


def test_the_best_model_does_not_change_with_the_trainer() -> None:
    weights = {"w": np.zeros(2)}
    best = BestModel().updated(1, 0.5, lambda: weights)
    weights["w"] += 1
    assert best.weights is not None
    assert best.weights["w"].tolist() == [0, 0]


class Best(NamedTuple):
    """A job whose best iteration is not its last, and that iteration."""

    job: dict[str, Any]
    iteration: int
    weights: dict[str, Array]
    metrics: dict[str, float]


@pytest.fixture(scope="module")
def expected() -> Best:
    """Return the job with the first seed whose last iteration is not the best."""
    score = TRAINERS["meta"].progress_score
    assert score is not None
    for seed in range(20):
        job = {**JOB, "seed": seed}
        trainer = TRAINERS["meta"].trainer(job_file.parse(job, JOBS, "tiny"), LocalPool())
        found: list[tuple[float, Best]] = []
        for _ in range(JOB["stop"]["iterations"]):
            metrics = trainer.step()
            weights = {name: value.copy() for name, value in trainer.model().items()}
            best = Best(job, trainer.iteration, weights, metrics)
            found.append((score(metrics) or 0.0, best))
        _, best = max(found, key=lambda each: each[0])
        if best.iteration < JOB["stop"]["iterations"]:
            return best
    raise AssertionError("the last iteration is the best with all seeds")


def test_a_run_stores_and_registers_its_best_model(
    local_ray: None, expected: Best, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is stopped between the best iteration and the end."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    content, iteration, weights, metrics = expected
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    job = job_file.parse({**content, "track": {"uri": uri}}, JOBS, "tiny")
    run = lifecycle.open_folder(job, "tiny")
    tracker = lifecycle.open_tracker(job, run)
    listener = lifecycle.tracked(job, run.checkpoints(), tracker, iteration)
    assert train([PlannedTrial(job, listener, until=iteration)], run) == [None]
    tracker.close("KILLED")
    lifecycle.train(run, lambda *_: None)
    stored = model_files.load(run.best_model)
    assert_equal(stored.weights, weights)
    assert f"evaluate {run.name}/best" in [command for command, _ in next_commands(run, job)]
    for name in (f"{run.name}/best", f"{run}/best", str(run.best_model)):
        assert locate.existing_model(name) == run.best_model
        assert locate.absolute_path(name) == str(run.best_model)
    assert opponent_label(str(run.best_model)) == f"{run.name}/best"
    assert opponent_label(str(run.model)) == run.name
    client = MlflowClient(uri, uri)
    assert run.run_id is not None
    models = model_versions.model_ids(client, run.run_id)
    assert models.keys() == {"model", "best_model"}
    iterations = model_versions.iterations(client, run.run_id)
    assert iterations[models["best_model"]] == iteration
    assert iterations[models["model"]] == JOB["stop"]["iterations"]
    logged = client.get_logged_model(models["best_model"])
    assert {m.key: m.value for m in logged.metrics} == pytest.approx(metrics)
    assert {m.step for m in logged.metrics} == {iteration}
    for name in metrics:  # MLflow has each metric of the run once
        history = client.get_metric_history(run.run_id, name)
        assert [m.step for m in history] == sorted({m.step for m in history})
    assert lifecycle.register(run.name, "tiny", None, best=True) == 1
    assert lifecycle.register(run.name, "tiny", "last") == 2
    assert_equal(model_files.load(locate.existing_model("models:/tiny/1")).weights, weights)
    final = model_files.load(locate.existing_model("models:/tiny@last")).weights
    assert_equal(final, model_files.load(run.model).weights)
    assert lineage.lineage("models:/tiny/1")["iteration"] == iteration
    assert lineage.lineage(run.name)["iteration"] == JOB["stop"]["iterations"]


def test_a_job_may_keep_only_its_last_model(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    content = {**JOB, "checkpoints": {"best": False}, "stop": {"iterations": 3}}
    content["track"] = {"uri": f"sqlite:///{tmp_path}/mlflow.db"}
    run = lifecycle.open_folder(job_file.parse(content, JOBS, "tiny"), "tiny")
    lifecycle.train(run, lambda *_: None)
    assert not run.best_model.exists()
    with pytest.raises(UserError, match=r"the best model of tiny-.* was not kept"):
        lifecycle.register(run.name, "tiny", None, best=True)


def test_a_trial_of_pbt_keeps_the_best_model_of_its_own_iterations(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it continued from another trial's checkpoint, which holds the best model of that."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    search = {
        "method": "pbt", "trials": 4, "perturbation_interval": 2, "quantile_fraction": 0.5,
        "meta.inner_lr": {"loguniform": [0.01, 1.0]},
    }  # fmt: skip
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    content = {**JOB, "stop": {"iterations": 4}, "search": search, "track": {"uri": uri}}
    content["checkpoints"] = {"every": 1}
    job = job_file.parse(content, JOBS, "tiny")
    done = sweep.run(lifecycle.open_folder(job, "pbt", children=True), lambda done: None)
    score = TRAINERS["meta"].progress_score
    assert score is not None
    rounds = json.loads((done.folder.path / pbt.SCHEDULE).read_text())
    assert any(each["copied"] is not None for trials in rounds[1:] for each in trials)
    client = MlflowClient(uri, uri)
    for number in range(4):
        child = done.folder.child(number)
        _, state = done.folder.checkpoints(number).state_and_best()
        best = BestModel.of_state(state)
        measured = {step: score(metrics) for step, metrics in child.history()}
        assert best.score == max(value for value in measured.values() if value is not None)
        assert best.score == measured[best.iteration]
        if child.best_model.exists():
            ids = model_versions.model_ids(client, str(child.run_id))
            logged = client.get_logged_model(ids["best_model"]).metrics
            (metrics,) = [m for step, m in child.history() if step == best.iteration]
            assert {m.key: m.value for m in logged} == pytest.approx(metrics)
