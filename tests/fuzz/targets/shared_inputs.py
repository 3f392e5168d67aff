"""Valid inputs that several fuzz targets share."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz import inputs
from tests.fuzz.inputs import Files

TESTS = Path(__file__).parents[2]
JOBS = TESTS.parent / "jobs"
STORED = TESTS / "fuzz" / "valid"  # files that take seconds to make
RUNS = TESTS / "fixtures" / "runs_before_house"


def run_folder(name: str) -> Files:
    """Return the files of a stored run as runs/NAME/..."""
    return {
        f"runs/{name}/{path}": content for path, content in inputs.read_folder(RUNS / name).items()
    }


def model_folder(name: str) -> Files:
    """Return the files of a stored model as model/..."""
    return {
        f"model/{path}": content
        for path, content in inputs.read_folder(RUNS / name / "model").items()
    }
