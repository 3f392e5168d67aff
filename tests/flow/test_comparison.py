"""Comparison tables: every method against every held-out opponent, killed, resumed, and computed
again."""

from __future__ import annotations

import csv
import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_process import kill_once, start_command
from mlflow import MlflowClient
from scipy.stats import ttest_ind
from small_meta_job import TINY

from overtrick import cli
from overtrick.comparison import comparison_job, runner, schedule, statistics, table_files
from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.distributed.workers import LocalPool
from overtrick.runs import lifecycle
from overtrick.storage import locate, model_files
from overtrick.storage.object_store import ObjectFolder
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import JOBS, TRAINERS

LEARN: dict[str, Any] = {
    "trainer": "exploit",
    "game": "kuhn",
    "stop": {"iterations": 2},
    "exploit": {"opponent": "random", "hidden": [8], "games": 200},
}
TABLE: dict[str, Any] = {
    "trainer": "table",
    "game": "kuhn",
    "seeds": [0, 1],
    "checkpoints": {"every": 1},
    "evaluate": {"steps": 1, "games": 10, "repeats": 2, "every": 2},
    "opponents": {"call": "call", "cfr": "cfr", "learnt": {"method": "other"}},
    "methods": {
        "ours": {"job": "tiny.yaml", "set": {"stop.iterations": 3}},
        "other": {"job": "jobs/learn.yaml"},
        "CFR": {"policy": "cfr"},
        "Oracle": {"oracle": "exact"},
    },
    "ours": "ours",
    "paper": {"ours": {"call": 0.25}},
}
METHODS = TABLE["methods"]


def write(folder: Path, **changes: Any) -> Path:
    (folder / "jobs").mkdir(exist_ok=True)
    files = {"table.yaml": {**TABLE, **changes}, "tiny.yaml": TINY, "jobs/learn.yaml": LEARN}
    for name, content in files.items():
        (folder / name).write_text(yaml.safe_dump(content, sort_keys=False))
    return folder / "table.yaml"


@pytest.fixture(scope="module")
def compared(
    local_ray: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[runner.FinishedComparison]:
    """Train and evaluate a table without interruption."""
    folder = tmp_path_factory.mktemp("table")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        table = comparison_job.load(write(folder), [])
        total, progress = schedule.check(table), list[int]()
        done = runner.run(lifecycle.open_folder(table, "table", children=True), progress.append)
        assert progress[-1] == total == 2 * 3 + 2 * 2 + 4 * 2 * 3
        assert progress == sorted(progress)
        yield done


def test_the_budget_is_set_in_the_jobs_that_use_it(tmp_path):
    nfsp = {"trainer": "nfsp", "game": "kuhn", "nfsp": {"hidden": [8]}}
    methods = {"ours": METHODS["ours"], "NFSP": {"job": nfsp}}
    changes = {"methods": methods, "opponents": {"call": "call"}, "seeds": [0]}
    for every in ("2", "null"):
        table = comparison_job.load(
            write(tmp_path, **changes), [f"evaluate.every={every}", "evaluate.eval_deals=50"]
        )
        schedule.check(table)
        ours, never = schedule.plan_comparison(table, RunFolder(tmp_path)).jobs
        assert (ours.evaluate.games, ours.evaluate.eval_deals) == (10, 50)
        assert (never.evaluate.games, never.evaluate.eval_deals) == (200, 50)
        kept = schedule.in_training(table, never)
        assert job_file.parse(kept.model_dump(mode="json"), JOBS, "as a run keeps it") == kept


@pytest.mark.slow
def test_a_table_killed_during_training_gives_the_same_results(
    compared: runner.FinishedComparison, tmp_path: Path
) -> None:
    """The driver and all its children are killed; a new driver resumes the table."""
    write(tmp_path)
    started = start_command(tmp_path, "evaluate", "table.yaml")
    first = "runs/*/tune-0/*/checkpoint_000000/state.safetensors"
    kill_once(lambda: list(tmp_path.glob(first)), started)
    (place,) = (tmp_path / "runs").iterdir()
    assert not (place / "table.md").exists()
    again = runner.run(RunFolder(place), lambda done: None)
    assert again.outcome.rows == compared.outcome.rows


@pytest.mark.slow
def test_a_table_in_a_bucket_is_continued_on_another_machine(
    compared: runner.FinishedComparison, bucket: str, tmp_path: Path, monkeypatch
) -> None:
    """The driver is killed when the model of `other`, an opponent of all methods, is stored, and
    all local files are lost."""
    first, second = tmp_path / "first", tmp_path / "second"
    for machine in (first, second):
        machine.mkdir()
        write(machine)
    monkeypatch.setenv("OVERTRICK_RUNS", bucket)
    monkeypatch.setenv("OVERTRICK_CACHE", str(first))
    monkeypatch.setenv("OVERTRICK_LEASE_SECONDS", "10")
    started = start_command(first, "evaluate", "table.yaml", "--name", "table")
    stored = ObjectFolder(f"{bucket}/table")
    models = ("trials/table-002/model/model.json", "trials/table-003/model/model.json")
    kill_once(lambda: all(stored.stat(name) is not None for name in models), started)
    shutil.rmtree(first)
    monkeypatch.setenv("OVERTRICK_CACHE", str(second))
    monkeypatch.chdir(second)
    run = locate.existing_run("table")
    assert not run.markdown_table.exists()
    assert runner.run(run, lambda done: None).outcome.rows == compared.outcome.rows
    assert stored.stat("table.md") is not None


def row(found: statistics.Outcome, method: str, held_out: str) -> dict[str, Any]:
    (one,) = (r for r in found.rows if (r["method"], r["stranger"]) == (method, held_out))
    return one


def test_each_method_is_trained_with_each_seed_as_in_a_single_run(
    compared: runner.FinishedComparison,
) -> None:
    assert not compared.failed
    alone = {
        "ours": {**TINY, "stop": {"iterations": 3}, "evaluate": {"repeats": 2}},
        "other": LEARN,
    }
    wanted = [(alone[method], seed) for method in alone for seed in TABLE["seeds"]]
    for number, (content, seed) in enumerate(wanted):
        plain = job_file.parse({**content, "seed": seed}, JOBS, "this test")
        trainer = TRAINERS[plain.trainer].trainer(plain, LocalPool())
        for _ in range(plain.stop.iterations):
            trainer.step()
        stored = model_files.load(compared.folder.child(number).model).weights
        weights = trainer.model()
        assert stored.keys() == weights.keys()
        assert all((stored[name] == weights[name]).all() for name in weights)


def test_a_damaged_cell_is_refused(tmp_path: Path) -> None:
    cell = {"stranger": "call", "steps": [1.0, 2.0], "standard_error": [0.0, 0.0], "share": None,
            "best_response": 2.0}  # fmt: skip
    files = [tmp_path / f"{k}.json" for k in range(3)]
    for file in files:
        file.write_text(json.dumps(cell))
    cells = [(("ours", k % 2), file) for k, file in enumerate(files)]
    files[1].write_text(json.dumps({**cell, "steps": [1.0]}))  # another opponent
    assert [row["steps"] for row in runner.read_cells(cells, "")] == [[1, 2], [1], [1, 2]]
    files[2].write_text(json.dumps({**cell, "steps": [1.0]}))
    with pytest.raises(UserError, match=r"2\.json is damaged \(1 steps, not 2\): delete it"):
        runner.read_cells(cells, "delete it")


def test_cells_with_known_values_have_them(compared: runner.FinishedComparison) -> None:
    found = compared.outcome
    assert row(found, "Oracle", "call")["mean"] == pytest.approx(1 / 3)
    # it plays against itself
    assert row(found, "CFR", "cfr")["mean"] == pytest.approx(0, abs=1e-12)
    assert row(found, "other", "learnt")["payoffs"][0] == pytest.approx(0, abs=1e-12)
    assert row(found, "other", "learnt")["payoffs"][1] != pytest.approx(0, abs=1e-6)
    assert row(found, "ours", "call")["paper"] == 0.25
    for each in found.rows:
        most = row(found, "Oracle", each["stranger"])["mean"]
        assert each["mean"] <= most + 1e-12
        if most > 0.01:
            assert each["share"] == pytest.approx(each["mean"] / most)
    ours = row(found, "ours", "call")
    assert ours["mean"] == pytest.approx(sum(ours["payoffs"].values()) / 2)
    assert ours["standard_error"] == pytest.approx(abs(np.diff([*ours["payoffs"].values()])[0]) / 2)


def test_a_cell_is_the_evaluation_of_its_trial(compared: runner.FinishedComparison) -> None:
    rows, _, _ = lifecycle.evaluate_stored(str(compared.folder.child(1)), workers=0)
    for held_out, again in zip(TABLE["opponents"], rows, strict=True):
        assert row(compared.outcome, "ours", held_out)["payoffs"][1] == again["steps"][-1]


def test_a_note_says_how_the_best_responses_were_found(compared: runner.FinishedComparison) -> None:
    assert "in brackets: share of Oracle, which is the exact best response" in (
        compared.outcome.notes
    )


def test_ours_is_compared_with_the_mean_of_the_baselines_by_a_t_test(
    compared: runner.FinishedComparison,
) -> None:
    for faced in compared.outcome.against_baselines:
        ours, other, fixed = (
            [*row(compared.outcome, method, faced["stranger"])["payoffs"].values()]
            for method in ("ours", "other", "CFR")
        )
        theirs = (np.array(other) + fixed) / 2
        assert faced["difference"] == pytest.approx(np.mean(ours) - np.mean(theirs))
        p = ttest_ind(ours, theirs, equal_var=False).pvalue
        assert faced["p"] == pytest.approx(p)
        if p > 0.05:
            assert faced["verdict"] == "not told apart"
        else:
            assert faced["verdict"] == ("better" if faced["difference"] > 0 else "worse")


def test_failed_trainings_are_named_in_cells_and_notes(
    compared: runner.FinishedComparison,
) -> None:
    table = runner.read_job(compared.folder)
    places = itertools.product(table.methods, table.seeds, range(len(table.opponents)))
    cells: dict[Any, Any] = {place: {"steps": [1.0]} for place in places}
    first, *later = table.seeds
    assert later
    partly = {place: row for place, row in cells.items() if place[:2] != ("ours", first)}
    found = statistics.summarise(table, partly, [])
    ours, *others = statistics.wide(found)
    assert all("1 failed" in text for name, text in ours.items() if name in table.opponents)
    assert not any("failed" in text for line in others for text in line.values())
    assert found.against_baselines
    gone = {place: row for place, row in cells.items() if place[0] != "other"}
    found = statistics.summarise(table, gone, [])
    assert not found.against_baselines
    assert "not compared with the baselines, as other failed" in found.notes


def test_an_interrupted_table_gives_the_same_bytes_also_on_ray(
    compared: runner.FinishedComparison,
) -> None:
    run, folder = compared.folder, compared.folder.path
    # table.html has the job, whose number of workers differs
    names = [name for name in table_files.FILES if name != "table.html"]
    before = {name: (folder / name).read_bytes() for name in names}
    models = sorted(folder.glob("trials/*/model/*"))
    trained = [path.stat().st_mtime_ns for path in models]
    shutil.rmtree(folder / runner.CELLS)
    table = runner.read_job(run)

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(run, stop)
    assert len(list((folder / runner.CELLS).iterdir())) == 1
    lifecycle.write_job(table.model_copy(update={"workers": 2}), run)
    progress: list[int] = []
    runner.run(run, progress.append)
    assert progress == list(range(12, 35))  # ten iterations and one cell were finished
    assert {name: (folder / name).read_bytes() for name in names} == before
    assert [path.stat().st_mtime_ns for path in models] == trained
    lifecycle.write_job(table, run)


def test_markdown_and_csv_have_the_same_figures(compared: runner.FinishedComparison) -> None:
    text = (compared.folder.path / "table.md").read_text()
    assert "| ours | " in text
    assert "learnt is the model of other, seed 0, whose exploitability is 0." in text
    with (compared.folder.path / "table.csv").open() as file:
        lines = list(csv.DictReader(file))
    for line, each in zip(lines, compared.outcome.rows, strict=True):
        assert float(line["mean"]) == each["mean"]
        assert float(line["seed 1"]) == each["payoffs"][1]
        assert f"{each['mean']:.3f} ± {each['standard_error']:.3f}" in text
    stored = json.loads((compared.folder.path / "table.json").read_text())
    assert stored["against_baselines"] == compared.outcome.against_baselines


def test_mlflow_has_the_table_with_its_child_runs(
    compared: runner.FinishedComparison,
) -> None:
    client = MlflowClient(f"sqlite:///{compared.folder.path.parents[1]}/mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("overtrick").experiment_id])
    (parent,) = [r for r in runs if r.info.run_name == compared.folder.name]
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(children) == 4
    assert {r.info.status for r in runs} == {"FINISHED"}
    assert {"job.json", *table_files.FILES} <= {
        f.path for f in client.list_artifacts(parent.info.run_id)
    }
    mean = row(compared.outcome, "ours", "learnt")["mean"]
    assert parent.data.metrics["ours/learnt_chip"] == mean
    ours = [r for r in children if r.data.params["trainer"] == "meta"]
    progress = [r.data.metrics["learnt/after_1_chip"] for r in ours]
    assert sum(progress) / 2 == pytest.approx(mean)


def test_curves_show_the_evaluations_during_training(
    compared: runner.FinishedComparison,
) -> None:
    assert (compared.folder.path / "figures" / "bands.png").exists()
    spool = compared.folder.child(0).path / "track.jsonl"
    events = [json.loads(line) for line in spool.read_text().splitlines()]
    measured = {
        e["step"]: {n for n in e["metrics"] if "/after_1" in n} for e in events if "metrics" in e
    }
    both = {"call/after_1_chip", "cfr/after_1_chip"}  # the opponent learnt did not exist yet
    assert {step: names & both for step, names in measured.items()} == {
        1: set(), 2: both, 3: both, 4: both,
    }  # fmt: skip
    assert [step for step, names in measured.items() if "learnt/after_1_chip" in names] == [4]


def test_training_without_curves_evaluates_almost_nothing(tmp_path: Path) -> None:
    table = comparison_job.load(write(tmp_path), ["evaluate={every: null}"])
    for each in schedule.plan_comparison(table, RunFolder(tmp_path)).jobs[:2]:
        unwatched = schedule.in_training(table, each)
        assert unwatched.evaluate.opponents == ("random",)
        assert unwatched.evaluate.every > each.stop.iterations
        assert each.evaluate.opponents[:2] == ("call", "cfr")
        assert unwatched.model_copy(update={"evaluate": each.evaluate}) == each


def test_a_method_can_remove_keys_of_its_job(tmp_path: Path) -> None:
    change = {
        "without": ["population"],
        "set": {"population.size": 4, "population.head_init_scale": 2.0},
    }
    methods = {**METHODS, "ours": {"job": "tiny.yaml", **change}}
    table = comparison_job.load(write(tmp_path, methods=methods), ["methods.ours.set.meta.tasks=5"])
    ours = schedule.plan_comparison(table, RunFolder(tmp_path)).jobs[0]
    assert (ours.population.size, ours.population.head_init_scale) == (4, 2.0)
    assert ours.population.fitness_games == 200  # the default, not the 10 of the file
    assert (ours.meta.tasks, ours.meta.games) == (5, TINY["meta"]["games"])


def test_methods_may_change_reward_and_integrator_but_not_the_observation(tmp_path: Path) -> None:
    """Every method is evaluated with RK4."""
    game = {"name": "sumo", "reward": "result"}
    theirs = {"trainer": "meta", "evaluate": {"opponents": ["random"]}}

    def loaded(**options: Any) -> comparison_job.ComparisonJob:
        methods = {"ours": {"job": {**theirs, "game": {"name": "sumo", **options}}}}
        table_content = {"game": game, "opponents": {"still": "motionless"}, "methods": methods}
        return comparison_job.load(
            write(tmp_path, **table_content, paper={}, ours="ours", variants=[]), []
        )

    assert schedule.check(loaded(reward={"win": 3.0}, integrator="euler")) > 0
    with pytest.raises(UserError, match=r"methods.ours .* plays sumo .*ahead.*, but the table"):
        loaded(view="ahead")


def test_a_trained_oracle_is_trained_against_each_opponent_and_last_against_trained_ones(
    tmp_path: Path,
) -> None:
    methods = {**TABLE["methods"], "Oracle": {"oracle": "jobs/learn.yaml"}}
    held_out_opponents = {"learnt": {"method": "other"}, "call": "call"}
    table = comparison_job.load(write(tmp_path, methods=methods, opponents=held_out_opponents), [])
    made = schedule.plan_comparison(table, RunFolder(tmp_path / "t"))
    theirs = str(RunFolder(tmp_path / "t").child(2).model)
    trained_against = [(entry.trial, entry.job.exploit.opponent) for entry in made.trials[4:]]
    assert trained_against == [(4, "call"), (5, "call"), (6, theirs), (7, theirs)]
    assert made.early == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opponents": {"la": "la"}, "paper": {}}, "opponents.la: unknown opponent 'la' in"),
        ({"opponents": {"x": {"method": "CFR"}}, "paper": {}}, "unknown name 'CFR' in opponents.x: "
         "known: ours, other"),
        ({"opponents": {"x": {"metod": "other"}}, "paper": {}}, "unknown key 'opponents.x.metod' "
         "in table.yaml: did you mean 'opponents.x.method'?"),
        ({"methods": {**METHODS, "ours": {"jobb": "tiny.yaml"}}}, "unknown key 'methods.ours.jobb' "
         "in table.yaml: did you mean 'methods.ours.job'?"),
        ({"evaluate": {"games": 0}}, "'evaluate.games' in table.yaml: input should be greater"),
        ({"evaluate": {"steps": 0}}, "'evaluate.steps' in table.yaml: input should be greater"),
        ({"evaluate": {"step": 2}}, "unknown key 'evaluate.step' in table.yaml: did you mean "
         "'evaluate.steps'?"),
        ({"seeds": []}, "'seeds' in table.yaml: tuple should have at least 1"),
        ({"seeds": [0, 0]}, "seeds: a seed is given twice"),
        ({"ours": None, "variants": ["other"]},
         "variants has no effect without ours: leave it out, or set ours"),
        ({"methods": {**METHODS, "ours": {"job": "jobs/tiny.yaml", "key": "exploit.foe"}}},
         "methods.ours.key has no effect without methods.ours.oracle"),
        ({"methods": {**METHODS, "ours": {"job": "absent.yaml"}}}, "methods.ours of table.yaml: "
         "cannot read job file absent.yaml: No such file"),
        ({"methods": {**METHODS, "ours": {"job": "tiny.yaml", "set": {"meta.solvr": "ppo"}}}},
         "unknown key 'meta.solvr' in tiny.yaml, for methods.ours of table.yaml: did you mean "
         "'meta.solver'?"),
        ({"methods": {**METHODS, "ours": {"job": "tiny.yaml", "set": {"game": "leduc"}}}},
         "methods.ours of table.yaml plays leduc, but the table plays kuhn"),
        ({"methods": {**METHODS, "ours": {"job": "tiny.yaml", "policy": "cfr"}}},
         "name exactly one of job, policy and oracle"),
        ({"methods": {**METHODS, "ours": {"policy": "cfr", "set": {"seed": 1}}}},
         "set and without change a job, and this method has none"),
        ({"methods": {**METHODS, "ours": {"job": "tiny.yaml", "without": ["meta.solver"]}}},
         "without 'meta.solver': there is no such key in tiny.yaml, for methods.ours of table"),
        ({"methods": {**METHODS, "ours": {"job": "tiny.yaml", "set": {"evaluate": {"games": 7}}}}},
         "methods.ours sets 'evaluate.games', which the table sets itself"),
        ({"methods": {**METHODS, "ours": {"job": "tiny.yaml", "set": {"seed": 7}}}},
         "methods.ours sets 'seed', which the table sets itself"),
        ({"methods": {**METHODS, "CFR": {"policy": "cfrr"}}}, "methods.CFR.policy: unknown"),
        ({"methods": {**METHODS, "Oracle": {"oracle": "jobs/learn.yaml", "key": "exploit.foe"}}},
         "unknown key 'exploit.foe' in jobs/learn.yaml"),
        ({"game": "holdem", "opponents": {"la": "la"}, "methods": {"x": {"oracle": "exact"}},
          "ours": None, "paper": {}}, "methods.x: exact needs a tree, and holdem is too large"),
        ({"paper": {"us": {"call": 1}}}, "unknown name 'us' in paper: did you mean 'ours'?"),
        ({"paper": {"ours": {"cal": 1}}}, "unknown name 'cal' in paper.ours: did you mean 'call'?"),
        ({"ours": "us"}, "unknown name 'us' in ours: did you mean 'ours'?"),
        ({"methods": {"a.b": {"policy": "cfr"}}}, "string should match pattern"),
    ],
)  # fmt: skip
def test_a_wrong_table_names_the_key_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    write(tmp_path, **changes)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refused:
        schedule.check(comparison_job.load("table.yaml", []))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("train", "table.yaml"),
            "table.yaml is a comparison table: `overtrick evaluate table.yaml`",
        ),
        (("evaluate", "tiny.yaml"), "unknown trainer 'meta' in tiny.yaml"),
        (
            ("evaluate",),
            "evaluate needs a run, a model, a comparison's job file, or --resume TABLE",
        ),
        (("evaluate", "absent", "seeds=[0]"), "a stored model is evaluated by its own job"),
        (("evaluate", "table.yaml", "seeds=[-1]"), "'seeds.0' in table.yaml: input should be"),
    ],
)
def test_a_wrong_command_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["overtrick", *arguments])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_tables_and_runs_are_resumed_by_their_own_commands(
    compared: runner.FinishedComparison, tmp_path: Path
) -> None:
    name = compared.folder.name
    for folder in (compared.folder, compared.folder.child(0)):
        with pytest.raises(UserError, match=f"{name} is a table: `overtrick evaluate --resume"):
            lifecycle.train(folder, lambda iteration, metrics: None)
    lifecycle.write_job(job_file.parse(TINY, JOBS, "tiny"), RunFolder(tmp_path))
    with pytest.raises(UserError, match="is a run: `overtrick train --resume"):
        runner.run(RunFolder(tmp_path), lambda done: None)
