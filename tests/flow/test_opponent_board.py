"""Boards of opponents: exact board_evaluation, test opponents, resumed boards, and bad input."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats

import overtrick as ot
from overtrick import cli
from overtrick.comparison import (
    board,
    board_job,
    board_networks,
    board_opponents,
)
from overtrick.config.job_file import GameChoice
from overtrick.core import UserError
from overtrick.evaluation.board import board_evaluation, opponent_files
from overtrick.evaluation.board.end_observations import SETTINGS
from overtrick.evaluation.evaluate import best_response_payoff, exact_payoff
from overtrick.evaluation.game_cache import cached_equilibrium
from overtrick.runs import lifecycle
from overtrick.solvers.extensive import best_response

LEDUC = GameChoice(name="leduc")
NETWORK = {"player": "model", "model": "champion:leduc_adapting", "told": ["all_cards"]}
BOARD: dict[str, Any] = {
    "trainer": "board",
    "game": "leduc",
    "seeds": [0, 1],
    "budgets": [10, 60],
    "told": ["own_cards", "all_cards"],
    "methods": {
        "equilibrium": {"player": "equilibrium"},
        "oracle": {"player": "oracle"},
        "safe oracle": {"player": "oracle", "exploitability_bound": 0.2},
        "posterior": {"player": "population_posterior", "population_size": 40},
        "network": NETWORK,
        "safe network": {**NETWORK, "exploitability_bound": 0.2},
    },
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "board.yaml"
    path.write_text(yaml.safe_dump({**BOARD, **changes}, sort_keys=False))
    return path


def run(path: Path, *overrides: str) -> board.FinishedBoard:
    job = board_job.load(path, overrides)
    done = list[int]()
    total = board.check(job)
    finished = board.run(lifecycle.open_folder(job, "board", True), done.append)
    assert done[-1] == total
    return finished


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, store: str) -> Any:
    folder = tmp_path_factory.mktemp("board")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_TRACKING_URI", store)
        yield run(write(folder))


def test_the_development_opponents_are_those_of_the_package() -> None:
    tree = board_evaluation.setting(LEDUC, "own_cards").tree
    opponents = opponent_files.load(opponent_files.FOLDER / "leduc", tree)
    assert len({each.name for each in opponents}) == len(opponents) == 17
    assert Counter(each.family for each in opponents)["near_equilibrium"] == 4
    by_name = {each.name: each for each in opponents}
    for target in (0.02, 0.1, 0.3, 0.6):
        (strategy,) = by_name[f"near_equilibrium_{target}"].phases
        assert best_response_payoff(tree, strategy) == pytest.approx(target, abs=1e-6)
    assert [each.name for each in opponents if each.changes] == ["changing"]
    families = board_evaluation.families(LEDUC)
    networks = list(board_networks.NETWORK_JOBS["leduc"])
    families_of = {"changing", *families.development(), *networks}
    assert {each.family for each in opponents} == families_of
    elsewhere = {*families.training(), *families.development(), *networks}
    assert not set(families.test_only()) & elsewhere


def test_the_development_opponents_are_drawn_with_their_seed() -> None:
    """But for the network, whose training differs between processors in the last bits."""
    families = board_evaluation.families(LEDUC)
    stored = opponent_files.load(opponent_files.FOLDER / "leduc", families.tree)
    rng = np.random.default_rng(opponent_files.DEVELOPMENT_SEED)
    again = opponent_files.draw_development(families, rng)
    networks = list(board_networks.NETWORK_JOBS["leduc"])
    assert [each.name for each in stored[len(again) :]] == networks
    for drawn, each in zip(again, stored, strict=False):
        assert (drawn.name, drawn.family) == (each.name, each.family)
        if drawn.family != "imitating_network":
            assert np.array(drawn.phases) == pytest.approx(np.array(each.phases), abs=1e-6)
    assert stored[0].digest.startswith("36ee36dd8efbbfc6")


@pytest.mark.slow
@pytest.mark.parametrize("family", board_networks.NETWORK_JOBS["leduc"])
def test_the_networks_are_trained_again(family: str) -> None:
    """Rounding differs between processors, and a training amplifies it: the play is similar."""
    tree = board_evaluation.setting(LEDUC, "own_cards").tree
    stored = {o.name: o for o in opponent_files.load(opponent_files.FOLDER / "leduc", tree)}
    policy, (before,) = board_networks.train_network("leduc", family), stored[family].phases
    trained = best_response.sigma_of(tree, [policy] * 2)
    first, second = best_response_payoff(tree, trained), best_response_payoff(tree, before)
    assert first == pytest.approx(second, rel=0.5)
    assert np.abs(trained - before).mean() < 0.1


def test_a_changed_opponent_is_refused(tmp_path: Path) -> None:
    tree = board_evaluation.setting(LEDUC, "own_cards").tree
    opponents = opponent_files.load(opponent_files.FOLDER / "leduc", tree)
    opponent_files.save(opponents, tree, tmp_path)
    cards = (tmp_path / "opponents.json").read_text()
    (tmp_path / "opponents.json").write_text(cards.replace(opponents[3].digest, "0" * 64))
    with pytest.raises(UserError, match="the SHA-256 of tight is not that of its"):
        opponent_files.load(tmp_path, tree)


def test_players_are_judged_exactly(finished: board.FinishedBoard) -> None:
    tree, equilibrium = board_evaluation.setting(LEDUC, "own_cards").tree, cached_equilibrium(LEDUC)
    opponents = opponent_files.load(opponent_files.FOLDER / "leduc", tree)
    shares = []
    for opponent in opponents:
        best = best_response_payoff(tree, opponent.phases[-1])
        if not opponent.changes and best >= board_evaluation.EXPLOITABLE - 1e-6:
            shares.append(exact_payoff(tree, equilibrium, opponent.phases[0]) / best)
    rows = {(row["method"], row["told"], row["budget"]): row for row in rows_of(finished)}
    assert len(rows) == 2 * (1 + 1 + 1 + 2 + 1 + 1)
    assert {row["opponents"] for row in rows.values()} == {14}
    row = rows["equilibrium", "nothing", 60]
    assert row["share"] == pytest.approx(np.mean(shares), rel=1e-9)
    assert row["lowest_share"] == pytest.approx(min(shares), rel=1e-9)
    assert row["share_beyond_equilibrium"] == pytest.approx(0, abs=1e-9)
    assert row["exploitability"] == pytest.approx(0, abs=1e-6)
    assert rows["oracle", "strategy", 10]["share"] == pytest.approx(1, rel=1e-9)
    safe = rows["safe oracle", "strategy", 10]
    assert 0.5 < safe["share"] < 1
    assert safe["worst_exploitability"] == pytest.approx(0.2, abs=1e-6)
    assert 0.7 < rows["posterior", "own_cards", 60]["share"] <= 1
    assert rows["network", "all_cards", 60]["online_share"] is None
    assert rows["network", "all_cards", 60]["worst_exploitability"] > 0.3
    assert rows["safe network", "all_cards", 60]["worst_exploitability"] == pytest.approx(0.2)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs a command and returns its exit code."""

    def run_words(words: list[str]) -> int:
        monkeypatch.setattr(sys, "argv", ["overtrick", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    return run_words


def rows_of(done: board.FinishedBoard) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = done.json_results()["rows"]
    return rows


def result(name: str, payoffs: list[float], payoff: float | None, online: float) -> dict[str, Any]:
    record = {"games": 2000, "payoff": payoff, "exploitability": 0.5, "online": online}
    return {
        "method": "m", "told": "own_cards", "opponent": name, "opponent_sha256": "",
        "family": name, "in_training": name == "known", "best_response_payoffs": payoffs,
        "equilibrium_payoff": 0.1, "matches": [{"seed": 0, "checkpoints": [record]}],
        "seconds_per_game": 0.0,
    }  # fmt: skip


def test_methods_are_compared_over_seeds_in_each_setting(finished: board.FinishedBoard) -> None:
    rows = finished.json_results()["by_seed"]
    # only in all_cards there are several methods; the oracle and the equilibrium take no part
    assert [(row["method"], row["told"]) for row in rows] == [
        (name, "all_cards") for name in ("posterior", "network", "safe network")
    ]
    shares = board_evaluation.shares_by_seed(finished.results, 60)
    best = shares["posterior", "all_cards"]
    for row in rows:
        first, second = shares[row["method"], row["told"]]  # seeds 0 and 1
        assert row["share"] == pytest.approx((first + second) / 2)
        assert row["standard_error"] == pytest.approx(abs(first - second) / 2)
        if row["method"] == "posterior":
            assert row["p"] is None
            continue
        # Welch's t with two values each: a second implementation of its degrees of freedom
        a, b = np.var(best, ddof=1) / 2, np.var([first, second], ddof=1) / 2
        t = (np.mean(best) - row["share"]) / np.sqrt(a + b)
        p = 2 * stats.t.sf(abs(t), (a + b) ** 2 / (a**2 + b**2))
        assert row["p"] == pytest.approx(p, rel=1e-6)
    table = (finished.folder.path / "table.md").read_text()
    assert "Share after 60 games, by seed" in table


def test_opponents_that_change_are_evaluated_by_the_games_played() -> None:
    changing = result("changing", [1.0, 0.4], None, 0.35)
    (row,) = board_evaluation.summarise([changing])
    assert row.share is None
    assert row.online_share == pytest.approx(0.35 / 0.7)
    assert board_evaluation.best_online(changing, 500) == 1.0


def test_a_summary_counts_exploitable_opponents() -> None:
    (row,) = board_evaluation.summarise(
        [
            result("known", [0.5], 0.4, 0.3),
            result("new", [0.3 - 1e-9], 0.15, 0.1),
            result("too strong", [0.2], -0.1, -0.1),
        ]
    )
    assert (row.opponents, row.lowest_share) == (2, pytest.approx(0.5, rel=1e-6))
    assert row.share == pytest.approx((0.8 + 0.5) / 2, rel=1e-6)
    assert row.share_of_other_families == pytest.approx(0.5, rel=1e-6)
    assert row.share_beyond_equilibrium == pytest.approx((0.3 / 0.4 + 0.05 / 0.2) / 2, rel=1e-6)
    assert row.standard_error == pytest.approx(0.15, rel=1e-6)
    assert row.online_share == pytest.approx((0.6 + 1 / 3) / 2, rel=1e-6)


def test_files_of_a_board(finished: board.FinishedBoard) -> None:
    shown = finished.folder.markdown_table.read_text()
    page = (finished.folder.path / "table.html").read_text()
    for title in ("Share after 60 games, by family", "Payoff a game after 10 games, by opponent"):
        assert f"<h2>{title}</h2>" in page
        assert f"{title}:" in shown
    card = json.loads((finished.folder.path / "cards" / "network.json").read_text())
    assert card["game"] == "leduc"
    assert "<summary>network</summary>" in page
    assert "| safe oracle | strategy | 60 | " in shown
    assert "Payoff a game after 60 games, by opponent" in shown
    assert "development opponents: they may have guided choices" in shown
    stored = json.loads((finished.folder.path / "table.json").read_text())
    assert stored["rows"] == rows_of(finished)


def test_a_board_continues_with_the_matches_that_are_missing(
    finished: board.FinishedBoard, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.folder.path.parents[1])
    stored = sorted((finished.folder.path / "opponents").iterdir())
    for file in stored[30:50]:
        file.unlink()
    again = board.run(finished.folder, lambda done: None)
    assert rows_of(again) == rows_of(finished)


def test_a_board_continues_only_with_the_same_opponents(
    tmp_path: Path, store: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    job = str(write(tmp_path, methods={"equilibrium": {"player": "equilibrium"}}, seeds=[0]))
    assert command(["board", "make", job, "--out", "test"]) == 0
    finished = run(Path(job), "opponents=test")
    families = board_evaluation.families(LEDUC)
    others = opponent_files.draw_test(families, np.random.default_rng(1))
    opponent_files.save(others, families.tree, Path("test"))
    with pytest.raises(UserError, match="is not the result of equilibrium, nothing, against test_"):
        board.run(finished.folder, lambda done: None)


@pytest.mark.usefixtures("local_ray")
def test_workers_give_the_same_result(
    finished: board.FinishedBoard, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    methods = json.dumps({"posterior": BOARD["methods"]["posterior"]})
    alone = run(write(tmp_path), "workers=2", f"methods={methods}")
    wanted = [row for row in rows_of(finished) if row["method"] == "posterior"]
    assert rows_of(alone) == wanted


def test_opponents_for_the_test_are_drawn_after_the_players(
    tmp_path: Path, store: str, command: Any,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    job = str(write(tmp_path, methods={"equilibrium": {"player": "equilibrium"}}, seeds=[0]))
    assert command(["board", "make", job, "--out", "test", "--json"]) == 0
    made = json.loads(capsys.readouterr().out.splitlines()[-1])
    tree, families = (
        board_evaluation.setting(LEDUC, "own_cards").tree,
        board_evaluation.families(LEDUC),
    )
    opponents = opponent_files.load(Path("test"), tree)
    assert [each.name for each in opponents] == made["opponents"]
    assert len({each.family for each in opponents}) == len(opponents) == 12
    assert len({each.family for each in opponents} & set(families.test_only())) == 4
    seed = int(made["players_sha256"], 16)
    again = opponent_files.draw_test(families, np.random.default_rng(seed))
    assert [each.digest for each in again] == [each.digest for each in opponents]

    assert command(["board", "make", job, "--out", "other", "--seed", "e" * 64]) == 0
    assert opponent_files.load(Path("other"), tree)[0].digest != opponents[0].digest
    words = ["board", "make", job, "--out", "again", "--seed", made["players_sha256"]]
    assert command(words) == 0
    redrawn = opponent_files.load(Path("again"), tree)
    assert [each.digest for each in redrawn] == [each.digest for each in opponents]
    capsys.readouterr()
    assert command(["board", job, "opponents=test", "--name", "first", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out.splitlines()[-1])
    assert {"board", "game", "rows"} <= set(found)
    row = {"method", "told", "budget", "share", "exploitability", "standard_error"}
    assert row <= set(found["rows"][0])
    assert f"seed {made['players_sha256'][:16]}..., used 1 time" in printed.err
    assert "are not those" not in printed.err

    monkeypatch.setattr(board_opponents, "players_sha256", lambda job: "of other code")
    assert command(["board", job, "opponents=test", "--name", "second"]) == 0
    printed = capsys.readouterr()
    assert "used 2 times" in printed.err
    assert "the players or the code are not those for which" in printed.err
    assert command(["board", job, "opponents=test", "--name", "second"]) == 0
    assert "used 2 times" in capsys.readouterr().err


def test_the_seed_of_test_opponents_depends_on_players_models_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(board_opponents, "PACKAGE", tmp_path / "code")
    job = board_job.load(write(tmp_path), [])
    jobs = [
        job,
        board_job.load(write(tmp_path), ["methods.posterior.population_size=41"]),
        board_job.load(write(tmp_path), ["methods.network.model=champion:leduc"]),
    ]
    seeds = [board_opponents.players_sha256(each) for each in jobs]
    (tmp_path / "code" / "a.py").write_text("x = 2\n")
    seeds.append(board_opponents.players_sha256(job))
    assert len(set(seeds)) == 4


def test_a_program_is_found_in_its_folder_and_its_file_changes_the_seed_of_test_opponents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board_opponents, "PACKAGE", tmp_path / "no code")
    program = tmp_path / "players" / "mine.sh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    methods = {"mine": {"player": "program", "command": "./mine.sh"}}
    methods["mine"]["folder"] = str(program.parent)
    job = board_job.load(write(tmp_path, methods=methods), [])
    with pytest.raises(UserError, match=r"^methods.mine: there is no program `./mine.sh`"):
        board_opponents.check_methods(job)  # it may not be executed
    program.chmod(0o755)
    board_opponents.check_methods(job)
    before = board_opponents.players_sha256(job)
    program.write_text("#!/bin/sh\nexit 1\n")
    assert board_opponents.players_sha256(job) != before


class Uniform:
    """A player of one's own, which plays uniformly."""

    def __init__(self, setting: Any, rng: Any) -> None:
        self.uniform = setting.tree.uniform()
        self.told = setting.told

    def strategy(self, games: Any) -> Any:
        """Check what the player sees, and return the uniform strategy."""
        if games:
            last = games[-1]
            assert last.seat == (len(games) - 1) % 2
            hidden = last.cards[1 - last.seat] == -1
            assert hidden or self.told != "own_cards"
            assert last.cards[last.seat] >= 0
        return self.uniform


@pytest.mark.parametrize("told", ["own_cards", "all_cards"])
def test_a_player_of_ones_own_is_judged_from_python(told: Any) -> None:
    (row,) = ot.board(Uniform, told=told, budgets=[30], seeds=[0])
    tree = board_evaluation.setting(LEDUC, "own_cards").tree
    opponents = opponent_files.load(opponent_files.FOLDER / "leduc", tree)
    shares = [
        exact_payoff(tree, tree.uniform(), each.phases[0]) / best
        for each in opponents
        if not each.changes and (best := best_response_payoff(tree, each.phases[0])) >= 0.3 - 1e-6
    ]
    assert row["share"] == pytest.approx(np.mean(shares), rel=1e-9)


def test_a_strategy_that_is_none_is_refused() -> None:
    class Wrong:
        def __init__(self, setting: Any, rng: Any) -> None: ...

        def strategy(self, games: Any) -> Any:
            return np.zeros((288, 4))

    with pytest.raises(UserError, match="the player's strategy after 0 games: "):
        ot.board(Wrong, budgets=[1], seeds=[0])


def test_test_opponents_count_players_from_python_too(tmp_path: Path) -> None:
    families = board_evaluation.families(LEDUC)
    opponents = opponent_files.draw_test(families, np.random.default_rng(1))
    opponent_files.save(opponents, families.tree, tmp_path / "test")
    for _ in range(2):
        ot.board(Uniform, opponents=str(tmp_path / "test"), budgets=[2], seeds=[0])
    users = [each["user"] for each in opponent_files.uses(tmp_path / "test")]
    assert users == ["ot.board Uniform"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"told": "all"}, "should be 'own_cards', 'showdown' or 'all_cards', not 'all'"),
        ({"budgets": [20, 5]}, "budgets: each number must be larger than the one before"),
        ({"budgets": [0]}, "should be greater than or equal to 1, not 0"),
        ({"seeds": []}, "should have at least 1 item"),
        ({"game": "kuhn"}, "no development opponents for kuhn"),
    ],
)
def test_bad_arguments_of_a_board_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        ot.board(Uniform, **arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budgets": [60, 10]}, "budgets: each number must be larger than the one before"),
        ({"seeds": [1, 1]}, "seeds: a value is given twice"),
        ({"methods": {"a": {"player": "model"}}}, "a player `model` needs the keys model and told"),
        (
            {"methods": {"a": {"player": "oracle", "population_size": 3}}},
            "population_size has no effect",
        ),
        ({"game": "kuhn"}, "there are no development opponents for kuhn"),
        ({"game": "holdem"}, "are for holdem with options"),
        ({"game": "liars_dice"}, "a board needs a game with public actions and dealt cards"),
        ({"methods": {"a": {**NETWORK, "told": list(SETTINGS)}}}, "told: a model has one setting"),
        (
            {"methods": {"a": {**NETWORK, "player": "in_context", "model": "net{seed}"}}},
            "model: {seed} is for the player `model` only",
        ),
        ({"methods": {"a": NETWORK}, "budgets": [2]}, "2 games are too few for 3 adaptation steps"),
        ({"opponents": "nowhere"}, "nowhere has no test opponents: draw new test opponents with"),
        (
            {"methods": {"a": {"player": "model", "model": "champion:kuhn", "told": ["showdown"]}}},
            "methods.a: ",
        ),
    ],
)  # fmt: skip
def test_bad_boards_are_refused_in_one_line(
    changes: dict[str, Any], message: str, tmp_path: Path, command: Any,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert command(["board", str(write(tmp_path, **changes))]) == 2
    (line,) = [x for x in capsys.readouterr().err.splitlines() if x.strip()]
    assert message in line
    assert not list(tmp_path.glob("runs/*"))


def test_only_boards_are_judged(
    tmp_path: Path, command: Any,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        (["table2"], "table2 is no board: its trainer is table"),
        (["make"], "board make needs a job file"),
        (["make", "x", "--name", "y"], "board make takes neither --workers nor --name"),
        (["make", str(write(tmp_path))], "board make needs a job file, and --out FOLDER"),
        (["make", str(write(tmp_path)), "--out", "x", "--seed", "12"], "it must be a SHA-256"),
        (
            [str(write(tmp_path)), "--out", "x"],
            "--out and --seed are for `overtrick board make JOB`",
        ),
    ):
        assert command(["board", *arguments]) == 2
        assert message in capsys.readouterr().err
