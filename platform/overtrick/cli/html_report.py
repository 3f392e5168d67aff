"""Command `overtrick view`: write an HTML page about a run, a champion, games or bridge boards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from overtrick.cli import PLAY, app, arguments, print_result, show
from overtrick.core import UserError


@app.command(rich_help_panel=PLAY)
def view(
    what: Annotated[
        str,
        Argument(
            metavar="WHAT",
            help="A run, champion:NAME, or a file: games of --keep, an .mp4, or boards.",
        ),
    ],
    out: Annotated[Path, Option(help="The HTML file to write.")] = Path("view.html"),
    first: Annotated[
        int | None, Option(min=1, max=arguments.MOST, help="Games or boards shown. Default: 50.")
    ] = None,
    system: Annotated[str | None, Option(help="Bidding system of boards without one.")] = None,
    against: Annotated[
        str | None, Option(help="Show games against this opponent. A champion plays itself.")
    ] = None,
    boards: Annotated[
        int | None, Option(min=1, max=arguments.MOST, help="Boards of these games. Default: 3.")
    ] = None,
    seed: Annotated[int | None, Option(min=0, help="Seed of these games. Default: 0.")] = None,
    as_json: arguments.Json = False,
) -> None:
    """Write one HTML file that works without a server and without a network.

    A run is shown with its table, figures, videos and curves. With --against or --boards, the page
    also shows games of the run's model against that opponent or the champion of its game. A
    champion is shown with its card and games. A file of games, as the option --keep of other
    commands saves it, is shown step by step. For bridge boards (.parquet, .pbn, .lin, .tsv) the
    page explains each call by the bidding system that the file names, or else by --system.
    """
    from overtrick.core.files import check_output, write_text
    from overtrick.runs import html_page, lifecycle
    from overtrick.storage import locate
    from overtrick.storage.champions import champion_of, is_champion
    from overtrick.studies import html_of_files
    from overtrick.studies.champion_page import champion_page
    from overtrick.studies.match import check_players, play_match
    from overtrick.tracking.model_versions import SCHEME

    check_output(out, ".html", ".htm")
    of_run = {"against": against, "boards": boards, "seed": seed}
    of_file = {"first": first, "system": system}
    if os.path.isfile(what):
        _refuse(of_run, f"is an option for a run, and {what} is a file")
        if Path(what).suffix == html_of_files.VIDEO_SUFFIX:
            _refuse(of_file, f"is an option for games and boards, not for {what}")
        page = html_of_files.html_of_file(Path(what), first or 50, system)
    elif is_champion(what):
        _refuse(of_file, f"is an option for a file, and {what} is a champion")
        page = champion_page(what, against, boards, seed)
    elif what.startswith(SCHEME):
        raise UserError(f"{what} is a model without a run: name a run, or a file")
    else:
        folder, games = locate.existing_run(what), None
        policies: Sequence[Any] = ()
        _refuse(of_file, f"is an option for a file, and {what} is a run")
        if boards is not None and against is None:
            game = lifecycle.read_job(folder).game
            against = champion_of(game.name, game.options)
            if against is None:
                raise UserError(
                    f"no champion plays {game.name} with this job's options: add --against"
                )
        if against is None:
            _refuse(of_run, "is an option for games of a run's model: add --against OPPONENT")
        else:
            check_players([against], [])
            model = str(locate.existing_model(str(folder)))
            played = play_match(model, against, None, {}, boards or 3, seed or 0, record=True)
            games, policies = played.games, played.policies
        page = html_page.run_page(folder, games, policies)
    write_text(out, page)
    size = len(page.encode())
    show(f"{out}: {size / 1e6:.1f} MB; open it in a browser")
    print_result(as_json, path=str(out.absolute()), bytes=size)


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Raise UserError if one of these command-line options was given.

    `options`: values by option name; None: not given. `why`: the end of the message, after the
    option's --NAME.
    """
    for name, value in options.items():
        if value is not None:
            raise UserError(f"--{name} {why}")
