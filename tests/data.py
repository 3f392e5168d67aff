"""Recorded data that some tests use, if the machine has it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("OVERTRICK_DATA", Path(__file__).parents[2] / "shared" / "data"))
BOARDS = DATA / "bridge" / "boards.parquet"
SOLVED = DATA / "bridge" / "dd_natural.parquet"


def needed(path: Path) -> Path:
    """Return the path if it exists; otherwise skip the test with a message that names it."""
    if not path.exists():
        pytest.skip(f"no recorded data at {path}: set OVERTRICK_DATA")
    return path
