"""Files and folders that appear whole, and files of lines."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overtrick.core import files


def test_threads_that_write_one_file_at_once_leave_the_text_of_the_last(tmp_path: Path) -> None:
    file, both_write = tmp_path / "file", threading.Barrier(2)

    def write(text: str) -> None:
        with files.replacing(file) as temporary:
            temporary.write_text(text)
            both_write.wait(10)
            assert temporary.read_text() == text

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ["a" * 1000, "b" * 1000]))
    assert set(file.read_text()) in ({"a"}, {"b"})
    assert list(tmp_path.iterdir()) == [file]


def test_a_replaced_file_has_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    files.write_text(tmp_path / "replaced", "")
    assert (tmp_path / "replaced").stat().st_mode == (tmp_path / "plain").stat().st_mode


def fill(folder: Path, text: str) -> None:
    with files.replacing_folder(folder) as new:
        (new / "file").write_text(text)


def test_a_folder_is_there_after_each_step_of_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename, there = tmp_path / "folder", Path.rename, []

    def step(path: Path, target: Path) -> None:
        try:
            rename(path, target)
        finally:
            there.append((folder / "file").exists())

    fill(folder, "old")
    monkeypatch.setattr(Path, "rename", step)
    fill(folder, "new")
    assert there
    assert all(there)


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_replaces_a_file_or_folder_or_link(
    exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:  # as on a network file system
        monkeypatch.setattr(files, "RENAME_EXCHANGE", 0xFF)
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").touch()
    places = [tmp_path / name for name in ("file", "folder", "link")]
    places[0].touch()
    fill(places[1], "old")
    places[2].symlink_to(target)
    for place in places:
        fill(place, "new")
        assert not place.is_symlink()
        assert [file.name for file in place.iterdir()] == ["file"]
        assert (place / "file").read_text() == "new"
    assert [file.name for file in target.iterdir()] == ["kept"]
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder", "link", "target"}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<u2", ">i4", "<f8"])
@pytest.mark.parametrize("shape", [(), (0,), (6,), (2, 3)])
def test_arrays_come_back(tmp_path: Path, shape: tuple[int, ...], dtype: str, order: Any) -> None:
    array = np.zeros(shape, dtype, order)
    array.flat = range(array.size)
    files.write_array(tmp_path / "a.npy", array)
    found = files.read_array(tmp_path / "a.npy")
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert not found.flags.writeable


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b"what is this"),
        (b"(6,)", b"(6,"),  # numpy's reader raises tokenize.TokenError
        (b"(6,)", b"(7,)"),
        (b"<i8", b"|O8"),
        (b"'shape'", b"'shapx'"),
    ],
)
def test_a_damaged_array_is_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = tmp_path / "a.npy"
    files.write_array(path, np.arange(6))
    path.write_bytes(path.read_bytes().replace(old, new, 1) if old else new)
    with pytest.raises(ValueError, match="it is not a file of numbers"):
        files.read_array(path)


def test_lines_end_only_at_line_breaks(tmp_path: Path) -> None:
    lines = ["one\u2028line", "another\x85\x0b\x0c\x1cline", "carriage\rreturn", ""]
    for line in lines:
        files.append_line(tmp_path / "lines", line)
    assert [line.decode() for line in files.read_complete_lines(tmp_path / "lines")] == lines


def test_an_incomplete_last_line_is_removed_even_within_a_character(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes("whole\nhalf of Ä".encode()[:-1])
    assert files.read_complete_lines(file, repair=False) == [b"whole"]
    assert file.read_bytes().endswith(b"\xc3")
    assert files.read_complete_lines(file) == [b"whole"]
    assert file.read_bytes() == b"whole\n"
