"""External programs as methods of a board."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from numpy.random import Generator

from overtrick.comparison.board_job import BoardJob, BoardMethod
from overtrick.core import UserError
from overtrick.evaluation.board.board_setting import BoardSetting
from overtrick.evaluation.board.bucket_setting import BucketSetting
from overtrick.evaluation.board.process_player import ProcessPlayer


def check_program(job: BoardJob, method: BoardMethod) -> None:
    """Raise UserError if a method's program is missing, or its limits cannot be enforced here."""
    words = shlex.split(method.command or "")
    if words and "/" in words[0]:  # the program is started in the method's folder
        words[0] = str(Path(method.folder or ".", words[0]).absolute())
    if not words or shutil.which(words[0]) is None:
        raise UserError(f"there is no program `{method.command}`")
    if job.limits.memory_gib is not None and sys.platform != "linux":
        raise UserError("limits.memory_gib: only Linux has this limit; set it to null")


def start_program(
    job: BoardJob, method: BoardMethod, setting: BoardSetting | BucketSetting, rng: Generator
) -> ProcessPlayer:
    """Start the program of a method for one match. Raises UserError if it does not answer."""
    assert method.command is not None
    per_game, folder = job.limits.seconds_per_game, Path(method.folder or ".")
    seconds = None if per_game is None else per_game * job.budgets[-1]
    return ProcessPlayer(
        method.command, folder, job.game, setting, rng, seconds, job.limits.memory_gib
    )
