"""Runs and models from before modules and job keys were renamed still work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from tests.rounding import assert_float32_close

from overtrick.core import UserError
from overtrick.runs import html_page, lifecycle
from overtrick.storage import locate, model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.studies import match
from overtrick.training.registry import TRAINERS

BEFORE = Path(__file__).parents[1] / "fixtures" / "runs_before_house"
RUNS = sorted(path.parent.name for path in BEFORE.glob("*/evaluated.json"))
OTHER_RULES = {"bidder", "selfplay_bidding"}  # their networks read calls by rules of before
SLOW = {"sampling"}  # its table plays all deals of the job again


@pytest.fixture
def before(tmp_path, monkeypatch) -> Path:
    """Copy the old runs and use the copy as the folder of runs."""
    here = tmp_path / "before"
    shutil.copytree(BEFORE, here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("OVERTRICK_RUNS", str(here))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    return here


def assert_close(found, wanted, where="") -> None:
    """Assert equal values; float32 rounding may differ."""
    if isinstance(wanted, dict):
        assert set(found) >= set(wanted), where
        for key in wanted:
            assert_close(found[key], wanted[key], f"{where}/{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), where
        for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
            assert_close(one, other, f"{where}/{k}")
    elif isinstance(wanted, float):
        assert_float32_close(found, wanted)
    else:
        assert found == wanted, where


def test_every_trainer_of_version_0_1_has_an_old_run():
    trainers = {json.loads((BEFORE / name / "job.json").read_text())["trainer"] for name in RUNS}
    assert len(trainers) == 16
    assert trainers <= set(TRAINERS)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in RUNS]
)
def test_an_old_run_is_listed_viewed_and_evaluated_as_before(before, name):
    assert name in locate.run_names()
    assert "<html" in html_page.run_page(RunFolder(before / name))
    if name in OTHER_RULES:
        with pytest.raises(UserError, match=r"rules of natural have changed since .*train it"):
            lifecycle.evaluate_stored(name, 0)
        return
    rows, game, unit = lifecycle.evaluate_stored(name, 0)
    wanted = json.loads((before / name / "evaluated.json").read_text())
    assert_close({"game": game, "unit": unit, "rows": rows}, wanted)


def test_an_unfinished_old_run_can_be_completed(before, local_ray):
    finished = lifecycle.train(
        RunFolder(before / "meta_unfinished"), lambda iteration, metrics: None
    )
    assert len(finished.rows) == 2
    assert (finished.folder.model / model_files.WEIGHTS).exists()


def test_an_old_model_is_an_opponent(before):
    played = match.play_match(str(before / "nfsp"), "random", "leduc", {}, boards=20, seed=0)
    assert played.game == "leduc"
    assert abs(played.meeting.mean) < 15


def test_a_registered_model_answers_as_it_did(before):
    served = mlflow.pyfunc.load_model(str(before / "registered" / "old-meta"))
    example = (before / "registered/old-meta/serving_input_example.json").read_text()
    question = pd.DataFrame(json.loads(example)["inputs"])
    wanted = json.loads((before / "registered" / "answered.json").read_text())
    assert_close(served.predict(question), wanted)
