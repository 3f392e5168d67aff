"""Command `overtrick board`: evaluate players that learn about their opponents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from overtrick.cli import TRAIN, app, arguments, print_result, say, show
from overtrick.cli.runs import compare_methods
from overtrick.core import UserError

MAKE = "make"


@app.command(rich_help_panel=TRAIN)
def board(
    job: Annotated[
        str,
        Argument(metavar="JOB", help="A board's job file, or `make` and then a job file."),
    ],
    overrides: arguments.Overrides = None,
    out: Annotated[
        Path | None, Option(help="With `make`: the new folder of the test opponents.")
    ] = None,
    seed: Annotated[
        str | None, Option(help="With `make`: the seed of published test opponents.")
    ] = None,
    workers: Annotated[int | None, Option(min=0, help="Ray workers; 0: this process.")] = None,
    name: arguments.RunName = None,
    as_json: arguments.Json = False,
) -> None:
    """Evaluate players that learn about an opponent during a match, by exact payoffs.

    `overtrick board make JOB --out FOLDER` draws test opponents. Their seed is the SHA-256 of the
    job's players, their models and the code, so that a change to a player gives other opponents.
    Then `overtrick board JOB opponents=FOLDER` evaluates the players with them. The board of rock,
    paper, scissors needs no `make`: its opponents are bots of a competition.
    """
    given = list(overrides or [])
    if job == MAKE:
        if workers is not None or name is not None:
            raise UserError("board make takes neither --workers nor --name: it makes no run")
        _make(given, out, seed, as_json)
        return
    if out is not None or seed is not None:
        raise UserError(
            "--out and --seed are for `overtrick board make JOB`, which draws opponents"
        )
    asked = [] if workers is None else [f"workers={workers}"]
    compare_methods(None, Path(job), [*given, *asked], name, as_json, ("board", "rps_board"))


def _make(given: list[str], out: Path | None, seed: str | None, as_json: bool) -> None:
    """Draw the test opponents of a board; `given`: its job file and overrides."""
    from overtrick.comparison import board_job, board_opponents

    if not given or out is None:
        raise UserError("board make needs a job file, and --out FOLDER for the opponents")
    job = board_job.load(given[0], given[1:])
    found = board_opponents.make_test_opponents(job, out, seed)
    show(f"{len(found['opponents'])} test opponents: {', '.join(found['opponents'])}")
    again = f"`overtrick board {given[0]} opponents={out}`"
    say(f"seed {found['players_sha256']}; evaluate with {again}")
    print_result(as_json, **found)
