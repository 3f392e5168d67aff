"""Print every setting of job files and of generated card abstractions, with its default and bounds.

After a wanted change: `python -m tests.flow.job_settings > tests/fixtures/job_settings.txt`.

`python -m tests.flow.job_settings jobs` prints a hash of the values of each packaged job, also
of those that it leaves to defaults; after a wanted change, write them to
tests/fixtures/job_hashes.txt. `python -m tests.flow.job_settings JOB` prints the values of one job,
to compare them with those of another version.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
import sys
from pathlib import Path
from typing import Any

from overtrick.comparison import (
    board_job,
    comparison_job,
    equilibrium_job,
    rps_board_job,
    table_kinds,
)
from overtrick.config import job_file
from overtrick.config.job_file import BaseJob
from overtrick.config.packaged_jobs import packaged_jobs
from overtrick.datasets.card_abstraction_build import AbstractionConfig
from overtrick.training.registry import JOBS

WORDS = ("title", "description")  # parts of a setting that change nothing


def settings() -> list[str]:
    """Return one line for each setting: its section and key, type, default and bounds."""
    found = set()
    for model in (*JOBS.values(), *table_kinds.TABLE_JOBS.values(), AbstractionConfig):
        schema = model.model_json_schema()
        for name, section in {model.__name__: schema, **schema.get("$defs", {})}.items():
            for key, setting in section.get("properties", {}).items():
                kept = {word: value for word, value in setting.items() if word not in WORDS}
                found.add(f"{name}.{key} {_portable(json.dumps(kept, sort_keys=True))}")
    return sorted(found)


def _portable(text: str) -> str:
    """Write the paths of a JSON text in the current folder as ./PATH."""
    return text.replace(f'"{Path.cwd()}/', '"./')


def job_values(name: str) -> str:
    """Return the values of a packaged job as JSON, but for the MLflow store and unused keys.

    The values of a comparison include those of the jobs that it trains.
    """
    trainer = job_file.read(name)["trainer"]
    if trainer == "equilibrium_table":
        jobs = equilibrium_job.training_jobs(equilibrium_job.load(name, []))
        return _portable(json.dumps([_values(job) for job in jobs], indent=1, sort_keys=True))
    if trainer == "rps_board":
        return _portable(
            json.dumps(_values(rps_board_job.load(name, [])), indent=1, sort_keys=True)
        )
    if trainer == "board":
        return _portable(json.dumps(_values(board_job.load(name, [])), indent=1, sort_keys=True))
    if trainer == "table":
        table = comparison_job.load(name, [])
        values = _values(table)
        for method, content in table.methods.items():
            if isinstance(content.training_job, dict):
                trained = job_file.parse(content.training_job, JOBS, name)
                values["methods"][method] = _values(trained)
    else:
        values = _values(job_file.load(name, [], JOBS))
    return _portable(json.dumps(values, indent=1, sort_keys=True))


def _values(job: BaseJob) -> dict[str, Any]:
    """Return the values of a job that have an effect, but for the MLflow store."""
    values = job.model_dump(mode="json")
    unused = {key for key, _ in job.keys_without_effect()}
    for key in sorted(unused, key=lambda key: -key.count(".")):  # a section after its keys
        *parents, leaf = key.split(".")
        del functools.reduce(operator.getitem, parents, values)[leaf]
    del values["track"]
    return values


def job_hashes() -> list[str]:
    """Return one line for each packaged job: its name, and a hash of all its values."""
    return [
        f"{name} {hashlib.sha256(job_values(name).encode()).hexdigest()[:16]}"
        for name in sorted(packaged_jobs())
    ]


if __name__ == "__main__":
    wanted = sys.argv[1] if sys.argv[1:] else ""
    if wanted in packaged_jobs():
        print(job_values(wanted))
    else:
        print("\n".join(job_hashes() if wanted == "jobs" else settings()))
