"""The board of repeated rock, paper, scissors: its bots, its ranking, its command."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from overtrick import cli
from overtrick.comparison import rps_board
from overtrick.comparison.rps_board_job import RpsBoardJob
from overtrick.config import job_file
from overtrick.evaluation.board import roshambo_bots as bots

FEW = ["copybot", "iocainebot", "pibot", "rockbot"]


def test_the_bots_are_the_43_of_openspiel_in_two_halves() -> None:
    names = bots.bot_names()
    assert len(names) == 43
    assert {"greenberg", "iocainebot", "randbot", "rockbot"} <= set(names)
    halves = bots.development_bots(), bots.test_bots()
    assert [len(half) for half in halves] == [22, 21]
    assert sorted(halves[0] + halves[1]) == names


def test_a_match_of_bots_is_repeated_by_its_seed() -> None:
    first = ["iocainebot"] * 5 + ["rockbot"]
    second = ["randbot"] * 4 + ["rockbot"] * 2
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(bots.play_two_bots, first, second, (0, 0, 1, 2, 0, 0)))
    assert found[0] == found[1]
    assert len(set(found[:4])) == 3
    assert found[4] > 980
    assert found[5] == 0


def test_a_player_meets_the_bot_that_it_plays() -> None:
    class Paper:
        """It beats rockbot, which never plays anything else."""

        def act(self) -> int:
            return 1

        def observe(self, own: int, opponent: int) -> None:
            assert (own, opponent) == (1, 0)

    assert bots.play_bot(Paper(), "rockbot", 0) == bots.ROUNDS


def test_the_ranking_is_by_mean_return_less_the_largest_loss() -> None:
    rows = rps_board.ranking(
        [
            {"player": "a", "points": {"x": [10, 30], "y": [-40, -20]}},
            {"player": "b", "points": {"x": [5, 5], "y": [1, 3]}},
        ]
    )
    assert [(row.rank, row.method) for row in rows] == [(1, "b"), (2, "a")]
    first, second = rows
    assert (first.mean_return, first.largest_loss, first.against) == (3.5, 0, "")
    assert (second.mean_return, second.largest_loss, second.against) == (-5, 30, "y")
    assert second.score == -35
    assert second.standard_error == pytest.approx(10)
    assert second.loss_standard_error == pytest.approx(10)


def test_a_match_is_the_same_on_every_board() -> None:
    """A player and a bot draw the same numbers, whichever bots the player meets besides.

    A thread that calls `rand` all the time, as those of Ray do now and then, changes nothing.
    """
    stop = threading.Event()

    def draw() -> None:
        while not stop.wait(1e-4):
            ctypes.CDLL(None).rand()

    content = {"trainer": "rps_board", "seeds": [3], "methods": {"a": {"player": "uniform"}}}
    points: dict[str, dict[str, list[int]]] = {}
    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for place in ("development", "test", "all"):
            job = job_file.parse(content | {"opponents": place}, {"rps_board": RpsBoardJob}, "here")
            points[place] = rps_board.play_all(np.random.default_rng(), job, "a")["points"]
    finally:
        stop.set()
        thread.join()
    assert points["all"] == points["development"] | points["test"]


def test_the_command_ranks_players_and_bots(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setattr(bots, "bot_names", lambda: FEW)
    methods = {"ours": {"player": "level_k_mixture"}, "random": {"player": "uniform"}}
    job = {"trainer": "rps_board", "seeds": [0, 1], "opponents": "all", "methods": methods}
    (tmp_path / "rps.yaml").write_text(yaml.safe_dump(job))

    def answer() -> dict[str, Any]:
        words = ["board", "rps.yaml", "--name", "r", "--json"]
        monkeypatch.setattr(sys, "argv", ["overtrick", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return found

    found = answer()
    assert [row["rank"] for row in found["rows"]] == [1, 2, 3, 4, 5, 6]
    rows = {row["method"]: row for row in found["rows"]}
    assert set(rows) == {"ours", "random", *FEW}
    assert rows["ours"]["mean_return"] > 400
    assert abs(rows["random"]["mean_return"]) < 60
    shown = (tmp_path / "runs" / "r" / "table.md").read_text()
    assert f"| {rows['ours']['rank']} | ours | {rows['ours']['mean_return']:.1f} | " in shown
    (tmp_path / "runs" / "r" / "opponents" / "0002.json").unlink()
    assert answer()["rows"] == found["rows"]


UNIFORM = {"player": "uniform"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"game": "kuhn"}, "the bots play openspiel/matrix_rps only: leave game out"),
        ({"seeds": [1, 1]}, "a seed is given twice"),
        ({"methods": {"rockbot": UNIFORM}}, "methods.rockbot has the name of a bot"),
    ],
)
def test_bad_boards_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    job = {"trainer": "rps_board", "methods": {"a": UNIFORM}, **changes}
    (tmp_path / "rps.yaml").write_text(yaml.safe_dump(job))
    monkeypatch.setattr(sys, "argv", ["overtrick", "board", "rps.yaml"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
