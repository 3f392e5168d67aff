"""Files that appear whole or not at all, and the folder of those that are made once and kept."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file


def cache_folder() -> Path:
    """Where they are kept: ~/.cache/overtrick, or where OVERTRICK_CACHE or XDG_CACHE_HOME say."""
    own, everyones = os.environ.get("OVERTRICK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else Path(everyones or Path.home() / ".cache") / "overtrick"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success rename it to `path`, else delete it.

    A reader sees the file of before or the complete new one. Several processes may write the same
    file at once; the last one wins. Raises OSError that names `path` if the disk refuses.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with naming_file_in_errors(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder; on success rename it to `path`, in place of an earlier one.

    The parent folder of `path` is made if it is missing. After an error `path` is as before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as beside:
        new = Path(beside) / "new"
        new.mkdir()
        yield new
        if path.exists():
            path.rename(Path(beside) / "old")
        new.rename(path)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file that appears complete or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def append_line(path: Path, line: str) -> None:
    """Add a line to a file that grows; if the disk is full, no part of it stays."""
    left = memoryview(line.encode() + b"\n")
    with naming_file_in_errors(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(before)
            raise


def read_complete_lines(path: Path, mend: bool = True) -> list[str]:
    """The lines of a file that grows, none if it is not there yet, without a last one that is cut
    in two. mend: that one is taken out of the file, so that the next is written on a line of its
    own; not where another process may be writing it."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if mend and whole != text:
        write_text(path, whole)
    return whole.splitlines()


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array in numpy's .npy format; the file appears complete or not at all."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)


def write_weights(path: Path, weights: Mapping[str, np.ndarray]) -> None:
    """Arrays by name as safetensors, where nobody looks before it is done."""
    with naming_file_in_errors(path):
        try:
            save_file(dict(weights), path)
        except SafetensorError as error:
            told = re.search(r"I/O error: (.*) \(os error (\d+)\)", str(error))
            if told is None:
                raise
            raise OSError(int(told[2]), told[1]) from None


@contextmanager
def naming_file_in_errors(path: Path) -> Iterator[None]:
    """What the disk refuses meanwhile, full or broken, is told with the name of the file: Python
    names only one that cannot be opened."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        why = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, f"cannot write {path}: {why}") from None
