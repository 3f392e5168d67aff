"""Commands and the keys of their JSON answers that scripts rely on; they stay until 1.0."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bench import NAMES as BENCHES

import overtrick
from overtrick import cli

BEFORE = Path(__file__).parents[1] / "fixtures" / "runs_before_house"
JOBS = Path(__file__).parents[2] / "jobs"
SOLVE = {
    "game", "plan", "iterations", "seconds", "iterations_per_second", "exploitability",
    "nash_conv", "values",
}  # fmt: skip
ADAPTED = {"stranger", "steps", "standard_error", "best_response", "share"}
KEYS = [
    (["solve", "kuhn", "--plan", "cfr+", "--iterations", "10"], SOLVE),
    (["best-response", "kuhn", "--against", "random"],
     {"game", "stranger", "unit", "values", "mean"}),
    (["evaluate", "nfsp"], {"game", "unit", "rows"}),
    (["evaluate", "dqn"], {"game", "unit", "rows"}),
    (["match", "random", "call", "--game", "kuhn", "--boards", "20"],
     {"a", "b", "boards", "mean", "standard_error", "unit"}),
    (["generate", "minibridge", "--games", "20", "--out", "games"], {"path", "rows", "seconds"}),
]  # fmt: skip


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys):
    """answer(words): the exit code of a command, and the object on its last line of output."""
    here = tmp_path / "runs"
    shutil.copytree(BEFORE, here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("OVERTRICK_RUNS", str(here))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")

    def of(words: list[str]) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["overtrick", *words, "--json"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0), json.loads(capsys.readouterr().out.splitlines()[-1])

    return of


@pytest.mark.parametrize(("words", "keys"), KEYS, ids=[" ".join(words) for words, _ in KEYS])
def test_an_answer_has_the_keys_that_scripts_read(answer, words, keys):
    code, found = answer(words)
    assert code == 0
    assert keys <= set(found)


def test_the_rows_of_an_evaluation_keep_their_keys(answer):
    _, found = answer(["evaluate", "nfsp"])
    assert set(found["rows"][0]) >= ADAPTED
    _, found = answer(["evaluate", "dqn"])
    assert set(found["rows"][0]) >= {"defenders", "made", "interval", "double_dummy", "recognised"}


def test_an_error_is_one_line_and_exit_code_2(answer):
    code, found = answer(["solve", "khun"])
    assert code == 2
    assert set(found) == {"error"}
    assert "\n" not in found["error"]


def test_games_jobs_and_benches_keep_their_names():
    games = {
        "brps", "kuhn", "one_card", "leduc", "liars_dice", "leduc_textbook", "holdem", "minibridge",
        "auction", "sumo",
    }  # fmt: skip
    assert games <= set(overtrick.names())
    for job in ("leduc_meta", "coevolve_brps", "coevolve_kuhn", "holdem_exploit"):
        assert (JOBS / f"{job}.yaml").exists()
    assert {
        "leduc_play", "cfr_plus_leduc", "exploitability_leduc", "mccfr_leduc", "holdem_play",
        "sumo_steps", "bridge_play", "double_dummy", "ray_overhead",
    } <= set(BENCHES)  # fmt: skip
