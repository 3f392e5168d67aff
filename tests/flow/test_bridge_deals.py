"""Deals that systems bid and DDS solves: stored once, and independent of how they are computed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from overtrick import cli
from overtrick.core import UserError
from overtrick.datasets import board_files, bridge_deals, chunked_build
from overtrick.datasets.bridge_deals import DealsConfig
from overtrick.distributed.workers import LocalPool, WorkerPool
from overtrick.games.bridge import auction_rules, contract_results, double_dummy
from overtrick.games.bridge.cards import SEATS, parse_deal
from overtrick.games.bridge.formats.zhang_tsv import parse_trick_table

PLAN = DealsConfig(boards=45, seed=3)


def silent(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


@pytest.fixture
def unsolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the solver by a fast function of the cards, because solving a deal takes a tenth of a
    second."""

    def tables(holder: np.ndarray) -> np.ndarray:
        return (holder[:, :20].reshape(-1, 4, 5) * 4).astype(np.int8)

    monkeypatch.setattr(double_dummy, "trick_tables", tables)


@pytest.fixture
def whole(tmp_path: Path, unsolved: None, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Generate the file without interruption, in parts of ten boards."""
    monkeypatch.setattr(bridge_deals, "SHARDS_PER_PART", 2)
    chunked_build.generate(PLAN, tmp_path / "whole.parquet", LocalPool(), silent)
    return (tmp_path / "whole.parquet").read_bytes()


def test_a_row_has_the_contract_and_score_of_its_auction(tmp_path: Path) -> None:
    out = tmp_path / "deals.parquet"
    plan = DealsConfig(boards=12, seed=1, dealer="rotating", vulnerability="rotating")
    answer = chunked_build.generate(plan, out, LocalPool(), silent)
    assert (answer["path"], answer["rows"]) == (str(out), 12)
    rows = pq.read_table(out).to_pylist()
    assert [row["board"] for row in rows] == list(range(1, 13))
    assert "".join(row["dealer"] for row in rows) == "NESW" * 3
    assert [row["vulnerability"] for row in rows][:8] == [
        "None", "NS", "EW", "All", "NS", "EW", "All", "None"
    ]  # fmt: skip
    solved = double_dummy.trick_tables(np.stack([parse_deal(row["deal"]) for row in rows]))
    for row, table in zip(rows, solved, strict=True):
        calls = auction_rules.parse_calls(row["auction"])
        auction_rules.check_auction(calls)
        contract, declarer = contract_results.describe_contract(calls, row["dealer"])
        assert (row["contract"], row["declarer"]) == (contract, declarer)
        assert np.array_equal(parse_trick_table(row["dd_table"]), table)
        if declarer is None:
            assert (row["tricks"], row["score"]) == (None, 0)
            continue
        assert row["tricks"] == table[SEATS.index(declarer), "CDHSN".index(contract[1])]
        made = row["tricks"] >= 6 + int(contract[0])
        assert (row["score"] > 0) == (made == (declarer in "NS"))
        assert np.sign(row["imps"]) in (0, np.sign(row["score"] - row["par_score"]))
    found = board_files.load(out)
    assert found.problems == []
    assert [board.number for board in found.boards] == list(range(1, 13))


@pytest.mark.parametrize("stop", [0, 1, 5, 8])
def test_an_interrupted_run_continues_and_computes_no_part_twice(
    tmp_path: Path, whole: bytes, stop: int
) -> None:
    out = tmp_path / "b.parquet"

    def stop_after(stage: str, done: int, total: int) -> None:
        if done == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chunked_build.generate(PLAN, out, LocalPool(), stop_after)
    assert not out.exists()
    left = {path: path.stat().st_mtime_ns for path in chunked_build.parts_folder(out).iterdir()}
    assert len(left) == stop // 2
    progress: list[int] = []

    def watch(stage: str, done: int, total: int) -> None:
        progress.append(done)
        assert {path: path.stat().st_mtime_ns for path in left} == left

    chunked_build.generate(PLAN, out, LocalPool(), watch)
    assert progress == list(range(stop - stop % 2, 10))
    assert out.read_bytes() == whole
    assert not chunked_build.parts_folder(out).exists()


def test_workers_generate_the_same_file(tmp_path: Path, two_workers: WorkerPool) -> None:
    plan = DealsConfig(boards=12, seed=5)
    chunked_build.generate(
        plan, tmp_path / "b.parquet", LocalPool(), silent
    )  # compiles for all workers
    chunked_build.generate(plan, tmp_path / "a.parquet", two_workers, silent)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_an_existing_file_is_never_overwritten(tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "whole.parquet"
    assert chunked_build.generate(PLAN, out, LocalPool(), silent)["rows"] == 45
    remedy = "remove it, or name another file with --out"
    with pytest.raises(UserError, match=f"made with seed 3, not with seed 4: {remedy}"):
        chunked_build.generate(DealsConfig(boards=45, seed=4), out, LocalPool(), silent)
    assert out.read_bytes() == whole


def test_a_system_is_identified_by_its_text_and_not_by_its_path(
    tmp_path: Path, unsolved: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted run continues after the checkout has moved, but not with other rules."""

    def system_in(folder: str, rules: str) -> DealsConfig:
        path = tmp_path / folder / "mine.bidding"
        path.parent.mkdir()
        path.write_text(f"system mine\n\nat opening\n{rules}")
        return DealsConfig(boards=20, system_ns=str(path))

    def stop_after(stage: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(bridge_deals, "SHARDS_PER_PART", 2)
    rules = "  1N | 15-17 hcp | Strong notrump\n  P | anything | Pass\n"
    before, moved = system_in("before", rules), system_in("moved", f"# the same\n{rules}")
    other = system_in("other", rules.replace("15-17", "12-14"))
    out, anew = tmp_path / "deals.parquet", tmp_path / "anew.parquet"
    with pytest.raises(KeyboardInterrupt):
        chunked_build.generate(before, out, LocalPool(), stop_after)
    progress: list[int] = []
    chunked_build.generate(
        moved, out, LocalPool(), lambda stage, done, total: progress.append(done)
    )
    assert progress == [2, 3, 4]
    chunked_build.generate(before, anew, LocalPool(), silent)
    assert out.read_bytes() == anew.read_bytes()
    with pytest.raises(UserError, match="was made with rules"):
        chunked_build.generate(other, out, LocalPool(), silent)


def test_from_the_command_line(
    tmp_path: Path, unsolved: None, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    def ask(*words: str):
        monkeypatch.setattr(sys, "argv", ["overtrick", "generate", *words, "--json"])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, json.loads(capsys.readouterr().out.splitlines()[-1])

    monkeypatch.chdir(tmp_path)
    code, progress = ask("deals", "--boards", "7", "--seed", "2")
    assert (code, progress["rows"], progress["path"]) == (
        0,
        7,
        "boards/deals-natural-natural-7-2.parquet",
    )
    for words, message in (
        (("--system-ns", "naturl"), "unknown bidding system 'naturl': did you mean 'natural'?"),
        (("--dealer", "fixed"), "'dealer': input should be 'random' or 'rotating', not 'fixed'"),
        (("--games", "5"), "No such option: --games"),
        (("boads=5",), "unknown key 'boads' of deals: did you mean 'boards'?"),
        (("--out", "."), "is a folder: name a file in it"),
    ):
        code, progress = ask("deals", *words)
        assert code == 2
        assert message in progress["error"]
    assert "No such option: --boards" in ask("minibridge", "--boards", "5")[1]["error"]
