"""Compare the results of every trainer before and after a change of the code.

`python -m tests.bench.same_results [--out FILE.json] [--compare FILE.json] [--only JOB]` runs the
small jobs of `small_jobs.py` and records for each the metrics of every iteration, the SHA-256 of
the weights, the rows of the results table and the names of the figures. With --compare it prints
every difference from an earlier file, and exits with 1 if one of them is not in `EXPECTED`.

This is a script beside the benches, not one of them: it has no `run() -> Result`, and `make bench`
leaves it out. Write the earlier file with the script of the earlier version, on the same machine.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.small_jobs import NEEDED, SMALL_JOBS, WITH_FILES, make_files

from overtrick import startup


class Expected(NamedTuple):
    """An expected difference of a change."""

    jobs: tuple[str, ...]
    where: str  # shell pattern of the path of a value, such as metrics/3/*
    added: bool  # expected only where there was no value before
    reason: str


EXPECTED: tuple[Expected, ...] = (
    Expected(
        ("exploit",), "rows/*", False,
        "the results table is computed with the evaluation generator, as `overtrick evaluate RUN` "
        "does",
    ),
    Expected(
        ("exploit",), "metrics/*/call/after_*", False,
        "so are the evaluations during training",
    ),
    Expected(
        ("solve",), "weights", False,
        "the model holds the strategies of all solvers, so that the whole table can be computed "
        "from it",
    ),
    Expected(
        ("bidder", "bidding", "bidding_imps", "selfplay_bidding"), "metrics/3/*", True,
        "the last iteration is measured by trainers bidder, bidding and selfplay_bidding, which "
        "measured it only if the schedule divided it",
    ),
)  # fmt: skip
"""Expected differences, each with its reason."""

MISSING = "(none)"


def main(arguments: list[str]) -> int:
    """Run the jobs, write and compare their results. Return 1 if they differ in an unexpected
    way."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.same_results")
    parser.add_argument("--out", type=Path, help="write the results to this file")
    parser.add_argument("--compare", type=Path, help="compare with the results in this file")
    parser.add_argument("--only", action="append", choices=SMALL_JOBS, help="run this job only")
    options = parser.parse_args(arguments)
    before = json.loads(options.compare.read_text()) if options.compare else {}
    out = options.out.absolute() if options.out else None
    now = results(options.only or list(SMALL_JOBS))
    if out:
        out.write_text(json.dumps(now, indent=1) + "\n")
    if not options.compare:
        return 0
    kept = {name: before[name] for name in now if name in before} if options.only else before
    return report(list(differences(kept, now)))


def results(names: list[str]) -> dict[str, Any]:
    """Run some of the jobs, and the jobs whose models they need; return results by name."""
    startup.prepare()  # before numpy and Ray
    wanted = {*names, *(other for name in names for other in NEEDED.get(name, ()))}
    ran = {}
    with tempfile.TemporaryDirectory(prefix="same-results-") as folder:
        here = Path.cwd()
        os.environ["OVERTRICK_RUNS"] = folder
        os.chdir(folder)
        try:
            if wanted & {*WITH_FILES}:
                timed("data", lambda: make_files(command))
            for name, content in SMALL_JOBS.items():
                if name in wanted:
                    ran[name] = timed(name, lambda c=content, n=name: one(c, Path(n)))
        finally:
            os.chdir(here)
    return {name: ran[name] for name in names}


def timed(name: str, work: Any) -> Any:
    """Do some work and print its time."""
    began = time.perf_counter()
    done = work()
    print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr)
    return done


def command(*words: str) -> None:
    """Run a command of the package in this process."""
    from overtrick import cli

    cli.app([*words], standalone_mode=False)


def one(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Train a job as a trial does, store its model as a run does, and return the results."""
    from overtrick.config import job_file
    from overtrick.distributed import workers
    from overtrick.storage import model_files
    from overtrick.training import registry

    job = job_file.parse(content, registry.JOBS, folder.name)
    spec = registry.TRAINERS[job.trainer]
    spec.validate(job)
    if job.trainer == "rllib":
        workers.start_ray([{"CPU": 1.0}])
    trainer = spec.trainer(job, workers.LocalPool())
    history = [(k + 1, trainer.step()) for k in range(job.stop.iterations)]
    state = checkpointed(trainer.state())
    trainer.close()
    last = spec.trainer(job, workers.LocalPool())
    last.load(state)
    kept = model_files.Model(last.model(), job.game.name, job.model_dump(mode="json"))
    model_files.save(kept, folder / "model")
    shown = last.report(history)
    last.close()
    weights = (folder / "model" / model_files.WEIGHTS).read_bytes()
    return {
        "metrics": {str(k): plain(metrics) for k, metrics in history},
        "weights": hashlib.sha256(weights).hexdigest(),
        "rows": plain(shown.rows),
        "figures": sorted(shown.figures),
    }


def checkpointed(state: dict[str, Any]) -> dict[str, Any]:
    """Write a state as a checkpoint and read it back."""
    import numpy as np
    from safetensors.numpy import load, save

    lying = {name: np.array(value, order="C") for name, value in state.items()}
    return dict(sorted(load(save(lying)).items()))


def plain(value: Any) -> Any:
    """Convert values to plain JSON values."""
    return json.loads(json.dumps(value))


def differences(
    before: dict[str, Any], now: dict[str, Any]
) -> Iterator[tuple[str, str, Any, Any, str]]:
    """List the job, the path, both values, and the reason if the difference is expected."""
    for job in sorted({*before, *now}):
        old = dict(flat(before.get(job, {})))
        new = dict(flat(now.get(job, {})))
        for where in sorted({*old, *new}):
            one, other = (json.dumps(each[where]) if where in each else None for each in (old, new))
            if one != other:
                yield job, where, one or MISSING, other or MISSING, expected(job, where, one)


def flat(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """List the single values of nested ones by their paths."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flat(each, f"{where}/{key}" if where else key)
    elif isinstance(value, list) and where == "figures":
        yield from ((f"{where}/{name}", True) for name in value)
    elif isinstance(value, list):
        yield f"{where}/length", len(value)
        for k, each in enumerate(value):
            yield from flat(each, f"{where}/{k}")
    else:
        yield where, value


def expected(job: str, where: str, before: str | None) -> str:
    """Return the reason why a value may differ, or None."""
    for each in EXPECTED:
        fits = job in each.jobs and fnmatch.fnmatchcase(where, each.where)
        if fits and (before is None or not each.added):
            return each.reason
    return ""


def report(unlike: list[tuple[str, str, Any, Any, str]]) -> int:
    """Print all differences. Return 1 if one of them is unexpected."""
    for job, where, before, now, reason in unlike:
        mark = f"expected: {reason}" if reason else "DIFFERENT"
        print(f"{job}  {where}: {before} -> {now}  [{mark}]")
    wrong = sum(not reason for *_, reason in unlike)
    print(f"{len(unlike)} differences, {wrong} of them unexpected")
    return 1 if wrong else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # RLlib's order of sets depends on it
        words = [sys.executable, "-m", "tests.bench.same_results", *sys.argv[1:]]
        os.execve(sys.executable, words, {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main(sys.argv[1:]))
