"""Test that damaged inputs are read, or refused with a one-line error.

A short fuzz run feeds new inputs; the folder `cases` holds inputs that once caused a finding.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz import inputs, target
from tests.fuzz.targets import TARGETS

SEED, INPUTS = 1, 300
CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
WEIGHTS = sum(each.weight for each in TARGETS.values())


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_read_or_refused_in_one_line(name: str) -> None:
    chosen = TARGETS[name]
    with target.working_folder():
        valid = chosen.valid()
    for number in range(round(INPUTS * chosen.weight / WEIGHTS) or 1):
        files = target.make_input(chosen, valid, SEED, number)
        outcome = target.feed(chosen, files)
        assert outcome.status != "finding", f"input {number}: {outcome.text}"


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_an_input_that_broke_something_is_read_or_refused_in_one_line(file: Path) -> None:
    name, files = inputs.load(file)
    assert target.feed(TARGETS[name], files).status != "finding"


def test_the_valid_names_of_models_and_runs_are_accepted() -> None:
    target.valid_inputs(TARGETS["names"])
