"""Parquet files state their kind: stored columns come back unchanged, and other files are
refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import overtrick
from overtrick.core import UserError
from overtrick.policies.rollout import play
from overtrick.policies.uniform import UniformPolicy
from overtrick.storage import game_records, parquet

BOARDS = parquet.Kind("boards", 3, "deal them with `overtrick generate boards`")
MADE_WITH = {"boards": 40, "seed": 7, "sizes": (2, 3), "name": "a"}


def columns(rng, rows=40):
    """Return one column of every type."""
    return {
        "tricks": rng.integers(14, size=rows).astype(np.uint8),
        "cards": rng.integers(52, size=(rows, 4, 13)).astype(np.int16),
        "score": rng.normal(size=rows),
        "table": rng.normal(size=(rows, 2, 3, 2)),
        "vulnerable": rng.random((rows, 2)) < 0.5,
        "number": rng.integers(2**60, size=rows),
    }


@pytest.fixture
def boards_file(tmp_path, rng):
    """Return the path of a file of boards."""
    path = tmp_path / "boards.parquet"
    parquet.save(path, BOARDS, MADE_WITH, columns(rng))
    return path


def assert_refused(path, kind=BOARDS, parameters=None, *words):
    """Assert that a file is refused with one line with the file's name, these words and the
    remedy."""
    with pytest.raises(UserError) as refusal:
        parquet.load(path, kind, parameters)
    line = str(refusal.value)
    assert "\n" not in line
    assert all(word in line for word in (str(path), kind.remedy, *words)), line


@pytest.mark.parametrize("rows", [0, 1, 40, 5000])
def test_stored_columns_come_back(tmp_path, rng, rows):
    path, file = tmp_path / "boards.parquet", columns(rng, rows)
    parquet.save(path, BOARDS, MADE_WITH, file)
    stored = parquet.load(path, BOARDS, MADE_WITH)
    assert stored.parameters == {**MADE_WITH, "sizes": [2, 3]}  # JSON has no tuples
    assert stored.columns.keys() == file.keys()
    for name, column in file.items():
        assert stored.columns[name].dtype == column.dtype, name
        np.testing.assert_array_equal(stored.columns[name], column, err_msg=name)


def test_other_programs_can_read_it(boards_file):
    table = pq.read_table(boards_file)
    assert table.column_names == ["tricks", "cards", "score", "table", "vulnerable", "number"]
    assert len(table) == 40


def test_transposed_arrays_are_stored_in_logical_order(tmp_path):
    table = np.arange(6.0).reshape(2, 3).T
    parquet.save(tmp_path / "t", BOARDS, {}, {"table": table})
    np.testing.assert_array_equal(parquet.load(tmp_path / "t", BOARDS).columns["table"], table)


def test_a_failed_save_leaves_the_old_file_and_no_other(boards_file, rng):
    with pytest.raises(ValueError, match="length"):
        parquet.save(boards_file, BOARDS, {}, {"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(TypeError):
        parquet.save(boards_file, BOARDS, {"a": object()}, {})
    assert parquet.load(boards_file, BOARDS, MADE_WITH).columns["tricks"].shape == (40,)
    assert list(boards_file.parent.iterdir()) == [boards_file]


def test_a_missing_file_is_refused(tmp_path):
    assert_refused(tmp_path / "none.parquet", BOARDS, None, "no boards at")
    assert_refused(tmp_path, BOARDS, None, "no boards at")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(boards_file, share):
    whole = boards_file.read_bytes()
    boards_file.write_bytes(whole[: int(share * len(whole))])
    assert_refused(boards_file, BOARDS, None, "is damaged")


def test_a_changed_byte_is_detected(boards_file, rng):
    whole, before = boards_file.read_bytes(), parquet.load(boards_file, BOARDS).columns
    for place in rng.integers(len(whole), size=200):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        boards_file.write_bytes(bytes(changed))
        try:
            after = parquet.load(boards_file, BOARDS).columns
        except UserError:
            continue
        for name, column in before.items():  # a byte without effect on our data
            np.testing.assert_array_equal(after[name], column)


def test_files_of_other_programs_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text("rows of text\n" * 100)
    assert_refused(path, BOARDS, None, "is damaged")
    pq.write_table(pa.table({"a": [1, 2]}), path)
    assert_refused(path, BOARDS, None, "data of another program")


def test_another_kind_is_refused(boards_file):
    assert_refused(
        boards_file, dataclasses.replace(BOARDS, name="hands"), None, "'boards', not 'hands'"
    )


def test_another_version_is_refused(boards_file, monkeypatch):
    newer = dataclasses.replace(BOARDS, version=4)
    assert_refused(boards_file, newer, None, "has version 3, not 4")
    monkeypatch.setattr(parquet, "FORMAT", 2)
    assert_refused(boards_file, BOARDS, None, "has format 1, not 2")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({**MADE_WITH, "seed": 8}, "with seed 7, not with seed 8"),
        ({**MADE_WITH, "name": "b", "seed": 8}, "with seed 7, not with seed 8"),
        ({**MADE_WITH, "sizes": (2, 4)}, "with sizes [2, 3], not with sizes [2, 4]"),
        ({**MADE_WITH, "rotate": None}, "with no rotate, not with rotate None"),
        ({"boards": 40, "seed": 7}, "with sizes [2, 3], not with no sizes"),
    ],
)
def test_other_parameters_are_refused_with_the_first_difference(boards_file, wanted, words):
    assert_refused(boards_file, BOARDS, wanted, words)


def test_text_and_missing_values_come_back(tmp_path):
    path = tmp_path / "boards.parquet"
    given = {
        "deal": np.array(["N:AK", "E:ü", ""], object),
        "tricks": np.array([9, None, 13], object),
        "score": np.array([1, 2, 3]),
    }
    parquet.save(path, BOARDS, {}, given)
    back = parquet.load(path, BOARDS, {}).columns
    for name, column in given.items():
        assert back[name].tolist() == column.tolist()
    table = pq.read_table(path)
    assert table.column("tricks").to_pylist() == [9, None, 13]  # for other readers of Parquet
    assert pa.types.is_string(table.schema.field("deal").type)
    changed = table.set_column(0, "deal", pa.array(["N:AK", "E:u", ""]))
    pq.write_table(changed, path)
    with pytest.raises(UserError, match="its digest differs"):
        parquet.load(path, BOARDS, {})


def test_any_file_is_read_in_parts(tmp_path, monkeypatch):
    path = tmp_path / "any.parquet"
    pq.write_table(pa.table({"a": list(range(5)), "b": list("uvwxy"), "c": [None] * 5}), path)
    monkeypatch.setattr(parquet, "ROWS", 2)
    parts = list(parquet.batches(path, {"b": str}, {"a": int, "z": int}))
    assert parts[0] == {"b": ["u", "v"], "a": [0, 1]}
    assert [len(part["a"]) for part in parts] == [2, 2, 1]
    with pytest.raises(UserError, match=r"any\.parquet has no column 'z', but a, b, c"):
        list(parquet.batches(path, {"z": str}, {}))


def test_damage_before_the_first_row_is_not_blamed_on_a_column(tmp_path):
    path = tmp_path / "any.parquet"
    pq.write_table(pa.table({"a": list(range(9)), "b": ["x"] * 9}), path, compression="none")
    start = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"cannot read {path}: "):
        list(parquet.batches(path, {"a": int}, {"b": str}))


def test_recorded_games_come_back_with_their_moves_and_payoffs(tmp_path, rng):
    """Games of different length, whose points are gained at different steps."""
    recorder = game_records.Recorder(overtrick.make("leduc"))
    batch = play(recorder, [UniformPolicy()] * 2, 20, rng)
    kept = game_records.Games(
        "leduc", {}, ("a", "b"), recorder.deals, recorder.moves, np.tile([0, 1], (20, 1)),
        recorder.payoff,
    )  # fmt: skip
    game_records.save(tmp_path / "games.parquet", kept)
    found = game_records.load(tmp_path / "games.parquet")
    assert np.array_equal(found.payoff, batch.payoff)
    assert np.array_equal(found.deals, kept.deals)
    made = [[] for _ in range(20)]
    order = np.lexsort((batch.batch.observation[:, -1], batch.batch.game))
    for game, seat, action in zip(
        *(column[order] for column in (batch.batch.game, batch.batch.seat, batch.batch.action)),
        strict=True,
    ):
        made[game].append((seat, action))
    assert found.moves == made
    assert len({len(moves) for moves in made}) > 1
