"""Write the description on a run's page in MLflow: job, state and table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overtrick.core import RunError, UserError
from overtrick.core.files import read_text
from overtrick.games import registry
from overtrick.reports import tables
from overtrick.storage.run_folder import RunFolder

MOST = 6000  # characters of a table or of an error message: MLflow takes 8000 for a description
REST = "\n\nThe rest is among the artifacts."


def describe(run: RunFolder, end: str = "") -> str:
    """Return the description of a run, sweep or comparison, from the files in its folder.

    `end`: a sentence that says why the run failed or was stopped, shown instead of the results;
    otherwise empty.
    """
    job = run.read_job()
    if end:
        result = _cut(end)
    elif run.markdown_table.exists():
        result = _cut(read_text(run.markdown_table), REST)
    elif run.table.exists():
        result = _table(job, run.read_table())
    else:
        result = "It is running; its results will appear here."
    return f"{_lead(job)}\n\n{result}"


def failed(error: BaseException) -> str:
    """Return a sentence that says that a run failed, with the error's message."""
    expected = isinstance(error, (RunError, UserError))
    return f"It failed: {error if expected else f'{type(error).__name__}: {error}'}"


def stopped(run: RunFolder, iteration: int) -> str:
    """Return a sentence with the iteration at which a run was stopped and the resume command.

    `run`: the run to resume; for a child run, the sweep or comparison that it belongs to.
    """
    resume = f"`overtrick resume {run.name}` continues it"
    return f"It was stopped after iteration {iteration}; {resume}."


def _lead(job: Mapping[str, Any]) -> str:
    """Return the first line of the description: trainer, games, seed and number of iterations.

    `job`: plain data of the job.
    """
    games = [each["game"] for each in job["games"].values()] if "games" in job else [job["game"]]
    words = [f"**{job['trainer']}** on {', '.join(map(_game, games))}"]
    words += [f"seed {job['seed']}"] if "seed" in job else []
    words += [f"{job['stop']['iterations']} iterations"] if "stop" in job else []
    return f"{', '.join(words)}."


def _game(game: Mapping[str, Any]) -> str:
    """Return the name of a game in bold type, with its options."""
    options = ", ".join(f"{key} {value}" for key, value in game["options"].items())
    return f"**{game['name']}**" + (f" ({options})" if options else "")


def _table(job: Mapping[str, Any], rows: list[dict[str, Any]]) -> str:
    """Return the results table as Markdown, followed by its title, if it has one.

    `job`: plain data of the job. `rows`: the rows of the table; for a sweep, one for each trial.
    """
    if not rows:
        return "It is done."
    table = tables.evaluation(rows, registry.payoff_unit(**job["game"]))
    shown = _cut(tables.markdown(*tables.cells(table)), REST)
    return f"{shown}\n\n{table.title}" if table.title else shown


def _cut(text: str, rest: str = " ...") -> str:
    """Shorten a text to the length that MLflow accepts, at the end of a line if possible.

    `rest`: appended to a text that was shortened.
    """
    if len(text) <= MOST:
        return text
    head = text[:MOST]
    return (head.rpartition("\n")[0] or head) + rest
