"""A page for a browser: `overtrick view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overtrick.cli import Json, app, people, result


@app.command("view")
def view_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A run, games.parquet of --keep, or boards: .parquet, .pbn, .lin, .tsv.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("view.html"),
    first: Annotated[int, typer.Option(min=1, help="Games or boards that are shown.")] = 50,
    system: Annotated[
        str | None, typer.Option(help="Of boards: how calls are read where they do not say.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Of a run: whom its model meets in games to look at.")
    ] = None,
    boards: Annotated[int, typer.Option(min=1, help="Of those, each from both seats.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of those.")] = 0,
    as_json: Json = False,
) -> None:
    """Write one HTML file that needs no server and no network: a run's table, figures, films and
    curves; games step by step; bridge boards with what each call shows."""
    from overtrick import run, view
    from overtrick.atomic import write_text
    from overtrick.core import Refused
    from overtrick.match import match

    view.check(out)
    if Path(what).is_file():
        if against is not None:
            raise Refused(f"--against is of a run, and {what} is a file")
        page = view.of_file(Path(what), first, system)
    else:
        folder = run.find(what)
        met = None
        if against is not None:
            met = match(str(folder / "model"), against, None, {}, boards, seed, kept=True).games
        page = view.of_run(folder, met)
    write_text(out, page)
    size = len(page.encode())
    people.print(f"{out}: {size / 1e6:.1f} MB; open it in a browser", soft_wrap=True)
    result(as_json, path=str(out.absolute()), bytes=size)
