"""`overtrick train` as a process: killed, resumed, tracked, evaluated again."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_process import COMMAND, environment, kill_once
from mlflow import MlflowClient
from small_meta_job import TINY, local_run

from overtrick import cli
from overtrick.core import UserError
from overtrick.storage import model_files

JOB: dict[str, Any] = {**TINY, "workers": 1, "stop": {"iterations": 25}}


def overtrick(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a command in a folder and in this process; return its JSON answer."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as output:
        patch.chdir(folder)
        cli.app([*arguments, "--json"], standalone_mode=False)
    return json.loads(output.getvalue().splitlines()[-1])


@pytest.fixture(scope="module")
def killed_and_resumed(
    local_ray: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """Train a run whose driver and all its children are killed after a checkpoint, and resume
    it."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(JOB))
    run = subprocess.Popen(
        [*COMMAND, "train", "tiny.yaml", "--name", "mine"],
        cwd=folder, env=environment(), stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    checkpoint_pattern = "runs/*/tune-0/*/checkpoint_000003/state.safetensors"
    kill_once(lambda: list(folder.glob(checkpoint_pattern)), run)
    assert [p.name for p in (folder / "runs").iterdir()] == ["mine"]
    assert not (folder / "runs" / "mine" / "model").exists()
    ctrl_c = signal.getsignal(signal.SIGINT)
    answer = overtrick(folder, "train", "tiny.yaml", "--name", "mine")
    assert signal.getsignal(signal.SIGINT) is ctrl_c  # and not a handler of Tune
    return folder, answer


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "tiny.yaml", "seed=1", "--name", "mine"),
         "run mine exists with another job (seed differs): choose another --name; `overtrick re"),
        (("sweep", "tiny.yaml", "search={seed: {grid: [1]}}", "--name", "mine"),
         "run mine exists, but is not of this command: choose another --name; `overtrick resume"),
        (("train", "tiny.yaml", "--name", "runs/mine"), "--name 'runs/mine': must be a folder"),
        (("train", "tiny.yaml", "--name", ".mine"), "--name '.mine': must be a folder name"),
        (("train", "tiny.yaml", "--name", ""), "--name '': must be a folder name"),
        (("train", "tiny.yaml", "--name", "random"), "--name random: it is, or looks like, the"),
        (("train", "tiny.yaml", "--name", "champion:leduc"), "or looks like, the name of a player"),
        (("train", "--resume", "mine", "--name", "new"), "a resumed run keeps its name: leave out"),
    ],
)  # fmt: skip
def test_an_unsuitable_name_of_a_run_is_refused(
    killed_and_resumed: tuple[Path, dict[str, Any]], words: tuple[str, ...], message: str
) -> None:
    folder, _ = killed_and_resumed
    with pytest.raises(UserError, match=re.escape(message)):
        overtrick(folder, *words)
    assert [p.name for p in (folder / "runs").iterdir()] == ["mine"]


def test_a_folder_that_is_no_run_gets_none(
    killed_and_resumed: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, _ = killed_and_resumed
    (tmp_path / "tiny.yaml").write_text((folder / "tiny.yaml").read_text())
    (tmp_path / "runs" / "results").mkdir(parents=True)
    (tmp_path / "runs" / "results" / "figure.png").touch()
    with pytest.raises(UserError, match=r"runs/results is not a run: choose another --name"):
        overtrick(tmp_path, "train", "tiny.yaml", "--name", "results")
    assert [path.name for path in (tmp_path / "runs" / "results").iterdir()] == ["figure.png"]


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[dict[str, float]], dict[str, Any]]:
    return local_run(JOB)


def test_a_killed_and_resumed_run_gives_the_same_metrics_and_model_file(
    killed_and_resumed: tuple[Path, dict[str, Any]],
    undisturbed: tuple[list[dict[str, float]], dict[str, Any]],
    tmp_path: Path,
) -> None:
    folder, answer = killed_and_resumed
    metrics, weights = undisturbed
    spool = (folder / "runs" / answer["run"] / "track.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in spool]
    history = [(e["step"], e["metrics"]) for e in events if "metrics" in e]
    assert history == list(enumerate(metrics, start=1))
    assert answer["metrics"] == metrics[-1]
    stored = model_files.load(Path(answer["model"]), "kuhn")
    model_files.save(model_files.Model(weights, "kuhn", stored.job), tmp_path / "model")
    for name in (model_files.WEIGHTS, model_files.CARD):
        assert (Path(answer["model"]) / name).read_bytes() == (
            tmp_path / "model" / name
        ).read_bytes()


def test_mlflow_has_one_run_with_every_iteration_once_and_the_files(
    killed_and_resumed: tuple[Path, dict[str, Any]],
    undisturbed: tuple[list[dict[str, float]], dict[str, Any]],
) -> None:
    folder, _ = killed_and_resumed
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    experiment = client.get_experiment_by_name("overtrick")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["meta.inner_lr"] == "0.25"
    assert run.data.params["population.elite_share"] == "0.2"
    kl = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "kl")]
    assert kl == [(i, m["kl"]) for i, m in enumerate(undisturbed[0], start=1)]
    files = {f.path for f in client.list_artifacts(run.info.run_id)}
    assert {"job.json", "table.json", "view.html", "figures"} <= files
    (left,) = client.search_logged_models([experiment.experiment_id])
    assert (left.source_run_id, left.status) == (run.info.run_id, "READY")
    figures = {f.path for f in client.list_artifacts(run.info.run_id, "figures")}
    assert figures == {f"figures/{n}.png" for n in ("adaptation", "learning_curve", "styles")}


def test_evaluate_prints_the_table_of_the_run_again(
    killed_and_resumed: tuple[Path, dict[str, Any]],
) -> None:
    folder, answer = killed_and_resumed
    again = overtrick(folder, "evaluate", answer["run"])
    assert again["game"] == "kuhn"
    assert again["unit"] == "chip"
    assert again["rows"] == json.loads((folder / "runs" / answer["run"] / "table.json").read_text())
    random, call = again["rows"]
    assert random["stranger"] == "random"
    assert len(random["steps"]) == TINY["evaluate"]["steps"] + 1
    assert random["share"] == random["steps"][-1] / random["best_response"]
    assert call["best_response"] == pytest.approx(1 / 3)


def test_solve_and_best_response_answer_the_keys_that_scripts_read(tmp_path: Path) -> None:
    solved = overtrick(tmp_path, "solve", "kuhn", "--iterations", "2000")
    assert set(solved) == {
        "game", "plan", "iterations", "seconds", "iterations_per_second", "exploitability",
        "nash_conv", "values",
    }  # fmt: skip
    assert solved["values"][0] == pytest.approx(-1 / 18, abs=1e-4)
    assert solved["nash_conv"] == 2 * solved["exploitability"]
    best = overtrick(tmp_path, "best-response", "leduc", "--against", "random")
    assert best["unit"] == "big blind"
    assert best["mean"] == pytest.approx(1.4716049)
    assert best["mean"] == sum(best["values"]) / 2
