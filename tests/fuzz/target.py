"""Fuzz targets: valid inputs, and a function that feeds an input to the code behind a command."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from tests.fuzz import inputs, mutators
from tests.fuzz.inputs import Files

from overtrick.core import RunError, UserError
from overtrick.storage import parquet

Status = Literal["accepted", "refused", "finding"]
LARGEST = 250_000  # bytes of a file of an input
VARIABLES = ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "OVERTRICK_MACHINES", "OVERTRICK_PROVENANCE")
"""Environment variables that no target takes over from the caller."""


class Outcome(NamedTuple):
    """Result of one input: it was accepted, refused with a one-line error, or is a finding."""

    status: Status
    text: str = ""  # of a refusal: the error; of a finding: the exception and its last frame


@dataclass(frozen=True)
class Target:
    """A fuzz target: a name, valid inputs, and the function that feeds an input to the package."""

    name: str
    valid: Callable[[], list[Files]]
    """Return valid inputs; called once in each process."""
    feed: Callable[[Path], object]
    """Give an input, the files in the working folder, to the code behind a command."""
    weight: float = 1.0
    """Share of the inputs, relative to the other targets; small for a slow target."""
    kinds: Mapping[str, parquet.Kind] = field(default_factory=dict)
    """Kinds of this project's Parquet files; the keys are endings of file names."""


def make_input(target: Target, valid: list[Files], seed: int, number: int) -> Files:
    """Return input `number` of a target: a mutated valid input, the same for the same seed.

    Files are cut at LARGEST bytes: the time to read thousands of boards is no hang.
    """
    rng = Random(f"{seed} {target.name} {number}")
    files = mutators.mutate(rng, rng.choice(valid), dict(target.kinds))
    return {path: content[:LARGEST] for path, content in files.items()}


def valid_inputs(target: Target) -> list[Files]:
    """Return the valid inputs of a target; raise RuntimeError if it does not accept them all."""
    with working_folder():
        valid = target.valid()
    for number, files in enumerate(valid):
        outcome = feed(target, files)
        if outcome.status != "accepted":
            problem = f"{target.name} does not accept its valid input {number}: {outcome}"
            raise RuntimeError(problem)
    return valid


def feed(target: Target, files: Files) -> Outcome:
    """Feed one input to a target in an empty working folder and return the outcome."""
    with working_folder() as folder:
        inputs.write_folder(files, folder)
        try:
            target.feed(folder)
        except (UserError, RunError) as error:
            line = str(error)
            if len(line.splitlines()) == 1 and line.strip():
                return Outcome("refused", line)
            return Outcome("finding", f"a message of {len(line.splitlines())} lines: {line!r:.300}")
        except BaseException as error:  # everything else is what this program looks for
            if isinstance(error, KeyboardInterrupt):
                raise
            return Outcome("finding", describe(error))
    return Outcome("accepted")


def describe(error: BaseException) -> str:
    """Return an exception with the last frame inside the package, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "overtrick" in frame.filename] or frames
    last = ours[-1] if ours else None
    place = (
        f"{last.filename.rpartition('/overtrick/')[2]}:{last.lineno} {last.name}" if last else ""
    )
    return f"{type(error).__name__} at {place}: {' '.join(str(error).split())!s:.200}"


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """Context manager that makes an empty folder the working folder and the folder of runs."""
    before, environment = Path.cwd(), dict(os.environ)
    memory = Path("/dev/shm")  # much faster than a disk
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if memory.is_dir() else None))
    try:
        os.chdir(folder)
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ["OVERTRICK_RUNS"] = str(folder / "runs")
        yield folder
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)
        shutil.rmtree(folder, ignore_errors=True)
