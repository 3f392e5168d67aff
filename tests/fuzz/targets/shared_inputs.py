"""Valid inputs that several fuzz targets share."""

from __future__ import annotations

from pathlib import Path

from tests.bidding_files import RULES_OF_OLD_RUNS
from tests.fuzz import inputs
from tests.fuzz.inputs import Files

from overtrick.games.bridge.system import loader

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
    """Return the files of a stored model as model/...

    A bidding model gets the fingerprint of today's rules, so that it is not refused at once.
    """
    renewed = {
        old.encode(): loader.fingerprint(loader.load(system)).encode()
        for system, old in RULES_OF_OLD_RUNS.items()
    }
    found = {}
    for path, content in inputs.read_folder(RUNS / name / "model").items():
        found[f"model/{path}"] = content
        for old, new in renewed.items():
            found[f"model/{path}"] = found[f"model/{path}"].replace(old, new)
    return found
