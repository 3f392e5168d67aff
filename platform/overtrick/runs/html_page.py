"""Write HTML reports of a run, recorded games, bridge boards or a video; they need no server."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from overtrick.config import job_file
from overtrick.core import UserError
from overtrick.core.files import write_text
from overtrick.datasets import board_files
from overtrick.games import registry
from overtrick.games.bridge.system.loader import load
from overtrick.reports import tables
from overtrick.reports.html import bridge_boards, elements, replays
from overtrick.reports.html.elements import PageSection
from overtrick.runs import mlflow_note
from overtrick.storage import game_records
from overtrick.storage.game_records import Games
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking.mlflow_tracker import Tracker
from overtrick.training.registry import JOBS

log = logging.getLogger(__name__)

VIDEO_SUFFIX = ".mp4"


def check_output(out: Path) -> None:
    """Raise UserError unless `out` is an .html file in a folder that exists."""
    if out.suffix not in (".html", ".htm") or not out.absolute().parent.is_dir():
        raise UserError(f"cannot write {out}: name an .html file in a folder that exists")


def file_page(path: Path, first: int, system: str | None = None) -> str:
    """Return the HTML page of a file of recorded games, of bridge boards, or of a video.

    `first`: the number of games or boards to show. `system`: the bidding system for boards that do
    not name theirs; it explains their calls. Raises UserError.
    """
    if system is not None:
        load(system)  # raises UserError for an unknown system
    if path.suffix == VIDEO_SUFFIX:
        return elements.page(
            path.name, "", [PageSection("Film", [elements.picture(path, path.stem)])]
        )
    try:
        games = game_records.load(path)
    except UserError as no_games:
        if path.suffix.lower() not in board_files.ENDINGS:
            raise
        try:
            return _boards_page(path, first, system)
        except UserError as no_boards:
            both = f"{no_games}; nor are they boards: {no_boards}"
            raise UserError(both if path.suffix == ".parquet" else str(no_boards)) from None
    if system is not None:
        raise UserError(f"--system is an option for boards, and {path} has games of {games.game}")
    lead = f"{len(games.moves)} games of {games.game}: {', '.join(games.players)}"
    return elements.page(path.name, lead, [_games_section(games.first(first))])


def _games_section(games: Games) -> PageSection:
    return PageSection("Games, step by step", replays.game_replays(games))


def _boards_page(path: Path, first: int, system: str | None) -> str:
    """Return the HTML page of the first boards of a file."""
    found = board_files.load(path)
    boards = [
        bridge_boards.board_article(board, default_system=system)
        for board in islice(found.boards, first)
    ]
    lead = f"{len(found.boards)} boards, the first {len(boards)} of them here"
    problems = [elements.text("\n".join(found.problems))] if found.problems else []
    return elements.page(
        path.name, lead, [PageSection("Boards", boards), PageSection("Invalid boards", problems)]
    )


def run_page(run: RunFolder, games: Games | None = None) -> str:
    """Return the HTML report of a run: table, figures, videos, learning curves and job.

    `games`: recorded games of the run's model, to show as well.
    """
    job = job_file.load_stored(run, {**JOBS})
    lead = f"{job.trainer} on {job.game.name}, seed {job.seed}"
    images = sorted(run.figures.glob("*.png"))
    videos = sorted(run.videos.glob(f"*{VIDEO_SUFFIX}"), reverse=True)  # the newest first
    sections = [
        PageSection("Result", _result(run, registry.make(job.game.name, **job.game.options))),
        PageSection("Figures", [elements.picture(path, path.stem) for path in images]),
        PageSection("Films", [elements.picture(path, path.stem) for path in videos]),
        PageSection("Learning curves", _curves(run.history())),
        *([] if games is None else [_games_section(games)]),
        PageSection("Job", [elements.folded("every key", run.job.read_text())]),
    ]
    return elements.page(run.name, lead, sections)


def _result(run: RunFolder, game: Any) -> list[str]:
    """Return the final table of a run as HTML, or a note that the run is not finished."""
    if not run.table.exists():
        return ["<p>This run is not finished.</p>"]
    rows = json.loads(run.table.read_text())
    table = tables.evaluation(rows, registry.evaluation_game(game).unit)
    return [f'<p class="pale">{table.title}</p>{elements.table(*tables.cells(table))}']


def _curves(history: Sequence[tuple[int, dict[str, float]]]) -> list[str]:
    """Return HTML with the learning curve of every metric that changed during training."""
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

    `end`: a sentence about the end of the run, if it failed or was stopped.
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

    `close`: called with MLflow's status, KILLED after an interrupt, FAILED after any other error.
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
