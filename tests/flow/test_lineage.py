"""MLflow records the data sets and models that a run reads; `overtrick lineage` shows them."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from mlflow import MlflowClient

import overtrick
from overtrick import cli
from overtrick.core import UserError
from overtrick.storage import job_inputs, parquet
from overtrick.storage.champions import champion_folder
from overtrick.storage.model_files import WEIGHTS

KIND = parquet.Kind("numbers", 1, "make them again")


def save(folder: Path, name: str, numbers: list[int]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    parquet.save(folder / name, KIND, {}, {"n": np.array(numbers)})


def test_the_digest_of_a_data_set_changes_with_its_content(tmp_path: Path) -> None:
    one, copy, other = (tmp_path / name for name in ("one", "copy", "other"))
    save(one, "train/a.parquet", [1, 2, 3])
    save(one, "b.parquet", [4])
    shutil.copytree(one, copy)
    save(other, "train/a.parquet", [1, 2, 5])
    save(other, "b.parquet", [4])
    job = {"section": {"files": [str(one), str(copy), str(other), str(tmp_path / "absent")]}}
    by_path = {Path(each.path).name: each for each in job_inputs.dataset_inputs(job)}
    assert set(by_path) == {"one", "copy", "other"}
    assert {each.rows for each in by_path.values()} == {4}
    assert {each.kind for each in by_path.values()} == {"numbers"}
    assert by_path["one"].digest == by_path["copy"].digest != by_path["other"].digest
    (copy / "b.parquet").rename(copy / "c.parquet")
    (renamed,) = job_inputs.dataset_inputs({"x": str(copy)})
    assert renamed.digest != by_path["one"].digest
    (file,) = job_inputs.dataset_inputs({"x": str(one / "b.parquet")})
    assert (file.rows, file.path) == (1, str(one / "b.parquet"))
    assert not job_inputs.dataset_inputs({"program": {"command": str(one), "folder": str(one)}})
    (one / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"b\.parquet is not a table of overtrick"):
        job_inputs.dataset_inputs(job)


def test_boards_that_another_program_wrote_are_a_data_set_too(tmp_path: Path) -> None:
    """Their digest is that of the file, so that another file of the same shape is told apart."""
    found = []
    for name, deal in (("a", "N:A"), ("b", "N:K")):
        pq.write_table(pa.table({"deal": [deal, deal]}), tmp_path / f"{name}.parquet")
        found += job_inputs.dataset_inputs({"deals": str(tmp_path / f"{name}.parquet")})
    assert [(each.kind, each.rows) for each in found] == [(parquet.FOREIGN, 2)] * 2
    assert found[0].digest != found[1].digest


def test_models_are_found_by_folder_by_run_and_as_champions(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(champion_folder("champion:kuhn"), run / "model")
    job = {"a": str(run), "b": [str(run / "model"), "champion:kuhn", "random"], "track": {"c": "/"}}
    found = {each.model: each.sha256 for each in job_inputs.model_inputs(job)}
    assert list(found) == [str(run), str(run / "model"), "champion:kuhn"]
    card = hashlib.sha256((run / "model" / "model.json").read_bytes()).hexdigest()
    assert {digests["model.json"] for digests in found.values()} == {card}
    (run / "model" / WEIGHTS).unlink()  # a model without weights cannot have been read
    assert [each.model for each in job_inputs.model_inputs(job)] == ["champion:kuhn"]


def command(folder: Path, *words: str) -> dict[str, Any]:
    """Run a command in a folder and in this process; return its JSON answer."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as output:
        patch.chdir(folder)
        patch.setenv("OVERTRICK_RUNS", str(folder / "runs"))
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        cli.app([*words, "--json"], standalone_mode=False)
    answer: dict[str, Any] = json.loads(output.getvalue().splitlines()[-1])
    return answer


def test_a_registered_model_leads_back_to_its_job_and_data(local_ray: None, tmp_path: Path) -> None:
    command(tmp_path, "generate", "minibridge", "--games", "30", "--out", "games", "--workers", "0")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({
        "trainer": "tabular", "game": "minibridge", "stop": {"iterations": 1},
        "tabular": {"data": "games", "games": 10},
        "evaluate": {"deals": 10, "final_deals": 10},
    }))  # fmt: skip
    command(tmp_path, "train", "job.yaml", "--name", "learnt")
    found = command(tmp_path, "lineage", "learnt")
    (games,) = found["datasets"]
    assert games["path"] == str(tmp_path / "games")
    assert games["rows"] == 30
    assert len(games["digest"]) == job_inputs.DIGEST_LENGTH
    assert found["models"] == []
    assert found["job"]["tabular.data"] == str(tmp_path / "games")
    assert (found["run"], found["trainer"], found["game"]) == ("learnt", "tabular", "minibridge")
    assert found["version"] == overtrick.__version__
    command(tmp_path, "register", "learnt", "declarer")
    registered = command(tmp_path, "lineage", "models:/declarer/1")
    assert registered == {**found, "model": "models:/declarer/1"}
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (logged,) = client.get_run(found["run_id"]).inputs.dataset_inputs
    assert [(tag.key, tag.value) for tag in logged.tags] == [("mlflow.data.context", "training")]


def test_the_models_that_a_run_reads_are_recorded(local_ray: None, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({
        "trainer": "exploit", "game": "kuhn", "stop": {"iterations": 1},
        "exploit": {"opponent": "champion:kuhn", "games": 10, "hidden": [4]},
    }))  # fmt: skip
    command(tmp_path, "train", "job.yaml", "--name", "first")
    found = command(tmp_path, "lineage", "first")
    (model,) = found["models"]
    weights = hashlib.sha256((champion_folder("champion:kuhn") / WEIGHTS).read_bytes()).hexdigest()
    assert model["model"] == "champion:kuhn"
    assert model["sha256"][WEIGHTS] == weights
    # a run against the model of the first one
    command(tmp_path, "train", "job.yaml", "exploit.opponent=first", "--name", "second")
    (model,) = command(tmp_path, "lineage", "second")["models"]
    assert model["model"] == str(tmp_path / "runs" / "first")


def test_a_model_that_mlflow_does_not_know_is_refused(tmp_path: Path) -> None:
    for words, message in (
        (("lineage", "nothing"), "no run 'nothing'"),
        (("lineage", "models:/nothing/1"), "no model 'nothing' is registered"),
    ):
        with pytest.raises(UserError, match=message):
            command(tmp_path, *words)
