"""What a run is and came to, in a few lines of Markdown: the note on its page in MLflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overtrick.core import RunError, UserError
from overtrick.games import registry
from overtrick.reports import tables

MOST = 6000  # characters of a table, or of an error: MLflow takes 8000 in all
REST = "\n\nThe rest is among the artifacts."
TABLE, WHOLE = "table.json", "table.md"  # what a run came to, and what a table of runs did


def of(folder: Path, end: str = "") -> str:
    """The note of a run, of a sweep or of a table as it now lies on disk; end: how it ended, if it
    came to nothing."""
    job = json.loads((folder / "job.json").read_text())
    if end:
        came = _cut(end)
    elif (folder / WHOLE).exists():
        came = _cut((folder / WHOLE).read_text(), REST)
    elif (folder / TABLE).exists():
        came = _table(job, json.loads((folder / TABLE).read_text()))
    else:
        came = "It goes on; what it comes to will stand here."
    return f"{_lead(job)}\n\n{came}"


def failed(error: BaseException) -> str:
    """How a run ended that an error stopped."""
    ours = isinstance(error, (RunError, UserError))
    return f"It failed: {error if ours else f'{type(error).__name__}: {error}'}"


def stopped(whole: Path, iteration: int) -> str:
    """How a run ended that can go on, with the whole that it may be a part of."""
    return f"It was stopped after iteration {iteration}; `overtrick resume {whole.name}` goes on."


def _lead(job: Mapping[str, Any]) -> str:
    """What was to be done."""
    options = ", ".join(f"{key} {value}" for key, value in job["game"]["options"].items())
    game = f"**{job['game']['name']}**" + (f" ({options})" if options else "")
    words = [f"**{job['trainer']}** on {game}"]
    words += [f"seed {job['seed']}"] if "seed" in job else []
    words += [f"{job['stop']['iterations']} iterations"] if "stop" in job else []
    return f"{', '.join(words)}."


def _table(job: Mapping[str, Any], rows: list[dict[str, Any]]) -> str:
    """The rows of a run, or those of a sweep with a trial each, and what they are counted in."""
    if not rows:
        return "It is done."
    if "trial" in rows[0]:
        shown = [{key: row[key] for key in row if key != "schedule"} for row in rows]
        table = tables.plain(shown, "score: larger is better")
    else:
        game = registry.make(job["game"]["name"], **job["game"]["options"])
        table = tables.evaluation(rows, registry.evaluation_game(game).unit)
    names, cells = tables.cells(table)
    lines = [names, ["---"] * len(names), *cells]
    text = "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)
    return f"{_cut(text, REST)}\n\n{table.title}"


def _escaped(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())


def _cut(text: str, rest: str = " ...") -> str:
    """As many whole lines as MLflow has room for, or as much of one, and where the rest is."""
    if len(text) <= MOST:
        return text
    head = text[:MOST]
    return (head.rpartition("\n")[0] or head) + rest
