"""Test that damaged inputs are read, or refused with a one-line error.

A short fuzz run feeds new inputs; the folder `cases` holds inputs that once caused a finding.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random

import pytest
from tests.fuzz import inputs, mutators, shrink, target
from tests.fuzz.target import Target
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
    name, files, expected = inputs.load(file)
    outcome = target.feed(TARGETS[name], files)
    assert outcome.status == expected, outcome.text


def test_the_valid_names_of_models_and_runs_are_accepted() -> None:
    target.valid_inputs(TARGETS["names"])


@pytest.mark.parametrize("name", ["job file", "run evaluated", "AgentZoo", "boards in Parquet",
                                  "recorded games", "run tracked again"])  # fmt: skip
def test_intact_files_are_nearly_always_mutated_by_their_format(name: str) -> None:
    chosen, rng, ways = TARGETS[name], Random(0), list[bool]()
    with target.working_folder():
        valid = chosen.valid()
    for _ in range(40):
        path, content = rng.choice(sorted(rng.choice(valid).items()))
        kind = next((kind for end, kind in chosen.kinds.items() if path.endswith(end)), None)
        try:
            mutators.mutate_by_format(rng, path, content, kind)
            ways.append(True)
        except Exception:  # the changed arrays cannot be written
            ways.append(False)
    assert sum(ways) >= 30


def test_an_input_shrinks_to_the_part_that_breaks_something() -> None:
    def broken(folder: Path) -> None:
        content = (folder / "a").read_bytes() if (folder / "a").exists() else b""
        if b"x" in content:
            raise KeyError("x")
        if b"y" in content:
            os.kill(os.getpid(), signal.SIGKILL)

    files = {"a": b".x", "b": b"."}
    chosen = Target("toy", lambda: [files], broken)
    assert shrink.smaller(chosen, files) == {"a": b"x"}
    assert shrink.finding(chosen, {"a": b"y"}) == "the process died (-9)"
    with pytest.raises(ValueError, match="'toy' reads or refuses this input"):
        shrink.smaller(chosen, {"a": b"."})
