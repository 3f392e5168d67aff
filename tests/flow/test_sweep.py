"""A sweep trains every combination; each trial equals a run of the same job."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import logged_metrics
import pytest
import yaml
from command_process import COMMAND, PATIENCE, environment, kill_once
from mlflow import MlflowClient

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.runs import lifecycle, tune_trial
from overtrick.storage import model_files, run_folder
from overtrick.storage.run_folder import RunFolder
from overtrick.sweeps import pbt, sweep
from overtrick.training.registry import JOBS, TRAINERS

GRID: dict[str, Any] = {
    "trainer": "coevolve",
    "game": "kuhn",
    "stop": {"iterations": 2},
    "coevolve": {"generations": 3},
    "search": {"coevolve.genome": {"grid": ["direct", "network"]}, "seed": {"grid": [1, 2]}},
}


NAMED = "{game.name} with {game.ranks} ranks"


def parse(**changes: Any) -> job_file.Job:
    return job_file.parse({**GRID, **changes}, JOBS, "grid.yaml")


@pytest.fixture(scope="module")
def swept(local_ray: None, tmp_path_factory: pytest.TempPathFactory) -> sweep.FinishedSweep:
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERTRICK_RUNS", str(folder / "runs"))
        search = {**GRID["search"], "trial_name": "{coevolve.genome}, seed {seed} (no. {trial})"}
        job = parse(search=search, track={"uri": f"sqlite:///{folder}/mlflow.db"})
        answer: list[int] = []
        done = sweep.run(lifecycle.open_folder(job, "grid", children=True), answer.append)
    assert answer == list(range(1, 9))  # four trials of two iterations
    return done


def test_every_combination_is_trained_as_in_a_single_run(swept: sweep.FinishedSweep) -> None:
    assert not swept.failed
    scores = [row["score"] for row in swept.rows]
    assert scores == sorted(scores, reverse=True)
    tried = [(row["coevolve.genome"], row["seed"]) for row in swept.rows]
    assert sorted(tried) == [("direct", 1), ("direct", 2), ("network", 1), ("network", 2)]
    for row in swept.rows:
        job = parse(seed=row["seed"], coevolve={"generations": 3, "genome": row["coevolve.genome"]})
        trainer = TRAINERS["coevolve"].trainer(job, LocalPool())
        trainer.step(), trainer.step()
        stored = model_files.load(swept.folder.child(row["trial"]).model)
        assert (stored.weights["sigma"] == trainer.model()["sigma"]).all()


def test_trials_may_be_named_after_their_values(swept: sweep.FinishedSweep) -> None:
    named = {
        f"{row['coevolve.genome']}, seed {row['seed']} (no. {row['trial']})" for row in swept.rows
    }
    assert {row["name"] for row in swept.rows} == named
    client = MlflowClient(lifecycle.read_job(swept.folder).track.uri)
    runs = client.search_runs([client.get_experiment_by_name("overtrick").experiment_id])
    assert {run.info.run_name for run in runs} == named | {swept.folder.name}


def test_a_trial_named_after_an_unknown_key_is_refused() -> None:
    for name, problem in {
        "{coevolve.genom}": "has {coevolve.genom}: the job has no key 'coevolve.genom': did",
        "{seed.x}": "has {seed.x}: the job has no key 'seed.x'",
        "{}": "has {}: the job has no key ''",
        "{coevolve}": "has {coevolve}, which is a section: name a key in it",
    }.items():
        with pytest.raises(UserError, match=f"grid.yaml: search.trial_name {re.escape(problem)}"):
            sweep.check(parse(search={**GRID["search"], "trial_name": name}), "grid.yaml")
    long = {**GRID["search"], "trial_name": "{game.name}" * 100}
    with pytest.raises(UserError, match="a name of 400 characters, and MLflow takes 250"):
        sweep.check(parse(search=long), "grid.yaml")
    with pytest.raises(UserError, match="trial_name"):
        parse(search={**GRID["search"], "trial_name": ""})


def test_a_name_shows_numbers_with_six_digits() -> None:
    search = parse(search={**GRID["search"], "trial_name": "lr {a.b} x{trial}"}).search
    assert search.name_of(3, {"a": {"b": 0.1 + 0.2}}) == "lr 0.3 x3"
    assert search.name_of(3, {"a": {"b": [1, None]}}) == "lr [1, null] x3"
    kuhn = parse(game={"name": "kuhn", "ranks": 4}, search={**GRID["search"], "trial_name": NAMED})
    assert sweep._trial_name(kuhn, "grid.yaml", 0, kuhn) == "kuhn with 4 ranks"
    assert parse().search.name_of(3, {}) is None


def test_only_a_lost_trial_is_trained_again(
    swept: sweep.FinishedSweep,
) -> None:
    place = swept.folder.child(2).path
    stored_table = swept.folder.child(1).table
    before = stored_table.stat().st_mtime_ns
    for lost in [place, *swept.folder.path.glob("tune-*/trial-2")]:
        shutil.rmtree(lost)
    again = sweep.run(swept.folder, lambda done: None)
    assert again.rows == swept.rows
    assert stored_table.stat().st_mtime_ns == before


def test_results_of_a_trial_without_a_page_are_stored_again(swept: sweep.FinishedSweep) -> None:
    """The page is written last: a process may have been killed after it wrote the table."""
    whole, killed = swept.folder.child(1), swept.folder.child(3)
    before, rows = whole.table.stat().st_mtime_ns, killed.read_table()
    killed.page.unlink()
    assert sweep.run(swept.folder, lambda done: None).rows == swept.rows
    assert killed.page.exists()
    assert killed.read_table() == rows
    assert whole.table.stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_killed_and_resumed_sweep_gives_the_same_table_with_each_trial_once(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    steps, checkpoints = {"iterations": 12}, {"every": 1}
    job = parse(stop=steps, checkpoints=checkpoints, track={"uri": f"sqlite:///{tmp_path}/alone"})
    single = sweep.run(lifecycle.open_folder(job, "alone", children=True), lambda answer: None)
    here = tmp_path / "killed"
    here.mkdir()
    (here / "grid.yaml").write_text(
        yaml.safe_dump({**GRID, "stop": steps, "checkpoints": checkpoints})
    )
    outside = {**environment(), "OVERTRICK_RUNS": str(here / "runs")}
    driver = subprocess.Popen(
        [*COMMAND, "sweep", "grid.yaml"],
        cwd=here, env=outside, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    checkpoint_pattern = "runs/*/tune-0/trial-1/checkpoint_00000[2-9]/state.safetensors"
    kill_once(lambda: list(here.glob(checkpoint_pattern)), driver)
    (path,) = (here / "runs").iterdir()
    folder = RunFolder(path)
    reached = [folder.checkpoints(number).iteration() for number in range(4)]
    assert 0 < sum(reached) < 4 * 12
    resumed = subprocess.run(
        [*COMMAND, "resume", folder.name, "--json"],
        cwd=here, env=outside, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    answer = json.loads(resumed.stdout)
    assert answer["rows"] == single.rows
    assert answer["best"] == str(folder.child(single.rows[0]["trial"]))
    assert answer["median"] == single.median
    client = MlflowClient(f"sqlite:///{here}/mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("overtrick").experiment_id])
    names = [folder.child(number).name for number in range(4)]
    assert sorted(each.info.run_name for each in runs) == [folder.name, *names]
    assert {each.info.status for each in runs} == {"FINISHED"}
    for number, name in enumerate(names):
        history = folder.child(number).history()
        assert history == single.folder.child(number).history()
        (part,) = [each for each in runs if each.info.run_name == name]
        assert logged_metrics.in_mlflow(client, part.info.run_id) == logged_metrics.of_history(
            history
        )


def test_a_repeatedly_failing_trial_is_not_confused_with_another(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = [SimpleNamespace(path=str(tmp_path / f"trial-{n}"), metrics={}) for n in (1, 0)]
    trained[0].error, trained[1].error = None, ValueError("broken")
    monkeypatch.setattr(
        tune_trial.Tuner, "fit", lambda tuner: trained
    )  # Tune's order after a retry
    reached = iter((0, 0, 2, 2))  # before, and after it for the trial that did not fail
    monkeypatch.setattr(run_folder.TrialCheckpoints, "iteration", lambda self: next(reached, 2))
    monkeypatch.setattr(run_folder.TrialCheckpoints, "newest", lambda self: None)
    job = parse(search={})
    ended = tune_trial.train(
        [tune_trial.PlannedTrial(job, lambda i, m: None)] * 2, RunFolder(tmp_path)
    )
    assert "the trial failed: " in str(ended[0])
    assert ended[1] is None


class Interrupted(Exception):
    """Stand-in for Ctrl-C."""


def test_an_interrupted_search_by_optuna_gives_the_same_table(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with one trial at a time instead of four: a batch is drawn before its results."""
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    search = {
        "method": "tpe", "trials": 3, "batch": 2, "coevolve.step_size": {"loguniform": [0.1, 2]},
        "seed": {"grid": [1, 2]},
    }  # fmt: skip
    track = {"uri": f"sqlite:///{tmp_path}/mlflow.db"}
    answer: list[int] = []
    whole = sweep.run(
        lifecycle.open_folder(parse(search=search, track=track), "whole", children=True),
        answer.append,
    )
    assert answer == list(range(1, 13))  # 3 draws, 2 seeds, 2 iterations
    assert not whole.failed
    assert [row["seed"] for row in sorted(whole.rows, key=lambda r: r["trial"])] == [1, 2] * 3
    one_at_a_time = {"resources": {"cpus": 4}, "search": search, "track": track}
    folder = lifecycle.open_folder(parse(**one_at_a_time), "parts", children=True)

    def interrupt(done: int) -> None:
        if done == 10:  # in the second batch
            raise Interrupted

    with pytest.raises(Interrupted):
        sweep.run(folder, interrupt)
    study = folder.path / "study.json"
    assert [batch["scores"] is None for batch in json.loads(study.read_text())] == [False, True]
    again = sweep.run(folder, lambda done: None)
    assert again.rows == whole.rows
    assert study.read_text() == (whole.folder.path / "study.json").read_text()
    # of a told trial the table is lost, of another one the checkpoints
    again.folder.child(1).table.unlink()
    for lost in folder.path.glob("tune-*/trial-2"):
        shutil.rmtree(lost)
    monkeypatch.setattr(tune_trial, "train", None)  # nothing is trained again
    assert sweep.run(folder, lambda done: None).rows == whole.rows
    assert again.folder.child(1).table.exists()


def test_several_metrics_put_the_best_compromises_first(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OVERTRICK_RUNS", str(tmp_path / "runs"))
    metrics = ["-exploitability_chip/direct", "-step_size"]
    search = {
        "method": "tpe", "trials": 6, "batch": 4, "metric": metrics,
        "coevolve.step_size": {"loguniform": [0.1, 2]}, "coevolve.population": {"randint": [4, 12]},
    }  # fmt: skip
    job = parse(search=search, track={"uri": f"sqlite:///{tmp_path}/mlflow.db"})
    done = sweep.run(lifecycle.open_folder(job, "two", children=True), lambda answer: None)
    front = [row for row in done.rows if row["pareto"]]
    assert done.rows[: len(front)] == front
    for row in done.rows:
        better = [
            other for other in done.rows
            if all(other[m] >= row[m] for m in metrics) and any(other[m] > row[m] for m in metrics)
        ]  # fmt: skip
        assert row["pareto"] == (not better)
    assert {file.stem for file in done.folder.figures.glob("*.png")} >= {"importance", "parallel"}


def test_mlflow_has_the_trials_under_their_sweep(swept: sweep.FinishedSweep) -> None:
    client = MlflowClient(f"sqlite:///{swept.folder.path.parents[1]}/mlflow.db")
    experiment = client.get_experiment_by_name("overtrick")
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = [r for r in runs if r.info.run_name == swept.folder.name]
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(children) >= 4
    assert {r.info.status for r in runs} == {"FINISHED"}
    scores = {row["name"]: row["score"] for row in swept.rows}
    assert {c.info.run_name: c.data.metrics["score"] for c in children} == scores
    assert parent.data.metrics["score"] == max(scores.values())
    files = {f.path for f in client.list_artifacts(parent.info.run_id)}
    assert {"job.json", "table.json", "figures"} <= files


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({}, "grid.yaml has no search: name keys, such as 'seed: {grid: [0, 1]}'"),
        ({"sed": {"grid": [1]}}, "unknown key 'sed' in grid.yaml with {'sed': 1}: did you mean"),
        ({"seed": {"grid": [1, -1]}}, "'seed' in grid.yaml with {'seed': -1}: input should be"),
        ({"seed.x": {"grid": [1]}}, "search of 'seed.x' in grid.yaml: 'seed' holds a value"),
    ],
)
def test_a_search_of_invalid_jobs_is_refused(search: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        sweep.trials_of(parse(search=search), "grid.yaml")
    assert str(refused.value).startswith(message)


def test_keys_that_all_trials_share_cannot_be_searched() -> None:
    with pytest.raises(UserError, match=r"search of 'checkpoints.every' in grid.yaml: all trials"):
        sweep.check(parse(search={"checkpoints.every": {"grid": [1, 2]}}), "grid.yaml")


def test_options_of_a_game_and_small_numbers_can_be_searched(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "trainer: solve\ngame: leduc\nsolve: {memory_gib: 1e+1}\n"
        "search: {game.fold: {grid: [true, false]}}\n"
    )
    job = job_file.load(tmp_path / "job.yaml", [], JOBS)
    assert job.model_dump()["solve"]["memory_gib"] == 10
    made = sweep.trials_of(job, "job.yaml")
    assert [each.game.options for _, each in made] == [{"fold": True}, {"fold": False}]


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(UserError, match=r"'search.seed.grid' in grid.yaml: tuple should have at"):
        parse(search={"seed": {"grid": []}})


def child_run(**metrics: Any) -> Any:
    """Return a child run with its record after one iteration."""
    return SimpleNamespace(folder=SimpleNamespace(history=lambda: [(1, metrics)]))


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_trial_with_a_nan_score_copies_another_and_is_never_copied(broken: float) -> None:
    drawn = {"seed": {"randint": [0, 99]}}
    job = parse(search={"method": "pbt", "trials": 4, "quantile_fraction": 0.5, **drawn})
    whole: Any = SimpleNamespace(
        children=[child_run(score=score) for score in (broken, 1.0, broken, broken)],
        errors=[None] * 4,
    )
    scores = pbt._scores(whole, lambda metrics: metrics["score"], 0, 1)
    first: pbt.Round = [{"copied": None, "values": {"seed": n}} for n in range(4)]
    following = pbt._next(job, [first], scores)
    assert [each["copied"] for each in following] == [1, None, 1, 1]


def test_a_trial_with_a_nan_score_is_ranked_last(tmp_path: Path) -> None:
    places = [SimpleNamespace(number=n, folder=RunFolder(tmp_path / str(n))) for n in range(3)]
    for part, gap in zip(places, (math.nan, 0.5, 0.25), strict=True):
        part.folder.path.mkdir()
        part.folder.table.write_text(json.dumps([{"exploitability": gap}]))
    whole: Any = SimpleNamespace(children=places)
    rows = sweep._rows(parse(), [{}] * 3, whole, [{}] * 3)
    assert [(row["trial"], row["score"]) for row in rows] == [(2, -0.25), (1, -0.5), (0, None)]


def test_a_sweep_and_a_run_are_resumed_by_their_own_commands(
    swept: sweep.FinishedSweep, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=f"overtrick sweep --resume {swept.folder.name}"):
        lifecycle.train(swept.folder, lambda iteration, metrics: None)
    lifecycle.write_job(parse(), RunFolder(tmp_path))
    with pytest.raises(UserError, match=f"overtrick train --resume {tmp_path.name}"):
        sweep.run(RunFolder(tmp_path), lambda done: None)
