"""Bidding systems on recorded auctions: agreement of calls, truth of their meanings, and
explanations in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overtrick import cli

DEAL = "N:KT8.A96.A95.7542 QJ96.K42.T73.T96 A752.T8.KQJ4.AQ3 43.QJ753.862.KJ8"
"""North 11 points, East 6, South 16 and balanced, West 7 with five hearts."""

ROW = {"deal": DEAL, "vulnerability": "None", "kind": "human", "sys_inferred_ew": None}
ROWS = [
    {**ROW, "dealer": "S", "auction": "1N P 3N P P P", "sys_inferred_ns": "strong"},
    {**ROW, "dealer": "W", "auction": "2H P P P", "sys_inferred_ns": "strong",
     "sys_inferred_ew": "wild"},
    {**ROW, "dealer": "S", "auction": "1N P P P", "kind": "robot", "system_ns": "strong",
     "sys_inferred_ns": "wild", "system_ew": "unknown"},
    {**ROW, "dealer": "N", "auction": "P P P P"},
]  # fmt: skip

Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return a function that runs a command and returns its exit code and JSON answer."""

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["overtrick", *words, "--json"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        code = stop.value.code
        assert isinstance(code, int)
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


@pytest.fixture
def file(tmp_path: Path) -> str:
    columns = dict.fromkeys(key for row in ROWS for key in row)
    table = pa.Table.from_pylist([{key: row.get(key) for key in columns} for row in ROWS])
    pq.write_table(table, tmp_path / "boards.parquet")
    return str(tmp_path / "boards.parquet")


def test_only_calls_of_the_selected_pairs_count(ask: Ask, file: str) -> None:
    def calls(*words: str) -> tuple[int, int]:
        code, reply = ask("bridge", "agreement", "natural", file, *words)
        assert code == 0
        return reply["boards"], reply["meanings"][-1]["calls"]

    assert calls() == (4, 4)
    assert calls("--kind", "human") == (3, 3)
    assert calls("--pairs", "strong") == (3, 3)  # stated, or else inferred; not West's two hearts
    assert calls("--pairs", "strong", "--kind", "human") == (2, 2)
    assert calls("--pairs", "wild") == (1, 1)


def test_meanings_of_calls_are_compared_with_the_hands(ask: Ask, file: str) -> None:
    """South has 16 points and is balanced; West's weak two has five hearts, not six."""
    _, strong = ask("bridge", "agreement", "natural", file, "--pairs", "strong", "--kind", "robot")
    opening = {"type": "notrump", "calls": 1, "known": 1, "true": 1, "width": 3}
    assert strong["meanings"][0] == opening | {"explained": 1, "explained_width": 3}
    assert (strong["opening"], strong["response"]) == (1, 0)  # North passes with 11 points
    assert (strong["response_without_passes"], strong["all"]) == (None, 0.5)
    _, wild = ask("bridge", "agreement", "natural", file, "--pairs", "wild")
    assert [row["type"] for row in wild["meanings"]] == ["preempt", "all"]
    assert (wild["meanings"][0]["known"], wild["opening"]) == (1, 0)
    # "4-10 points, 6-7 hearts" or "some players: 3-11 points, 5-7 hearts"
    assert (wild["meanings"][0]["explained"], wild["meanings"][0]["explained_width"]) == (1, 9)


def test_unknown_pairs_are_refused_with_the_known_ones(ask: Ask, file: str, tmp_path: Path) -> None:
    for words, message in (
        (("--pairs", "weak"), "no kind of pair 'weak' in the file: it has strong, wild"),
        (("--pairs", "wild", "--kind", "robot"), "'wild' in the file: it has strong"),
        (("--kind", "humn"), "no kind of board 'humn' in the file: it has human, robot"),
    ):
        code, reply = ask("bridge", "agreement", "natural", file, *words)
        assert code == 2
        assert message in reply["error"]
    bare = tmp_path / "bare.parquet"
    pq.write_table(
        pq.read_table(file, columns=["deal", "dealer", "vulnerability", "auction"]), bare
    )
    for option, column in (("--pairs", "sys_inferred_ns"), ("--kind", "column kind")):
        code, reply = ask("bridge", "agreement", "natural", str(bare), option, "human")
        assert code == 2
        assert "no board of the file records its kind of" in reply["error"]
        assert column in reply["error"]


def test_a_weak_two_in_third_seat_depends_on_vulnerability(ask: Ask) -> None:
    """South opens as third hand; with West as dealer it is East. The dealer's side plays
    --system."""

    def meaning(*words: str) -> str:
        return ask("bridge", "explain", "P P 2H", *words)[1]["calls"][2]["meaning"]

    assert "5-7 hearts" in meaning() == meaning("--vulnerable", "EW")
    assert "6-7 hearts" in meaning("--vulnerable", "NS") == meaning("--vulnerable", "All")
    west = "--dealer", "W", "--vulnerable"
    assert meaning(*west, "NS") == meaning()
    assert meaning(*west, "EW") == meaning("--vulnerable", "NS")
    for dealer in "NESW":
        reply = ask("bridge", "explain", "1C P", "--system", "precision", "--against", "natural",
                   "--dealer", dealer)[1]  # fmt: skip
        assert reply["calls"][0]["meaning"].startswith("Strong club")
    for words, message in (
        (("--dealer", "X"), "--dealer is N, E, S, W, not 'X'"),
        (("--vulnerable", "Both"), "--vulnerable is None, NS, EW, All, not 'Both'"),
    ):
        code, answer = ask("bridge", "explain", "1C", *words)
        assert (code, answer["error"]) == (2, message)
