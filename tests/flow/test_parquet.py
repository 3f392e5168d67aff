"""Files say what they are: what is kept comes back, and nothing else is taken for it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from overtrick.core import UserError
from overtrick.storage import parquet

BOARDS = parquet.Kind("boards", 3, "deal them with `overtrick generate boards`")
MADE_WITH = {"boards": 40, "seed": 7, "sizes": (2, 3), "name": "a"}


def columns(rng, rows=40):
    """One column of every sort."""
    return {
        "tricks": rng.integers(14, size=rows).astype(np.uint8),
        "cards": rng.integers(52, size=(rows, 4, 13)).astype(np.int16),
        "score": rng.normal(size=rows),
        "table": rng.normal(size=(rows, 2, 3, 2)),
        "vulnerable": rng.random((rows, 2)) < 0.5,
        "number": rng.integers(2**60, size=rows),
    }


@pytest.fixture
def kept(tmp_path, rng):
    """The path of a file of boards."""
    path = tmp_path / "boards.parquet"
    parquet.save(path, BOARDS, MADE_WITH, columns(rng))
    return path


def assert_refused(path, kind=BOARDS, parameters=None, *words):
    """Refused in one line, which names the file, says these words, and what to do."""
    with pytest.raises(UserError) as refusal:
        parquet.load(path, kind, parameters)
    line = str(refusal.value)
    assert "\n" not in line
    assert all(word in line for word in (str(path), kind.remedy, *words)), line


@pytest.mark.parametrize("rows", [0, 1, 40, 5000])
def test_what_is_kept_comes_back(tmp_path, rng, rows):
    path, kept = tmp_path / "boards.parquet", columns(rng, rows)
    parquet.save(path, BOARDS, MADE_WITH, kept)
    stored = parquet.load(path, BOARDS, MADE_WITH)
    assert stored.parameters == {**MADE_WITH, "sizes": [2, 3]}  # JSON knows no tuples
    assert stored.columns.keys() == kept.keys()
    for name, column in kept.items():
        assert stored.columns[name].dtype == column.dtype, name
        np.testing.assert_array_equal(stored.columns[name], column, err_msg=name)


def test_other_programs_can_read_it(kept):
    table = pq.read_table(kept)
    assert table.column_names == ["tricks", "cards", "score", "table", "vulnerable", "number"]
    assert len(table) == 40


def test_transposed_arrays_are_kept_as_they_are_read(tmp_path):
    table = np.arange(6.0).reshape(2, 3).T
    parquet.save(tmp_path / "t", BOARDS, {}, {"table": table})
    np.testing.assert_array_equal(parquet.load(tmp_path / "t", BOARDS).columns["table"], table)


def test_a_save_that_fails_leaves_the_old_file_and_nothing_beside(kept, rng):
    with pytest.raises(ValueError, match="length"):
        parquet.save(kept, BOARDS, {}, {"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(TypeError):
        parquet.save(kept, BOARDS, {"a": object()}, {})
    assert parquet.load(kept, BOARDS, MADE_WITH).columns["tricks"].shape == (40,)
    assert list(kept.parent.iterdir()) == [kept]


def test_a_missing_file_is_refused(tmp_path):
    assert_refused(tmp_path / "none.parquet", BOARDS, None, "no boards at")
    assert_refused(tmp_path, BOARDS, None, "no boards at")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(kept, share):
    whole = kept.read_bytes()
    kept.write_bytes(whole[: int(share * len(whole))])
    assert_refused(kept, BOARDS, None, "is damaged")


def test_a_changed_byte_is_never_taken_for_what_was_kept(kept, rng):
    whole, before = kept.read_bytes(), parquet.load(kept, BOARDS).columns
    for place in rng.integers(len(whole), size=200):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        kept.write_bytes(bytes(changed))
        try:
            after = parquet.load(kept, BOARDS).columns
        except UserError:
            continue
        for name, column in before.items():  # a byte that means nothing to us
            np.testing.assert_array_equal(after[name], column)


def test_what_is_no_file_of_ours_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text("rows of text\n" * 100)
    assert_refused(path, BOARDS, None, "is damaged")
    pq.write_table(pa.table({"a": [1, 2]}), path)
    assert_refused(path, BOARDS, None, "data of another program")


def test_another_kind_is_refused(kept):
    assert_refused(kept, dataclasses.replace(BOARDS, name="hands"), None, "'boards', not 'hands'")


def test_another_version_is_refused(kept, monkeypatch):
    newer = dataclasses.replace(BOARDS, version=4)
    assert_refused(kept, newer, None, "has version 3, not 4")
    monkeypatch.setattr(parquet, "FORMAT", 2)
    assert_refused(kept, BOARDS, None, "has format 1, not 2")


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
def test_other_parameters_are_refused_by_the_first_that_differs(kept, wanted, words):
    assert_refused(kept, BOARDS, wanted, words)


def test_text_and_gaps_come_back(tmp_path):
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
    assert table.column("tricks").to_pylist() == [9, None, 13]  # for anyone who reads Parquet
    assert pa.types.is_string(table.schema.field("deal").type)
    changed = table.set_column(0, "deal", pa.array(["N:AK", "E:u", ""]))
    pq.write_table(changed, path)
    with pytest.raises(UserError, match="its digest differs"):
        parquet.load(path, BOARDS, {})


def test_any_file_is_read_bit_by_bit(tmp_path, monkeypatch):
    path = tmp_path / "any.parquet"
    pq.write_table(pa.table({"a": list(range(5)), "b": list("uvwxy"), "c": [None] * 5}), path)
    monkeypatch.setattr(parquet, "ROWS", 2)
    parts = list(parquet.batches(path, ["b"], ["a", "z"]))
    assert parts[0] == {"b": ["u", "v"], "a": [0, 1]}
    assert [len(part["a"]) for part in parts] == [2, 2, 1]
    with pytest.raises(UserError, match=r"any\.parquet has no column 'z', but a, b, c"):
        list(parquet.batches(path, ["z"], []))
