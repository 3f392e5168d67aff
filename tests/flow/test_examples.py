"""The examples of docs/examples run as they stand."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from command_process import environment

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
QUICK = {
    "solve_and_plot": "cfr+: exploitability",
    "random_games": "games a second",
    "new_game": "value +0.093",
    "bridge_bid": " 2C  Stayman",
    "read_pbn": "board 1: par",
}
"""The examples that take a few seconds, and words that they print."""

LONG = {
    "maskable_ppo": "MaskablePPO wins",
    "ppo_against_champion": "a best response",
    "adapt_to_my_player": "after 3 steps",
    "sweep": "coevolve.step_size",
    "load_from_mlflow": "evolve plays kuhn",
}
ELSEWHERE = {"submit"}  # test_job_client.py runs it, on a cluster
LONGEST = {"new_game": 60}
"""Lines that an example may have, if more than 25."""


def test_every_example_is_short_and_tested():
    files = {path.stem: path for path in FOLDER.glob("*.py")}
    assert set(files) == {*QUICK, *LONG, *ELSEWHERE}
    for name, path in files.items():
        assert len(path.read_text().splitlines()) <= LONGEST.get(name, 25), name


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_example_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert QUICK[name] in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_example_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert LONG[name] in done.stdout
