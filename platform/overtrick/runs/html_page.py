"""Write the HTML report of a run, and the description of the run in MLflow."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from markupsafe import Markup

from overtrick.config import job_file
from overtrick.config.job_file import Job
from overtrick.core import Policy, UserError
from overtrick.core.files import read_text, write_text
from overtrick.games import registry
from overtrick.reports import tables
from overtrick.reports.html import elements, replays
from overtrick.reports.html.elements import PageSection
from overtrick.reports.metric_names import opponent_label
from overtrick.runs import adaptation_examples, mlflow_note
from overtrick.runs.folder_kind import check_one_job
from overtrick.runs.next_commands import next_commands
from overtrick.storage import model_files
from overtrick.storage.game_records import Games
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.held_out_trainer import HeldOutTrainer
from overtrick.training.registry import JOBS, TRAINERS

log = logging.getLogger(__name__)


def run_page(run: RunFolder, games: Games | None = None, policies: Sequence[Policy] = ()) -> str:
    """Return the HTML report of a run: table, figures, videos, learning curves and job.

    `games`: recorded games of the run's model; the report then also shows them. `policies`: the
    players' policies, in the order of `Games.players`; at each decision of a policy without memory
    the report shows its action probabilities.
    """
    check_one_job(run)
    job = job_file.load_stored(run, JOBS)
    lead = f"{job.trainer} on {job.game.name}, seed {job.seed}"
    images = sorted(run.figures.glob("*.png"))
    videos = sorted(run.videos.glob("*.mp4"), reverse=True)  # the newest first
    finished = run.table.exists() and model_files.is_model(run.model)
    sections = [
        PageSection("Result", _result(run, job)),
        *(_model_sections(run, job) if finished else []),
        PageSection("Figures", [elements.picture(path, path.stem) for path in images]),
        PageSection("Videos", [elements.picture(path, path.stem) for path in videos]),
        PageSection("Learning curves", _curves(run.history())),
        *([] if games is None else [replays.games_section(games, policies)]),
        PageSection("Job", [elements.folded("every key", read_text(run.job))]),
    ]
    return elements.page(run.name, lead, sections)


def _result(run: RunFolder, job: Job) -> list[Markup]:
    """Return the results table of a run as HTML, or a note that the run is not finished.

    A chart shows the payoffs before and after adaptation, if the model adapts.
    """
    if not run.table.exists():
        return [elements.paragraph("This run is not finished.")]
    unit = registry.payoff_unit(job.game.name, job.game.options)
    rows = run.read_table()
    table = tables.evaluation(rows, unit)
    title = [elements.paragraph(str(table.title))] if table.title else []
    shown = [*title, elements.table(*tables.cells(table))]
    adapted = [row for row in rows if len(row.get("steps", ())) > 1]
    if not adapted:
        return shown
    groups, best = {}, {}
    for row in adapted:
        name = opponent_label(row["stranger"])
        groups[name] = {"before": row["steps"][0], "after": row["steps"][-1]}
        if row["best_response"] is not None:
            best[name] = row["best_response"]
    note = "Payoff before and after adaptation; the line across the bars is a best response's. "
    trainer: Any = TRAINERS[job.trainer].trainer
    if issubclass(trainer, HeldOutTrainer):
        note += trainer.adaptation_note(job)
    return [elements.paragraph(note), elements.bar_chart(groups, best, unit), *shown]


def _model_sections(run: RunFolder, job: Job) -> list[PageSection]:
    """Return the sections about the model of a finished run: example games and next commands.

    If the model is damaged or no longer fits its game, one section says so.
    """
    try:
        weights = model_files.load(run.model, job.game.name).weights
        examples = adaptation_examples.examples_section(job, weights)
        commands = next_commands(run, job)
    except UserError as error:
        return [PageSection("Model", [elements.text(str(error))])]
    rows = [(f"overtrick {command}", purpose) for command, purpose in commands]
    commands_section = PageSection("Next commands", [elements.table(("command", "purpose"), rows)])
    return [*([] if examples is None else [examples]), commands_section]


def _curves(history: Sequence[tuple[int, dict[str, float]]]) -> list[Markup]:
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
    return [Markup('<div class="curves">{}</div>').format(Markup("").join(drawn))] if drawn else []


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
