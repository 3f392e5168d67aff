"""Types of command-line arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

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
Letters = Annotated[bool, Option(help="Print suits as letters, not symbols.")]
