"""Commands and the keys of their JSON answers that scripts rely on; they stay until 1.0."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bench import NAMES as BENCHES

import overtrick
from overtrick import cli

BOARD = """[Board "1"]
[Dealer "N"]
[Vulnerable "None"]
[Deal "N:AKQ2.K5.QT93.K76 JT98.QJT9.A2.A54 765.8762.K54.Q32 43.A43.J876.JT98"]
[Auction "N"]
1NT Pass Pass Pass
"""
BEFORE = Path(__file__).parents[1] / "fixtures" / "runs_before_house"
JOBS = Path(__file__).parents[2] / "jobs"
SOLVE = {
    "game", "plan", "iterations", "seconds", "iterations_per_second", "exploitability",
    "nash_conv", "values",
}  # fmt: skip
MATCH = {"a", "b", "boards", "mean", "standard_error", "unit"}
DATA = {"path", "rows", "seconds"}
AGREEMENT = {"system", "boards", "opening", "response", "all"}
FEW = ["ranks=5", "preflop=30", "flop=4", "turn=2", "river=1", "deals=200", "--seed", "2"]
FEWER = 'methods={"equilibrium": {"player": "equilibrium"}}'
ADAPTED = {"stranger", "steps", "standard_error", "best_response", "share"}
KEYS = [
    (["solve", "kuhn", "--plan", "cfr+", "--iterations", "10"], SOLVE),
    (["best-response", "kuhn", "--against", "random"],
     {"game", "stranger", "unit", "values", "mean"}),
    (["champions"], {"champions"}),
    (["board", str(JOBS / "board_leduc.yaml"), "seeds=[0]", "budgets=[2]", FEWER],
     {"board", "game", "rows"}),
    (["evaluate", "nfsp"], {"game", "unit", "rows"}),
    (["evaluate", "dqn"], {"game", "unit", "rows"}),
    (["match", "random", "call", "--game", "kuhn", "--boards", "20"],
     MATCH),
    (["generate", "minibridge", "--games", "20", "--out", "games"], DATA),
    (["generate", "deals", "--boards", "2", "--seed", "1", "--out", "two.parquet"], DATA),
    (["generate", "deals", "boards=2", "dealer=rotating", "--workers", "0"], DATA),
    (["generate", "examples", "--file", "boards.pbn", "--system-ns", "natural"], DATA),
    (["generate", "abstraction", "--buckets", "3", *FEW, "--out", "buckets.parquet"], DATA),
    (["agreement", "natural", "boards.pbn"], AGREEMENT),
    (["bridge", "agreement", "natural", "boards.pbn"], AGREEMENT),
    (["match", "natural", "precision", "--boards", "2"], MATCH),
    (["bridge", "match", "natural", "precision", "--boards", "2"], MATCH | {"played"}),
    (["bridge", "match", "rules", "random", "--boards", "2"], MATCH | {"played"}),
]  # fmt: skip
HERE = ["--address", ""]
MOVED = {
    "bridge": [
        ["explain", "1N P", "--system", "precision"],
        ["suggest", "absent", "AQ42.K5.QT93.K76"],
        ["agreement", "natural", "boards.pbn"],
        ["boards", "boards.pbn", "--to", "out.lin"],
        ["hands", "random", "--deals", "2", "--seed", "3"],
    ],
    "cluster": [["submit", "--resume", "r", *HERE], ["jobs", *HERE], ["stop", "x", *HERE]],
}
"""Commands that were at the top level before they moved into a group."""


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys):
    """answer(words): the exit code of a command, and the object on its last line of output."""
    here = tmp_path / "runs"
    shutil.copytree(BEFORE, here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("OVERTRICK_RUNS", str(here))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    (here / "boards.pbn").write_text(BOARD)

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


@pytest.mark.parametrize(
    ("group", "words"),
    [(group, words) for group, commands in MOVED.items() for words in commands],
    ids=[f"{group} {words[0]}" for group, commands in MOVED.items() for words in commands],
)
def test_a_moved_command_answers_under_both_names(answer, capsys, group, words):
    """The former name prints a note on standard error, and is not listed by --help."""
    assert answer([group, *words]) == answer(words)
    with pytest.raises(SystemExit):
        cli.main()  # sys.argv has the words of the last call of answer
    note = f"note: `overtrick {words[0]}` is now `overtrick {group} {words[0]}`"
    assert capsys.readouterr().err.count(note) == 1


def test_help_lists_groups_and_not_the_former_names_of_their_commands(capsys):
    cli.app(["--help"], standalone_mode=False)
    listed = set(re.findall(r"^│ ([a-z-]+) ", capsys.readouterr().out, re.MULTILINE))
    assert {"train", "evaluate", "solve", "match", "bridge", "cluster", "generate"} <= listed
    assert not listed & {words[0] for commands in MOVED.values() for words in commands}


def test_a_match_says_whether_cards_were_played(answer):
    assert answer(["bridge", "match", "natural", "natural", "--boards", "2"])[1]["played"] is False
    assert answer(["bridge", "match", "rules", "rules", "--boards", "2"])[1]["played"] is True


@pytest.mark.usefixtures("local_ray")
def test_the_answer_of_training_has_the_keys_that_scripts_read(answer):
    Path("kuhn.yaml").write_text("{trainer: solve, game: kuhn, stop: {iterations: 1}}")
    code, found = answer(["train", "kuhn.yaml"])
    assert code == 0
    assert set(found) >= {"run", "model", "seconds", "metrics"}
    assert Path(found["model"]).is_dir()


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
        "brps", "kuhn", "one_card", "leduc", "liars_dice", "leduc_textbook", "holdem",
        "goofspiel", "phantom_ttt", "abrupt_phantom_ttt", "dark_hex_3", "abrupt_dark_hex_3",
        "minibridge", "auction", "bridge", "sumo",
    }  # fmt: skip
    assert games <= set(overtrick.names())
    for job in ("leduc_meta", "coevolve_brps", "coevolve_kuhn", "holdem_exploit"):
        assert (JOBS / f"{job}.yaml").exists()
    assert {
        "leduc_play", "cfr_plus_leduc", "exploitability_leduc", "mccfr_leduc", "holdem_play",
        "sumo_steps", "bridge_play", "double_dummy", "ray_overhead",
    } <= set(BENCHES)  # fmt: skip
