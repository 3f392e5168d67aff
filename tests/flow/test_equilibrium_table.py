"""Equilibrium tables: exploitability after a number of decisions, resumed, and bad input."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_process import kill_once, start_command

from overtrick.comparison import equilibrium_job, equilibrium_table
from overtrick.comparison.equilibrium_table import exploitability_curve, last_point_within
from overtrick.core import RunError, UserError
from overtrick.runs import lifecycle
from overtrick.runs.run_list import list_runs
from overtrick.storage.run_folder import RunFolder

SELF_PLAY = {"trainer": "policy_gradient_self_play", "self_play": {"games": 50, "hidden": [8]}}
PSRO = {"trainer": "psro", "psro": {"oracle": "ppo"}, "ppo": {"iterations": 2, "games": 20}}
TABLE: dict[str, Any] = {
    "trainer": "equilibrium_table",
    "checkpoints": {"every": 1},
    "games": {
        "kuhn": {"game": "kuhn", "seeds": [0, 1], "decision_budget": 300, "evaluations": 4},
        "leduc": {
            "game": {"name": "leduc_textbook", "view": "history"},
            "seeds": [3], "decision_budget": 1000, "evaluations": 2,
        },
    },
    "methods": {
        "PPO": {"job": SELF_PLAY, "set": {"stop.iterations": 4}},
        "PSRO": {
            "job": PSRO,
            "set": {"stop.iterations": 4},
            "set_by_game": {"leduc": {"stop.iterations": 2, "ppo.games": 30}},
        },
    },
}  # fmt: skip


GAMES = TABLE["games"]
Finished = equilibrium_table.FinishedEquilibriumTable


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "table.yaml"
    path.write_text(yaml.safe_dump({**TABLE, **changes}, sort_keys=False))
    return path


def test_a_point_is_the_last_evaluation_within_the_decisions():
    history = [
        (1, {"decisions": 100.0}),
        (2, {"decisions": 110.0, "exploitability_chip/policy": 0.5}),
        (3, {"decisions": 90.0}),
        (4, {"decisions": 100.0, "exploitability_chip/policy": 0.25}),
        (5, {"random/after_0_chip": 0.1}),
    ]
    curve = exploitability_curve(history, 4, "a run")
    assert curve == [(210.0, 0.5), (400.0, 0.25)]
    assert last_point_within(curve, 400) == (400.0, 0.25)
    assert last_point_within(curve, 399) == (210.0, 0.5)
    assert last_point_within(curve, 100) == (210.0, 0.5)
    with pytest.raises(RunError, match="a run has measured no exploitability"):
        exploitability_curve(history[:1], 4, "a run")
    with pytest.raises(RunError, match="no metric 'decisions' in iteration 1 of a run"):
        exploitability_curve([(1, {"exploitability_chip/policy": 0.5})], 4, "a run")


@pytest.fixture(scope="module")
def compared(local_ray: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    """Run a table without interruption, and stay in its folder."""
    folder = tmp_path_factory.mktemp("table")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        table = equilibrium_job.load(write(folder), [])
        total, progress = equilibrium_job.check(table), list[int]()
        assert total == 2 * 4 * 2 + 4 + 2
        done = equilibrium_table.run(lifecycle.open_folder(table, "table", True), progress.append)
        assert progress[-1] == total
        yield done


def test_a_table_compares_all_methods_on_all_games(compared: Finished) -> None:
    done = compared
    assert not done.failed
    assert [(row["game"], row["method"]) for row in done.rows] == [
        ("kuhn", "PPO"), ("kuhn", "PSRO"), ("leduc", "PPO"), ("leduc", "PSRO"),
    ]  # fmt: skip
    for row in done.rows:
        column = TABLE["games"][row["game"]]
        assert list(row["exploitability"]) == column["seeds"]
        for seed, gap in row["exploitability"].items():
            assert gap == last_point_within(row["curves"][seed], column["decision_budget"])[1]
    (listed,) = (run for run in list_runs() if run.name == done.folder.name)
    found = listed.kind, listed.status, listed.game
    assert found == ("table", "finished", "kuhn, leduc_textbook")
    shown = done.folder.markdown_table.read_text()
    assert "| PSRO | " in shown
    assert (
        "leduc: exact exploitability in chips a game at the last evaluation within 1,000" in shown
    )
    with (done.folder.path / "table.csv").open() as file:
        points = list(csv.DictReader(file))
    assert len(points) == 2 * 2 * 4 + 2 * 2
    assert (done.folder.figures / "exploitability.png").exists()
    (done.folder.path / "table.md").unlink()
    again = equilibrium_table.run(done.folder, lambda done: None)
    assert json.dumps(again.rows) == json.dumps(done.rows)
    assert done.folder.markdown_table.read_text() == shown


@pytest.mark.slow
def test_a_killed_table_gives_the_same_results(
    compared: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    started = start_command(tmp_path, "evaluate", "table.yaml")
    kill_once(lambda: list(tmp_path.glob("runs/*/tune-0/*/checkpoint_000000")), started)
    monkeypatch.chdir(tmp_path)
    (place,) = (tmp_path / "runs").iterdir()
    assert not (place / "table.md").exists()
    again = equilibrium_table.run(RunFolder(place), lambda done: None)
    assert json.dumps(again.rows) == json.dumps(compared.rows)


def test_evaluations_are_never_more_than_asked_and_workers_are_passed_on(tmp_path):
    table = equilibrium_job.load(write(tmp_path, workers=2), [])
    jobs = equilibrium_job.training_jobs(table)
    assert [job.evaluation.every for job in jobs] == [1, 1, 1, 1, 2, 1]
    assert {job.workers for job in jobs} == {2}
    for evaluations, every in ((3, 2), (5, 1)):
        changed = {"kuhn": {**GAMES["kuhn"], "evaluations": evaluations}, "leduc": GAMES["leduc"]}
        table = equilibrium_job.load(write(tmp_path, games=changed), [])
        assert equilibrium_job.training_jobs(table)[0].evaluation.every == every


def test_a_failed_child_run_is_named_and_the_others_count(
    local_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    games = {"kuhn": {**GAMES["kuhn"], "decision_budget": 1000}}
    methods = {"PPO": TABLE["methods"]["PPO"]}
    table = equilibrium_job.load(write(tmp_path, games=games, methods=methods), [])
    read_job = lifecycle.read_job

    def without_retries(folder: RunFolder) -> Any:
        job = read_job(folder)
        return job.model_copy(
            update={"checkpoints": job.checkpoints.model_copy(update={"retries": 0})}
        )

    monkeypatch.setattr(lifecycle, "read_job", without_retries)
    folder = lifecycle.open_folder(table, "table", True)
    first = folder.child(0)
    first.path.mkdir(parents=True)
    broken = equilibrium_job.training_jobs(table)[0].model_dump(mode="json")
    broken["self_play"]["hidden"] = [10**13]  # no memory holds so many weights
    first.job.write_text(json.dumps(broken))
    done = equilibrium_table.run(folder, lambda done: None)
    assert len(done.failed) == 1
    (row,) = done.rows
    assert list(row["exploitability"]) == [1]
    assert row["failed"] == 1
    shown = folder.markdown_table.read_text()
    assert "1 failed)" in shown
    assert f"- failed: {first.name}: " in shown


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"methods": {"x": {"job": {"trainer": "exploit", "exploit": {"opponent": "call"}}}}},
            r"methods.x, game kuhn: trainer 'exploit' cannot be part of an equilibrium table: ",
        ),
        (
            {"methods": {"x": {"job": SELF_PLAY, "set_by_game": {"leduk": {}}}}},
            r"unknown name 'leduk' in methods.x.set_by_game: .*leduc",
        ),
        (
            {"games": {**GAMES, "kuhn": {"game": "kuhn", "seeds": [1, 1], "decision_budget": 9}}},
            r"games.kuhn.seeds: a seed is given twice",
        ),
        (
            {"games": {**GAMES, "three": {"game": "kuhn_three", "decision_budget": 9}}},
            r"methods.PPO, game three: kuhn_three is not a two-seat game",
        ),
        (
            {"games": {**GAMES, "large": {"game": "holdem", "decision_budget": 9}}},
            r"games.large: holdem has no exact exploitability: it is too large for a tree",
        ),
        (
            {"methods": {"x": {"job": SELF_PLAY, "set": {"workers": 2}}}},
            r"methods.x sets 'workers', which the table sets itself",
        ),
        (
            {"methods": {"x": {"job": SELF_PLAY, "set_by_game": {"kuhn": {"evaluate.every": 2}}}}},
            r"methods.x sets 'evaluate.every', which the table sets itself",
        ),
        (
            {"methods": {"x": {"job": {**PSRO, "psro": {"oracle": "exact"}, "ppo": {}}}}},
            r"methods.x, game kuhn: psro.oracle exact does not count decisions: use ppo or dqn",
        ),
        (
            {"methods": {"x": {"job": "missing.yaml"}}},
            r"methods.x of .*table.yaml: cannot read job file .*missing.yaml",
        ),
        (
            {"methods": {"x": {"job": {**SELF_PLAY, "learner": 3}}}},
            r"unknown key 'learner'",
        ),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_before_any_training(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        equilibrium_job.check(equilibrium_job.load(write(tmp_path, **changes), []))
