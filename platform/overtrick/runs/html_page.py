"""Write the HTML report of a run, and the description of the run in MLflow."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.core import UserError
from overtrick.core.files import read_text, write_text
from overtrick.games import registry
from overtrick.reports import tables
from overtrick.reports.html import elements, replays
from overtrick.reports.html.elements import PageSection
from overtrick.runs import mlflow_note
from overtrick.storage.game_records import Games
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.registry import JOBS

log = logging.getLogger(__name__)


def run_page(run: RunFolder, games: Games | None = None) -> str:
    """Return the HTML report of a run: table, figures, videos, learning curves and job.

    `games`: recorded games of the run's model; the report then also shows them.
    """
    job = job_file.load_stored(run, JOBS)
    lead = f"{job.trainer} on {job.game.name}, seed {job.seed}"
    images = sorted(run.figures.glob("*.png"))
    videos = sorted(run.videos.glob("*.mp4"), reverse=True)  # the newest first
    sections = [
        PageSection("Result", _result(run, job)),
        PageSection("Figures", [elements.picture(path, path.stem) for path in images]),
        PageSection("Videos", [elements.picture(path, path.stem) for path in videos]),
        PageSection("Learning curves", _curves(run.history())),
        *([] if games is None else [replays.games_section(games)]),
        PageSection("Job", [elements.folded("every key", read_text(run.job))]),
    ]
    return elements.page(run.name, lead, sections)


def _result(run: RunFolder, job: Job) -> list[str]:
    """Return the results table of a run as HTML, or a note that the run is not finished."""
    if not run.table.exists():
        return ["<p>This run is not finished.</p>"]
    unit = registry.payoff_unit(job.game.name, job.game.options)
    table = tables.evaluation(run.read_table(), unit)
    return [f'<p class="pale">{table.title}</p>{elements.table(*tables.cells(table))}']


def _curves(history: Sequence[tuple[int, dict[str, float]]]) -> list[str]:
    """Return HTML with the learning curve of every metric that changed during training.

    `history`: each iteration and its metrics.
    """
    curves: dict[str, list[tuple[int, float]]] = {}
    for iteration, metrics in history:
        for name, value in metrics.items():
            if math.isfinite(value):
                curves.setdefault(name, []).append((iteration, value))
    moving = {name: points for name, points in curves.items() if len({y for _, y in points}) > 1}
    drawn = [elements.curve(name, points) for name, points in sorted(moving.items())]
    return [f'<div class="curves">{"".join(drawn)}</div>'] if drawn else []


def update_description(run: RunFolder, tracker: Tracker, end: str = "") -> None:
    """Write the description of a run to MLflow. A failure is only logged.

    `end`: a sentence that says why the run failed or was stopped; otherwise empty.
    """
    try:
        tracker.note(mlflow_note.describe(run, end))
    except (UserError, OSError, ValueError) as error:
        log.warning("no note of the run: %s", error)


@contextmanager
def reporting_failure(
    run: RunFolder, tracker: Tracker, close: Callable[[str], object]
) -> Iterator[None]:
    """Context manager that reports an error inside the block to MLflow and then raises it again.

    `close`: called with MLflow's final status of the run: KILLED after an interrupt, FAILED after
    any other error.
    """
    try:
        yield
    except BaseException as error:
        killed = isinstance(error, (KeyboardInterrupt, SystemExit))  # Ray turns SIGTERM into these
        end = mlflow_note.stopped(run, tracker.reported) if killed else mlflow_note.failed(error)
        update_description(run, tracker, end)
        try:
            close("KILLED" if killed else "FAILED")
        except OSError as full:
            log.warning("%s", full)
        raise


def save_page(run: RunFolder, tracker: Tracker) -> None:
    """Write the HTML report to a run's folder and to MLflow. A failure is only logged."""
    try:
        write_text(run.page, run_page(run))
    except (UserError, OSError, ValueError) as error:
        log.warning("no page of the run: %s", error)
        return
    tracker.artifact(run.page)
