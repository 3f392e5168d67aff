"""Load and save boards in the formats PBN and LIN."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from overtrick.core import UserError
from overtrick.core.files import read_text, write_text
from overtrick.games.bridge.boards import Board, BoardFile, parse_boards, require_boards
from overtrick.games.bridge.formats import lin_reader, lin_writer, pbn_reader, pbn_writer


def load(path: Path) -> BoardFile:
    """Load the valid boards of a .pbn or .lin file, and an error message for each invalid board.

    Text that is not UTF-8 is read as Latin-1, the character set of PBN. Raises UserError if the
    file cannot be read or has no valid board.
    """
    suffix = path.suffix.lower()
    if suffix not in (".pbn", ".lin"):
        raise UserError(f"{path}: boards are read from .pbn and .lin files")
    text = _decoded(read_text(path, errors="surrogateescape"))
    if suffix == ".pbn":
        games = enumerate(pbn_reader.split(text), 1)
        parts = ((f"board {number}, line {line}", tags) for number, (line, tags) in games)
        return require_boards(path, parse_boards(path, parts, pbn_reader.parse))
    boards = ((f"board {part.number}, line {part.line}", part) for part in lin_reader.split(text))
    return require_boards(path, parse_boards(path, boards, lin_reader.parse))


def _decoded(text: str) -> str:
    """Return the text of a file that was read as UTF-8, decoded again as Latin-1 if it must be.

    text: read with the error handler "surrogateescape". If it has a surrogate, the file is not
    UTF-8, and the result is the whole file in Latin-1. Otherwise the result is the text without the
    byte order mark at its start.
    """
    if re.search("[\udc80-\udcff]", text):
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    return text.removeprefix("\ufeff")


def save(path: Path, boards: Sequence[Board]) -> None:
    """Save boards to a file in the format of its suffix, .pbn or .lin.

    Raises UserError for any other suffix, and for a board that LIN cannot hold.
    """
    suffix = path.suffix.lower()
    if suffix not in (".pbn", ".lin"):
        raise UserError(f"{path}: boards are written to .pbn and .lin files")
    if suffix == ".pbn":
        write_text(path, pbn_writer.VERSION + "".join(pbn_writer.write(board) for board in boards))
        return
    try:
        text = lin_writer.write(boards)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    write_text(path, text)
