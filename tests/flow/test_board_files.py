"""Statistics of boards of any file format, and messages about invalid boards."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overtrick import cli
from overtrick.core import UserError
from overtrick.datasets import board_files

DEAL = "N:KT8.A96.A95.7542 QJ96.K42.T73.T96 A752.T8.KQJ4.AQ3 43.QJ753.862.KJ8"
ROWS = [
    {"dealer": "S", "vulnerability": "NS", "auction": "1D P 1N P 3N P P P", "contract": "3N"},
    {"dealer": "N", "vulnerability": "None", "auction": "P P 1C P P P", "contract": None},
    {"dealer": "E", "vulnerability": "All", "auction": "P P P P", "contract": "Pass"},
]


def write(path: Path, rows: list[dict]) -> Path:
    pq.write_table(pa.Table.from_pylist([{"deal": DEAL, **row} for row in rows]), path)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    declarers = ("N", None, None)
    rows = [{**row, "declarer": seat} for row, seat in zip(ROWS, declarers, strict=True)]
    return write(tmp_path / "boards.parquet", rows)


def test_a_parquet_file_has_the_same_boards_as_a_pbn_file(file: Path, tmp_path: Path) -> None:
    found = board_files.load(file)
    assert found.problems == []
    assert [board.contract for board in found.boards] == ["3N", "1C", "Pass"]
    assert [board.declarer for board in found.boards] == ["N", "S", None]
    counted = board_files.statistics(found.boards)
    for ending in ("pbn", "lin", "tsv"):
        board_files.save(tmp_path / f"again.{ending}", found.boards)
        again = board_files.load(tmp_path / f"again.{ending}")
        assert [board.auction for board in again.boards] == [b.auction for b in found.boards]
        assert board_files.statistics(again.boards) == counted


def test_tab_separated_text_keeps_double_dummy_tables_if_every_board_has_one(
    file: Path, tmp_path: Path
) -> None:
    table = np.arange(20, dtype=np.int8).reshape(4, 5) % 14
    boards = [replace(board, table=table) for board in board_files.load(file).boards]
    for some, kept in ((boards, [True] * 3), ([replace(boards[0], table=None), *boards[1:]], [])):
        board_files.save(tmp_path / "tables.tsv", some)
        again = board_files.load(tmp_path / "tables.tsv").boards
        found = [np.array_equal(board.table, table) for board in again if board.table is not None]
        assert found == kept


def test_statistics_count_openers_and_lengths_of_auctions(file: Path) -> None:
    counted = board_files.statistics(board_files.load(file).boards)
    assert (counted["boards"], counted["auctions"]) == (3, 3)
    assert counted["dealer"] == {"N": 1, "E": 1, "S": 1, "W": 0}
    assert counted["opener"] == {"N": 0, "E": 0, "S": 2, "W": 0, "nobody": 1}
    assert counted["opener_place"] == {"1st": 1, "2nd": 0, "3rd": 1, "4th": 0, "nobody": 1}
    assert counted["vulnerability"] == {"None": 1, "NS": 1, "EW": 0, "All": 1}
    assert counted["length"] == {"4": 1, "5": 0, "6": 1, "7": 0, "8": 1}
    assert counted["mean_length"] == 6
    assert counted["first_call"] == {"P": 2, "1D": 1}
    assert counted["opening"] == {"1C": 1, "1D": 1}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"deal": DEAL.replace("KT8.A96", "KT.A96")}, "a hand has 13 cards, but the hands in"),
        ({"deal": "N:KT8.A96.A95.7542 QJ96.K42.T73.T96"}, "not a deal in PBN"),
        ({"deal": None}, "it has no deal"),
        ({"dealer": "X"}, "its dealer is 'X', not one of N, E, S, W"),
        ({"vulnerability": "Both"}, "vulnerability is None, NS, EW, All, not 'Both'"),
        ({"auction": "1D P 1C P P P"}, "call 3 of the auction, 1C, is not above 1D"),
        ({"auction": "1D P P", "contract": None}, "the auction '1D P P' does not end"),
        ({"auction": "1D P 1Z"}, "'1Z' is not a call"),
        ({"contract": "4S"}, "4S by N is recorded, but its auction has 3N by N"),
        ({"play": "SQ S1"}, "'S1' in its play is not a card"),
    ],
)
def test_an_invalid_row_is_named_and_the_others_are_read(
    tmp_path: Path, changed, message: str
) -> None:
    good = {**ROWS[0], "declarer": "N", "play": None}
    path = write(tmp_path / "b.parquet", [good, {**good, **changed}, good])
    found = board_files.load(path)
    assert len(found.boards) == 2
    assert found.problems[0].startswith(f"{path}: row 2: ")
    assert message in found.problems[0]
    with pytest.raises(UserError, match="the file has no valid board"):
        board_files.load(write(path, [{**good, **changed}]))


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    row = {"deal": DEAL, "dealer": "N", "vulnerability": "None", "auction": ["1N", "P", "P", "P"]}
    path = write(tmp_path / "b.parquet", [row])
    with pytest.raises(
        UserError, match=r"cannot read column 'auction' of .*b\.parquet: Unsupported cast from list"
    ):
        board_files.load(path)


def test_a_file_without_boards_is_refused_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "junk.parquet").write_text("junk")
    bare = tmp_path / "bare.parquet"
    pq.write_table(pa.table({"deal": [DEAL]}), bare)
    for name, message in (
        ("junk.parquet", "cannot read"),
        ("none.parquet", "no such file"),
        ("bare.parquet", "has no column 'dealer', but deal"),
        ("boards.csv", "boards are read from .parquet, .pbn, .lin, .tsv, .txt files"),
    ):
        with pytest.raises(UserError) as refusal:
            board_files.load(tmp_path / name)
        assert message in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_the_command_draws_its_statistics(file: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    def ask(*words: str):
        monkeypatch.setattr(
            sys, "argv", ["overtrick", "bridge", "boards", str(file), *words, "--json"]
        )
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, json.loads(capsys.readouterr().out.splitlines()[-1])

    code, counted = ask("--figure", str(tmp_path / "like.png"))
    assert (code, counted["rows"], counted["statistics"]["boards"]) == (0, 3, 3)
    assert set(counted["annotations"].values()) == {0}
    assert (tmp_path / "like.png").read_bytes().startswith(b"\x89PNG")
    code, counted = ask("--figure", str(tmp_path / "like.jpg"))
    assert code == 2
    assert "name a .png file in a folder that exists" in counted["error"]
