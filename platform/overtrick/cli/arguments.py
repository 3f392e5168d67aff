"""Types of command-line arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from overtrick.core import UserError
from overtrick.core.files import check_folder_name

if TYPE_CHECKING:
    from overtrick.games.bridge.players.card_players import Budget

MOST = 1_000_000_000  # of games, boards or deals
PLAYER = "A reference opponent by name, champion:NAME, a run, or a model folder"

Json = Annotated[bool, Option("--json", help="Print one JSON object as the last line.")]

GameName = Annotated[
    str, Argument(metavar="GAME", help="A game of `overtrick list`, or openspiel/NAME.")
]
GameOptions = Annotated[
    list[str] | None, Argument(help="Options of the game as key=value, e.g. strain=trump.")
]
JobFile = Annotated[
    Path | None, Argument(help="A job file, or the name of a packaged job, such as leduc_meta.")
]
Overrides = Annotated[
    list[str] | None, Argument(help="Overrides of job keys as key=value, e.g. stop.iterations=4.")
]
RunName = Annotated[
    str | None,
    Option(
        "--name",
        help="Name of the run. If a run of this name with the same job exists, continue it. "
        "Default: name of the job and time.",
    ),
]
Model = Annotated[str, Argument(metavar="RUN", help="A run, a model folder, or champion:NAME.")]
BoardsFile = Annotated[
    Path, Argument(metavar="BOARDS", help="A .parquet, .pbn, .lin or .tsv file of boards.")
]
Workers = Annotated[int, Option(min=0, help="Ray workers; 0 runs in this process.")]
Seed = Annotated[int, Option(min=0, help="Seed of all random draws.")]
OptionalSeed = Annotated[int | None, Option(min=0, help="Seed of all random draws. Default: 0.")]
MatchBoards = Annotated[
    int, Option(min=2, max=MOST, help="Boards; each is played from both seats.")
]
SaveGames = Annotated[
    Path | None, Option("--keep", help="Save the games as .parquet, for `overtrick view`.")
]
Worlds = Annotated[
    int | None,
    Option(min=1, help="Deals that search and plain_search sample for each card. Default: 30."),
]
Seconds = Annotated[
    float | None,
    Option(
        min=0.01,
        max=3600,
        help="Time of search and plain_search for each card, in place of --worlds. They sample at "
        "least 8 deals. The result then depends on the speed of the machine.",
    ),
]
Letters = Annotated[bool, Option(help="Print suits as letters, not symbols.")]


def search_budget(worlds: int | None, seconds: float | None, *players: str) -> Budget:
    """Return the effort of searches that --worlds or --seconds ask for; by default Budget().

    Raises UserError if one of them is given, and none of one or two players searches, or if both
    are given.

    players: partnerships such as natural+careful; program or person. Without a card player, a
    partnership searches.
    """
    from overtrick.evaluation.bidders import split_player
    from overtrick.games.bridge.players.card_players import SEARCHES, Budget

    if worlds is None and seconds is None:
        return Budget()
    if worlds is not None and seconds is not None:
        raise UserError("--worlds and --seconds exclude each other: leave one out")
    budget = Budget(seconds=seconds) if worlds is None else Budget(worlds)
    option = "--seconds" if worlds is None else "--worlds"
    ours = [split_player(each) for each in players if each not in ("program", "person")]
    if any(cards in (None, *SEARCHES) for _, cards in ours):
        return budget
    one, *other = players
    who = f"neither {one} nor {other[0]} searches" if other else f"{one} does not search"
    bidder = ours[0][0] if ours else "natural"
    raise UserError(
        f"{option} has no effect, because {who}: leave it out, or name a player that does, such as "
        f"{bidder}+search"
    )


def check_new_or_resumed(
    command: str,
    new: str | Path | None,
    resume: str | None,
    needed: str = "a job file, or --resume RUN",
) -> None:
    """Raise UserError unless a command is given exactly one of new work and --resume.

    `command`: name of the command. `new`: a job file, or something else to start from. `needed`:
    names both, for the message if neither is given.
    """
    if new is None and resume is None:
        raise UserError(f"{command} needs {needed}")
    if new is not None and resume is not None:
        raise UserError(
            f"{command} --resume {resume}: leave out {new}: a resumed run keeps its settings"
        )


def check_new_name(resume: str | None, name: str | None) -> None:
    """Raise UserError if --name is given with --resume, or cannot name a run's folder."""
    if name is None:
        return
    if resume is not None:
        raise UserError(f"--name {name}: a resumed run keeps its name: leave out --name")
    check_folder_name(name, "--name")
    from overtrick.evaluation.reference_opponents import opponent_names
    from overtrick.games import registry

    if ":" in name or any(name in opponent_names(registry.make(g)) for g in registry.names()):
        raise UserError(
            f"--name {name}: it is, or looks like, the name of a player: choose another"
        )
