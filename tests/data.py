"""Recorded data that some tests compare with, where a machine has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("OVERTRICK_DATA", Path(__file__).parents[2] / "shared" / "data"))
BOARDS = DATA / "bridge" / "boards.parquet"
SOLVED = DATA / "bridge" / "dd_natural.parquet"


def needed(path: Path) -> Path:
    """The path, if it is there; else the test is skipped with a line that says what is missing."""
    if not path.exists():
        pytest.skip(f"no recorded data at {path}: set OVERTRICK_DATA")
    return path
