"""Atomic writing of files and folders, append-only text files, and the cache folder."""

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
    """Return the folder for files that are computed once and reused by later processes.

    It is the environment variable OVERTRICK_CACHE, else overtrick/ in XDG_CACHE_HOME, else
    ~/.cache/overtrick.
    """
    own, shared = os.environ.get("OVERTRICK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else Path(shared or Path.home() / ".cache") / "overtrick"


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
    """Append a line to a text file, in full or not at all (if the disk is full).

    Raises OSError that names the file.
    """
    left = memoryview(line.encode() + b"\n")
    with naming_file_in_errors(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(before)
            raise


def read_complete_lines(path: Path, repair: bool = True) -> list[str]:
    """Read the lines of an append-only text file, without a last line that has no line break.

    Returns no lines if the file does not exist. `repair`: also remove the incomplete last line from
    the file, so that the next line is appended correctly; False if another process may be writing.
    """
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    if repair and complete != text:
        write_text(path, complete)
    return complete.splitlines()


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array in numpy's .npy format; the file appears complete or not at all."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)


def write_weights(path: Path, weights: Mapping[str, np.ndarray]) -> None:
    """Write named arrays as a safetensors file.

    The write is not atomic: an interruption leaves an incomplete file. Raises OSError that names
    the file.
    """
    with naming_file_in_errors(path):
        try:
            save_file(dict(weights), path)
        except SafetensorError as error:
            found = re.search(r"I/O error: (.*) \(os error (\d+)\)", str(error))
            if found is None:
                raise
            raise OSError(int(found[2]), found[1]) from None


@contextmanager
def naming_file_in_errors(path: Path) -> Iterator[None]:
    """Add the file's path to any OSError raised inside the `with` block.

    Python names the file only when it cannot be opened, not when the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, f"cannot write {path}: {reason}") from None
