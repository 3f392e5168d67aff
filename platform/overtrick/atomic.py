"""Files that appear whole or not at all, and the folder of those that are made once and kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def cache_folder() -> Path:
    """Where they are kept: ~/.cache/overtrick, or where OVERTRICK_CACHE or XDG_CACHE_HOME say."""
    own, everyones = os.environ.get("OVERTRICK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else Path(everyones or Path.home() / ".cache") / "overtrick"


def write_text(path: Path, text: str) -> None:
    """Write beside, then rename: a reader never sees half a file, nor does a kill leave one."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def whole_lines(path: Path, mend: bool = True) -> list[str]:
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
    """The same for an array in numpy's format; many processes may do it at once."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            np.save(file, array)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
