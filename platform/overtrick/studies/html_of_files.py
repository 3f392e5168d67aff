"""HTML pages that show one file: recorded games, bridge boards or a video; no server needed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from overtrick.core import UserError
from overtrick.datasets import board_files
from overtrick.games.bridge.system.loader import load
from overtrick.reports.html import bridge_boards, elements, replays
from overtrick.reports.html.elements import PageSection
from overtrick.storage import game_records

VIDEO_SUFFIX = ".mp4"


def html_of_file(path: Path, first: int, system: str | None = None) -> str:
    """Return the HTML page of a file of recorded games, of bridge boards, or of a video (.mp4).

    `first`: the largest number of games or boards to show. `system`: the bidding system that
    explains the calls of boards without a named system; None: leave such calls unexplained. Raises
    UserError for an unknown system, for games or boards that are missing or damaged, for a system
    with recorded games, and for a video that is too large for a page. Raises FileNotFoundError for
    a missing video.
    """
    if system is not None:
        load(system)  # raises UserError for an unknown system
    if path.suffix == VIDEO_SUFFIX:
        video = PageSection("Video", [elements.picture(path, path.stem)])
        if len(video.pieces[0].encode()) > elements.room_of_pieces():
            raise UserError(f"{path} is too large for a page: open the video itself")
        return elements.page(path.name, "", [video])
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
    return elements.page(path.name, lead, [replays.games_section(games.first(first))])


def _boards_page(path: Path, first: int, system: str | None) -> str:
    """Return the HTML page of the first boards of a file of bridge boards.

    `first`, `system`: as in `html_of_file`.
    """
    found = board_files.load(path)
    write = partial(bridge_boards.board_article, default_system=system)
    boards = PageSection("Boards", list(map(write, found.boards[:first])))
    problems = [elements.text("\n".join(found.problems))] if found.problems else []
    lead = f"{len(found.boards)} boards, the first {len(boards.pieces)} of them here"
    return elements.page(path.name, lead, [boards, PageSection("Invalid boards", problems)])
