"""Test opponents of a board: drawn after the players, and notes on their use."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import TypeAdapter

from overtrick.comparison import bucket_board_players
from overtrick.comparison.board_job import BoardJob
from overtrick.comparison.board_players import check_method
from overtrick.core import UserError
from overtrick.core.files import write_text
from overtrick.core.json_files import ClosedRecord, read_json
from overtrick.evaluation.board import (
    board_evaluation,
    bucket_board,
    bucket_opponents,
    opponent_files,
)
from overtrick.evaluation.board.bucket_opponents import BucketOpponent
from overtrick.evaluation.board.opponent_files import BoardOpponent
from overtrick.storage import locate

RECORD = "record.json"  # in a folder of test opponents
PACKAGE = Path(__file__).parents[1]


class DrawRecord(ClosedRecord):
    """Origin of test opponents."""

    players_sha256: str  # the seed with which they were drawn
    recorded: str  # time, before they were drawn


RECORD_SCHEMA: TypeAdapter[Any] = TypeAdapter(DrawRecord)


def make_test_opponents(
    job: BoardJob, folder: Path, published_seed: str | None = None
) -> dict[str, Any]:
    """Draw test opponents with the SHA-256 of the job's players as seed; write them to a folder.

    The SHA-256 is written before the opponents are drawn. Returns it with the names of the
    opponents. `published_seed`: another SHA-256 as seed, to draw the opponents of a published
    result again. Raises UserError if it is none, if the folder exists, or if a model is missing.
    """
    if published_seed is not None and not re.fullmatch("[0-9a-f]{64}", published_seed):
        raise UserError(
            f"--seed {published_seed}: it must be a SHA-256, of 64 digits 0 to 9, a to f"
        )
    if folder.exists():
        raise UserError(f"--out {folder} exists: name a new folder")
    check_methods(job)
    seed = published_seed or players_sha256(job)
    folder.mkdir(parents=True)
    record = {"players_sha256": seed, "recorded": opponent_files.now()}
    write_text(folder / RECORD, json.dumps(record, indent=1) + "\n")
    names = _draw_test(job, np.random.default_rng(int(seed, 16)), folder)
    return {"folder": str(folder), **record, "opponents": names}


def _draw_test(job: BoardJob, rng: Generator, folder: Path) -> list[str]:
    """Draw test opponents and write them to a folder; return their names."""
    if bucket_board.uses_abstraction(job.game):
        drawn = bucket_opponents.draw_test(bucket_board.families(job.game), rng)
        bucket_opponents.save(drawn, job.game.options, folder)
        return [each.name for each in drawn]
    families = board_evaluation.families(job.game)
    strategies = opponent_files.draw_test(families, rng)
    opponent_files.save(strategies, families.tree, folder)
    return [each.name for each in strategies]


def read_opponents(job: BoardJob) -> Sequence[BoardOpponent | BucketOpponent]:
    """Read the opponents of a board. Raises UserError if they are missing or damaged."""
    kind = bucket_board if bucket_board.uses_abstraction(job.game) else board_evaluation
    found: Sequence[BoardOpponent | BucketOpponent] = kind.read_opponents(job.game, job.opponents)
    return found


def check_methods(job: BoardJob) -> None:
    """Raise UserError, naming the method, if one of a board's methods cannot play."""
    if bucket_board.uses_abstraction(job.game):
        bucket_board_players.check(job)
    else:
        board_evaluation.families(job.game)  # the game must have a tree
    for name, method in job.methods.items():
        try:
            check_method(job, method)
        except UserError as error:
            raise UserError(f"methods.{name}: {error}") from None


def players_sha256(job: BoardJob) -> str:
    """Return the SHA-256 of a board's players: their settings, their models, and the code.

    The code consists of this package, and of the files that programs' commands name, without
    installed programs such as an interpreter; modules that these import do not count.
    """
    found = hashlib.sha256()
    for name, method in job.methods.items():
        settings = method.model_dump(mode="json", exclude={"model", "psro", "league", "folder"})
        found.update(json.dumps([name, settings], sort_keys=True).encode())
        for model in method.models(job.seeds).values():
            digests = locate.digests(locate.model_folder(model))
            found.update(json.dumps(digests, sort_keys=True).encode())
        for number, word in enumerate(shlex.split(method.command or "")):
            file = Path(method.folder or ".", word)
            relative = "/" in word and not Path(word).is_absolute()
            installed = number == 0 and not relative  # such as an interpreter
            if not installed and file.is_file():
                found.update(file.read_bytes())
    for file in sorted(PACKAGE.rglob("*.py")):
        found.update(f"{file.relative_to(PACKAGE)}\n".encode())
        found.update(file.read_bytes())
    return found.hexdigest()


def check_record(job: BoardJob) -> None:
    """Raise UserError if the record of the test opponents is missing or damaged."""
    if job.opponents != opponent_files.DEVELOPMENT:
        read_json(Path(job.opponents) / RECORD, RECORD_SCHEMA, opponent_files.REMEDY)


def notes_on_opponents(job: BoardJob) -> list[str]:
    """Return lines on the origin and the use of a board's opponents."""
    if job.opponents == opponent_files.DEVELOPMENT:
        return ["development opponents: they may have guided choices, so these are no test results"]
    folder = Path(job.opponents)
    seed = read_json(folder / RECORD, RECORD_SCHEMA, opponent_files.REMEDY)["players_sha256"]
    count = len(opponent_files.uses(folder))
    notes = [f"test opponents drawn with seed {seed[:16]}..., used {count} time{'s' * (count > 1)}"]
    if seed != players_sha256(job):
        differ = "the players or the code are not those for which the opponents were drawn"
        notes.append(f"{differ}: {opponent_files.REMEDY}")
    return notes
