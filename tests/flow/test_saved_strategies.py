"""`overtrick solve --save`: what it may overwrite, the model card, and uses of the saved
strategy."""

from __future__ import annotations

import io
import json
import sys

import pyspiel
import pytest
from rich.console import Console

from overtrick import cli
from overtrick.core import UserError
from overtrick.reports import progress
from overtrick.solvers import sequence_form
from overtrick.storage import model_files
from overtrick.studies import exact_solutions
from overtrick.training.equilibrium import solve


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in an empty folder and returns the exit code, the JSON
    object and the text for people."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["overtrick", *arguments, "--json"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        *shown, answer = out.splitlines() or ["null"]
        return stop.value.code, json.loads(answer), "\n".join([*shown, err])

    return run


@pytest.fixture
def no_solver(monkeypatch):
    """Fail if a solver runs."""

    def work(*_):
        raise AssertionError("it has begun to solve")

    monkeypatch.setattr(exact_solutions, "_iterate", work)


@pytest.mark.parametrize("place", ["notes.txt", "folder", "folder/notes.txt/kuhn", "empty", "."])
def test_only_an_earlier_model_is_overwritten(command, no_solver, tmp_path, place):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder").mkdir()
    for name in ("notes.txt", model_files.CARD, model_files.WEIGHTS):
        (tmp_path / "folder" / name).write_text("mine")
    before = {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")}
    code, answer, _ = command("solve", "kuhn", "--save", place)
    assert code == 2
    assert place in answer["error"]
    assert (
        "name another folder, or remove it" in answer["error"]
        or "cannot be written" in answer["error"]
    )
    assert {path: path.is_file() and path.read_text() for path in tmp_path.rglob("*")} == before


def test_neither_model_of_a_run_is_overwritten(tmp_path):
    (tmp_path / "job.json").write_text("{}")
    for folder in (tmp_path / "model", tmp_path / "best" / "model"):
        folder.mkdir(parents=True)
        for name in (model_files.CARD, model_files.WEIGHTS):
            (folder / name).write_text("its")
        with pytest.raises(UserError, match="name another folder"):
            model_files.check_place(folder)


def test_a_folder_that_cannot_be_written_is_refused_before_solving(
    no_solver, tmp_path, monkeypatch
):
    monkeypatch.setattr(model_files.os, "access", lambda path, how: path != tmp_path)
    with pytest.raises(UserError, match=f"{tmp_path} cannot be written"):
        exact_solutions.solve_game("kuhn", "cfr", 1, save=tmp_path / "new" / "kuhn")


def test_an_earlier_model_is_replaced_and_the_card_names_the_solver(command, tmp_path):
    for plan, iterations in (("cfr+", 300), ("lp", 1)):
        code, answer, _ = command(
            "solve", "kuhn", "--plan", plan, "--iterations", "300", "--save", "deep/kuhn"
        )
        assert code == 0
        card = json.loads((tmp_path / "deep" / "kuhn" / model_files.CARD).read_text())
        same = ("plan", "exploitability", "nash_conv", "values")
        assert card["result"] == {"iterations": iterations} | {key: answer[key] for key in same}
        assert "stop" not in card["job"]
        assert [path.name for path in (tmp_path / "deep").iterdir()] == ["kuhn"]
        _, evaluated, _ = command("evaluate", "deep/kuhn")
        assert evaluated["rows"] == [{key: answer[key] for key in same}]


def test_a_model_needs_no_slash_on_the_command_line_unless_an_opponent_has_its_name(command):
    for place in ("mine", "random"):
        command("solve", "kuhn", "--plan", "lp", "--save", place)
    for against, mean in (("mine", 0), ("./mine", 0), ("./random", 0), ("random", 11 / 24)):
        code, answer, _ = command("best-response", "kuhn", "--against", against)
        assert (code, answer["stranger"]) == (0, against)
        assert answer["mean"] == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize(
    ("game", "twin"),
    [
        ("openspiel/liars_dice(numdice=1,dice_sides=3)", None),
        ("openspiel/python_kuhn_poker", None),
        ("kuhn_three", "kuhn_poker(players=3)"),
        ("leduc_textbook", "leduc_poker(suit_isomorphism=true)"),
    ],
)
def test_a_saved_strategy_is_as_exploitable_in_openspiel(tmp_path, game, twin):
    ours = exact_solutions.solve_game(game, "cfr+", 100, save=tmp_path / "kept")["exploitability"]
    policy = exact_solutions.openspiel_policy(tmp_path / "kept", twin)
    theirs = pyspiel.load_game(twin or game.removeprefix("openspiel/"))
    assert abs(pyspiel.exploitability(theirs, policy) - ours) < 1e-9


def test_openspiel_confirms_a_saved_equilibrium_to_rounding(tmp_path):
    """Probabilities are stored in float64, so that NashConv stays below 1e-12."""
    exact_solutions.solve_game("leduc_textbook", "hs-pdcfr+", 100_000, save=tmp_path / "leduc")
    twin = "leduc_poker(suit_isomorphism=true)"
    policy = exact_solutions.openspiel_policy(tmp_path / "leduc", twin)
    assert 0 <= pyspiel.nash_conv(pyspiel.load_game(twin), policy) < 1e-12


def test_our_strategies_convert_to_openspiels_names_of_the_games(tmp_path):
    exact_solutions.solve_game("kuhn", "lp", 1, save=tmp_path / "kuhn")
    with pytest.raises(UserError, match="name in OpenSpiel"):
        exact_solutions.openspiel_policy(tmp_path / "kuhn")
    with pytest.raises(ValueError, match="the trees differ"):
        exact_solutions.openspiel_policy(tmp_path / "kuhn", "leduc_poker")


@pytest.mark.parametrize(
    ("arguments", "page", "resumes"),
    [
        (("solve", "kuhn"), "overtrick.studies.exact_solutions.solve_game", False),
        (("train", "job.yaml"), "overtrick.config.job_file.load", True),
    ],
)
def test_only_stopped_runs_are_offered_for_resuming(command, monkeypatch, arguments, page, resumes):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, stop)
    code, answer, errors = command(*arguments)
    assert (code, answer) == (130, None)
    assert "stopped" in errors
    assert ("overtrick resume" in errors) == resumes


def test_the_message_of_a_full_disk_names_no_run_when_solving(command, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "kuhn")

    monkeypatch.setattr(model_files, "save", full)
    code, answer, _ = command("solve", "kuhn", "--iterations", "1", "--save", "kuhn")
    assert (code, answer) == (1, {"error": "[Errno 28] No space left on device: 'kuhn'"})


def test_an_unsolved_linear_program_is_a_failed_run(command, monkeypatch):
    class Nothing:
        success, message = False, "no answer"

    monkeypatch.setattr("scipy.optimize.linprog", lambda *_, **__: Nothing)
    code, answer, _ = command("solve", "kuhn", "--plan", "lp")
    assert (code, answer) == (1, {"error": "the linear program failed: no answer"})


def test_the_linear_program_is_solved_once_and_reported_without_iterations(command, monkeypatch):
    solved, equilibrium = [], sequence_form.equilibrium
    monkeypatch.setattr(
        sequence_form, "equilibrium", lambda tree: solved.append(tree) or equilibrium(tree)
    )
    _, answer, errors = command("solve", "kuhn", "--plan", "lp", "--iterations", "7")
    assert (len(solved), answer["iterations"]) == (1, 1)
    assert "by the linear program in" in errors
    assert "iteration" not in errors


def test_every_solver_is_listed(command):
    assert command("list")[1]["plans"] == list(solve.SOLVERS)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_first_run_reports_that_it_compiles(terminal):
    errors = io.StringIO()
    console = Console(file=errors, force_terminal=terminal, markup=False)
    with progress.counting(console, "kuhn[/x]", 5) as answer:
        answer(0)
    assert "kuhn[/x]: getting ready (a first run compiles)" in errors.getvalue()
