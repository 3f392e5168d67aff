"""Commands that play matches: `overtrick match` and `overtrick bridge match`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from overtrick.cli import PLAY, app, arguments, bridge, console, print_result, say
from overtrick.core import UserError

Player = Annotated[str, Argument(help=f"{arguments.PLAYER}, or a bidding system.")]
Report = Annotated[Path | None, Option(help="Bidding: write the boards to this .md or .csv file.")]
Diagrams = Annotated[int, Option(min=0, help="Bidding: boards printed as diagrams.")]
PoolSize = Annotated[int, Option(min=0, help="Bidding: Ray workers.")]


@app.command(rich_help_panel=PLAY)
def match(
    a: Player,
    b: Player,
    options: arguments.GameOptions = None,
    game: Annotated[str | None, Option(help="Game, if the players leave it open.")] = None,
    boards: arguments.MatchBoards = 250,
    seed: arguments.Seed = 0,
    video: Annotated[Path | None, Option(help="Film one more game to this .mp4.")] = None,
    save: arguments.SaveGames = None,
    out: Report = None,
    show: Diagrams = 0,
    workers: PoolSize = 0,
    as_json: arguments.Json = False,
) -> None:
    """Play a match of two players on the same boards from both seats; print A's mean payoff.

    Two bidding systems, or two networks that bid, are scored in IMPs a board at double-dummy
    tricks.
    """
    answer, _ = _play(a, b, options, game, boards, seed, video, save, out, show, workers)
    print_result(as_json, **answer)


@bridge.group.command("match")
def bridge_match(
    a: Player,
    b: Player,
    options: arguments.GameOptions = None,
    boards: arguments.MatchBoards = 250,
    seed: arguments.Seed = 0,
    save: arguments.SaveGames = None,
    out: Report = None,
    show: Diagrams = 0,
    workers: PoolSize = 0,
    as_json: arguments.Json = False,
) -> None:
    """Play a bridge match: two bidding systems or networks, or two card players of Mini-Bridge.

    Bidding is scored in IMPs a board at double-dummy tricks, card play in Mini-Bridge's points.
    """
    game = None if _bidding(a, b) else "minibridge"
    answer, cards = _play(a, b, options, game, boards, seed, None, save, out, show, workers)
    print_result(as_json, **answer, played=cards)


def _play(
    a: str,
    b: str,
    options: list[str] | None,
    game: str | None,
    boards: int,
    seed: int,
    video: Path | None,
    save: Path | None,
    out: Path | None,
    show: int,
    workers: int,
) -> tuple[dict[str, Any], bool]:
    """Play a match and print its result.

    Returns the JSON values of the result, and False for a match of bidding only, else True. Raises
    UserError for an option that does not apply to this kind of match.
    """
    from overtrick.storage import game_records

    if save is not None:
        game_records.check(save)
    if _bidding(a, b):
        for name, given in (("options", options), ("--game", game), ("--video", video)):
            if given:
                raise UserError(f"a match of bidding systems takes no {name}")
        return _match_bidders(a, b, boards, seed, save, out, show, workers), False
    for name, asked in (("--out", out), ("--show", show), ("--workers", workers)):
        if asked:
            raise UserError(
                f"{name} is an option for bidding systems, and neither {a} nor {b} is one"
            )
    return _match_players(a, b, options or [], game, boards, seed, video, save), True


def _bidding(a: str, b: str) -> bool:
    """Return True if a match is between bidding systems or between networks that bid."""
    from overtrick.studies.duplicate_match import find_bidder, is_bidding_system

    named = is_bidding_system(a) or is_bidding_system(b)
    return named or bool(find_bidder(a) and find_bidder(b))


def _match_players(
    a: str,
    b: str,
    options: list[str],
    game: str | None,
    boards: int,
    seed: int,
    video: Path | None,
    save: Path | None,
) -> dict[str, Any]:
    """Play a match between two players of a game, print the result and return its JSON values."""
    from overtrick.config.overrides import apply_overrides
    from overtrick.games.bridge.system import loader
    from overtrick.storage import game_records
    from overtrick.studies import match as matches

    matches.check_players((a, b), loader.system_names())
    done = matches.play_match(
        a, b, game, apply_overrides({}, options), boards, seed, video, save is not None
    )
    if save is not None and done.games is not None:
        game_records.save(save, done.games)
    found, games = done.meeting, 2 * boards
    say(
        f"{a} against {b}: {found.mean:.4f} ± {found.standard_error:.4f} {done.unit} a game; of "
        f"{games} games {found.won:.0f} won, {found.lost:.0f} lost, "
        f"{games - found.won - found.lost:.0f} drawn"
    )
    result = {"mean": found.mean, "standard_error": found.standard_error, "unit": done.unit}
    counts = {"won": found.won, "lost": found.lost}
    return {"a": a, "b": b, "game": done.game, "boards": boards, **result, **counts}


def _match_bidders(
    a: str,
    b: str,
    boards: int,
    seed: int,
    save: Path | None,
    out: Path | None,
    show: int,
    workers: int,
) -> dict[str, Any]:
    """Play a duplicate match of two sides that bid; print the result, return its JSON values."""
    from overtrick.evaluation import bidders
    from overtrick.reports.progress import counting
    from overtrick.runs import lifecycle
    from overtrick.storage import game_records
    from overtrick.studies import duplicate_match

    if out is not None:
        duplicate_match.check_report(out)
    ours, theirs = (str(duplicate_match.find_bidder(name) or name) for name in (a, b))
    for side in (ours, theirs):
        bidders.load_side(side)  # refuses an unknown one before Ray starts
    with lifecycle.open_pool(workers) as pool, counting(console, "boards", boards) as progress:
        played = duplicate_match.play_match(ours, theirs, boards, seed, pool, progress)
    if out is not None:
        duplicate_match.write_report(played, out, show)
    if save is not None:
        game_records.save(save, duplicate_match.recorded_games(played))
    for board in range(min(show, boards)):
        say(f"{duplicate_match.describe_board(played, board)}\n")
    imps = played.boards.imps
    say(
        f"{a} against {b}: {played.mean:+.3f} ± {played.standard_error:.3f} IMPs a board; of "
        f"{boards} boards {(imps > 0).sum()} won, {(imps < 0).sum()} lost, "
        f"{(imps == 0).sum()} flat"
    )
    result = {"mean": played.mean, "standard_error": played.standard_error}
    return {"a": a, "b": b, "boards": boards, **result, "unit": duplicate_match.UNIT}
