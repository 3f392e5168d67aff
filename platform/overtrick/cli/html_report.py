"""A page for a browser: `overtrick view`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from overtrick.cli import Json, app, people, result
from overtrick.core import UserError


@app.command("view")
def view_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A run, games.parquet of --keep, a film .mp4, or boards: .parquet, .pbn, .lin, "
            ".tsv.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("view.html"),
    first: Annotated[
        int | None, typer.Option(min=1, help="Of a file: games or boards that are shown: 50.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="Of boards: how calls are read where they do not say.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Of a run: whom its model meets in games to look at.")
    ] = None,
    boards: Annotated[
        int | None, typer.Option(min=1, help="Of those games, each from both seats: 3.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of those games: 0.")] = None,
    as_json: Json = False,
) -> None:
    """Write one HTML file that needs no server and no network: a run's table, figures, films and
    curves; games step by step; bridge boards with what each call shows."""
    from overtrick.core.files import write_text
    from overtrick.runs import html_page, lifecycle
    from overtrick.studies.match import check_known, match
    from overtrick.tracking.model_versions import SCHEME

    html_page.check_output(out)
    of_run = {"against": against, "boards": boards, "seed": seed}
    if Path(what).is_file():
        _refuse(of_run, f"is of a run, and {what} is a file")
        if Path(what).suffix == html_page.VIDEO_SUFFIX:
            _refuse({"first": first, "system": system}, f"is of games and boards, not of {what}")
        page = html_page.file_page(Path(what), first or 50, system)
    elif what.startswith(SCHEME):
        raise UserError(f"{what} is a model without a run: name a run, or a file")
    else:
        folder = lifecycle.find(what)
        _refuse({"first": first, "system": system}, f"is of a file, and {what} is a run")
        met = None
        if against is None:
            _refuse(of_run, "is of games that a run's model plays: name whom it meets by --against")
        else:
            check_known([against], [])
            model = str(lifecycle.find_model(str(folder)))
            met = match(model, against, None, {}, boards or 3, seed or 0, kept=True).games
        page = html_page.run_page(folder, met)
    write_text(out, page)
    size = len(page.encode())
    people.print(f"{out}: {size / 1e6:.1f} MB; open it in a browser", soft_wrap=True)
    result(as_json, path=str(out.absolute()), bytes=size)


def _refuse(options: Mapping[str, Any], why: str) -> None:
    """Raise UserError for an option that is given where it says nothing."""
    for name, value in options.items():
        if value is not None:
            raise UserError(f"--{name} {why}")
