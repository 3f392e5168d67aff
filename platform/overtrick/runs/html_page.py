"""What a run came to, kept games, or bridge boards, as one page for a browser: no server needed."""

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
from overtrick.reports.html import elements, replays
from overtrick.reports.html.elements import Section
from overtrick.runs import mlflow_note, videos
from overtrick.storage import game_records
from overtrick.storage.game_records import Games
from overtrick.tracking import mlflow_tracker
from overtrick.training.registry import JOBS

log = logging.getLogger(__name__)

PAGE = "view.html"  # in the folder of a run
FILM = ".mp4"
TABLE = mlflow_note.TABLE


def check(out: Path) -> None:
    """Raise UserError for a page that cannot be written."""
    if out.suffix not in (".html", ".htm") or not out.absolute().parent.is_dir():
        raise UserError(f"cannot write {out}: name an .html file in a folder that exists")


def of_file(path: Path, first: int, system: str | None = None) -> str:
    """The page of kept games, of the first boards of a file, or of a film; system: by which calls
    are read where a board does not say. Raises UserError."""
    if system is not None:
        load(system)  # refuses one that nobody knows
    if path.suffix == FILM:
        return elements.page(path.name, "", [Section("Film", [elements.picture(path, path.stem)])])
    try:
        kept = game_records.load(path)
    except UserError as wrong:
        if path.suffix.lower() not in board_files.ENDINGS:
            raise
        try:
            return _boards(path, first, system)
        except UserError as other:
            both = f"{wrong}; nor are they boards: {other}"
            raise UserError(both if path.suffix == ".parquet" else str(other)) from None
    if system is not None:
        raise UserError(f"--system is of boards, and {path} holds games of {kept.game}")
    some = len(kept.moves)
    lead = f"{some} games of {kept.game}: {', '.join(kept.players)}"
    return elements.page(path.name, lead, [_games(kept, first)])


def _games(kept: Games, first: int) -> Section:
    shown = kept.first(first)
    return Section("Games, step by step", replays.games_of(shown))


def _boards(path: Path, first: int, system: str | None) -> str:
    """The page of the first boards of a file."""
    found = board_files.load(path)
    boards = [replays.board_of(board, system_of=system) for board in islice(found.boards, first)]
    lead = f"{len(found.boards)} boards, the first {len(boards)} of them here"
    problems = [elements.text("\n".join(found.problems))] if found.problems else []
    return elements.page(
        path.name, lead, [Section("Boards", boards), Section("Not sound", problems)]
    )


def of_run(folder: Path, kept: Games | None = None) -> str:
    """The page of a run, with games that its model has played, if they are given."""
    job = job_file.load_stored(folder, {**JOBS})
    lead = f"{job.trainer} on {job.game.name}, seed {job.seed}"
    drawn = sorted((folder / "figures").glob("*.png"))
    filmed = sorted((folder / videos.FOLDER).glob("*.mp4"), reverse=True)  # the newest first
    sections = [
        Section("Result", _result(folder, registry.make(job.game.name, **job.game.options))),
        Section("Figures", [elements.picture(path, path.stem) for path in drawn]),
        Section("Films", [elements.picture(path, path.stem) for path in filmed]),
        Section("Learning curves", _curves(mlflow_tracker.history(folder))),
        *([] if kept is None else [_games(kept, len(kept.moves))]),
        Section("Job", [elements.folded("every key", (folder / "job.json").read_text())]),
    ]
    return elements.page(folder.name, lead, sections)


def _result(folder: Path, game: Any) -> list[str]:
    """The table of a run, if it is done."""
    if not (folder / TABLE).exists():
        return ["<p>This run is not done.</p>"]
    rows = json.loads((folder / TABLE).read_text())
    told = tables.evaluation(rows, registry.evaluation_game(game).unit)
    return [f'<p class="pale">{told.title}</p>{elements.table(*tables.cells(told))}']


def _curves(history: Sequence[tuple[int, dict[str, float]]]) -> list[str]:
    """Every metric that changed on the way."""
    went: dict[str, list[tuple[int, float]]] = {}
    for iteration, metrics in history:
        for name, value in metrics.items():
            if math.isfinite(value):
                went.setdefault(name, []).append((iteration, value))
    moved = {name: points for name, points in went.items() if len({y for _, y in points}) > 1}
    drawn = [elements.curve(name, points) for name, points in sorted(moved.items())]
    return [f'<div class="curves">{"".join(drawn)}</div>'] if drawn else []


def tell(folder: Path, tracker: mlflow_tracker.Tracker, end: str = "") -> None:
    """MLflow's own page of the run says what there is to say of it; end: see `note.of`."""
    try:
        tracker.note(mlflow_note.of(folder, end))
    except (UserError, OSError, ValueError) as error:  # nor for want of a note
        log.warning("no note of the run: %s", error)


@contextmanager
def ending(
    folder: Path, tracker: mlflow_tracker.Tracker, close: Callable[[str], object]
) -> Iterator[None]:
    """MLflow is told what stops the work on a run, if something does; that is what is raised."""
    try:
        yield
    except BaseException as error:
        killed = isinstance(error, (KeyboardInterrupt, SystemExit))  # as Ray has SIGTERM end it
        end = mlflow_note.stopped(folder, tracker.reported) if killed else mlflow_note.failed(error)
        tell(folder, tracker, end)
        try:
            close("KILLED" if killed else "FAILED")
        except OSError as full:  # there is no room to say so
            log.warning("%s", full)
        raise


def keep(folder: Path, tracker: mlflow_tracker.Tracker) -> None:
    """The page of a run beside its table, and in MLflow."""
    try:
        write_text(folder / PAGE, of_run(folder))
    except (UserError, OSError, ValueError) as error:  # a run does not end for want of a page
        log.warning("no page of the run: %s", error)
        return
    tracker.artifact(folder / PAGE)
