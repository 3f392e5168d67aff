"""Commands that play matches: `overtrick match` and `overtrick bridge match`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from typer import Argument, Option

from overtrick.cli import PLAY, app, arguments, bridge, console, print_result, show
from overtrick.core import UserError

Player = Annotated[
    str,
    Argument(
        help=f"{arguments.PLAYER}, or a bidding system, perhaps with a card player: natural+search."
    ),
]
Opponent = Annotated[
    str | None, Argument(help="Another player. Default: the champion of the first player's game.")
]
Report = Annotated[
    Path | None, Option(help="Bidding: write the boards to this .md, .csv, .pbn or .lin file.")
]
Diagrams = Annotated[
    int, Option(min=0, max=arguments.MOST, help="Bidding: boards printed as diagrams.")
]
PoolSize = Annotated[int, Option(min=0, help="Bidding: Ray workers.")]
_FOR_BIDDING = ("out", "show", "workers", "worlds", "seconds")
"""Options of matches between bidding systems or networks that bid."""


class _Request(NamedTuple):
    """Arguments and options of a match command."""

    a: str
    b: str
    options: list[str] | None
    game: str | None
    boards: int
    seed: int
    video: Path | None
    save: Path | None
    out: Path | None  # for bidding only, like show and workers
    show: int
    workers: int
    worlds: int | None
    seconds: float | None


@app.command(rich_help_panel=PLAY)
def match(
    a: Player,
    b: Opponent = None,
    options: arguments.GameOptions = None,
    game: Annotated[str | None, Option(help="Needed if players fit several games.")] = None,
    boards: arguments.MatchBoards = 250,
    seed: arguments.Seed = 0,
    video: Annotated[Path | None, Option(help="Write a video of one more game.")] = None,
    save: arguments.SaveGames = None,
    out: Report = None,
    show: Diagrams = 0,
    workers: PoolSize = 0,
    worlds: arguments.Worlds = None,
    seconds: arguments.Seconds = None,
    as_json: arguments.Json = False,
) -> None:
    """Play a match of two players on the same boards from both seats; print A's mean payoff.

    A match of two bidding systems or bidding networks is scored in IMPs a board. Their contracts
    are played double dummy, or by card players: natural+search against precision+search.
    """
    other, options = _second_player(a, b, options, game)
    asked = _Request(
        a, other, options, game, boards, seed, video, save, out, show, workers, worlds, seconds
    )
    print_result(as_json, **_play(asked, _is_bidding(a, other)))


@bridge.group.command("match")
def bridge_match(
    a: Player,
    b: Opponent = None,
    options: arguments.GameOptions = None,
    boards: arguments.MatchBoards = 250,
    seed: arguments.Seed = 0,
    save: arguments.SaveGames = None,
    out: Report = None,
    show: Diagrams = 0,
    workers: PoolSize = 0,
    worlds: arguments.Worlds = None,
    seconds: arguments.Seconds = None,
    as_json: arguments.Json = False,
) -> None:
    """Play a bridge match of two partnerships, or two card players of Mini-Bridge.

    A partnership is a bidding system or network, perhaps with a card player. Bidding is scored in
    IMPs a board. With card players, as in natural+search against precision+search, the cards are
    played; otherwise the declarer gets its double-dummy tricks. Card players: search (double dummy
    on sampled deals, weighted by calls and cards), plain_search (without weights), careful and
    rules. Matches of Mini-Bridge are scored in its points.
    """
    from overtrick.evaluation.bidders import split_player

    other, options = _second_player(a, b, options, None if _is_bidding(a, a) else "minibridge")
    bidding = _is_bidding(a, other)
    game = None if bidding else "minibridge"
    asked = _Request(
        a, other, options, game, boards, seed, None, save, out, show, workers, worlds, seconds
    )
    with_cards = not bidding or split_player(a)[1] is not None
    print_result(as_json, **_play(asked, bidding), played=with_cards)


def _second_player(
    a: str, b: str | None, options: list[str] | None, game: str | None
) -> tuple[str, list[str] | None]:
    """Return the second player and the options of a match command.

    `b` may be missing, or the first of the options; the second player is then the champion of the
    game that `a` plays. `game`: needed if `a` plays several. Raises UserError if there is none.
    """
    from overtrick.config.overrides import apply_overrides
    from overtrick.games import registry
    from overtrick.games.bridge.auction.game import Auction
    from overtrick.games.bridge.system.loader import system_names
    from overtrick.storage.champions import champion_of
    from overtrick.studies.match import check_players, choose_game

    if b is not None and ("=" not in b or os.path.exists(b)):
        return b, options
    given = [*([] if b is None else [b]), *(options or [])]
    if _is_bidding(a, a):
        game, asked = Auction.name, {}
    else:
        check_players([a], system_names())
        choice = choose_game(a, a, game, apply_overrides({}, given))
        game, of_match = choice.name, registry.match_options(choice.name, {})
        asked = {name: value for name, value in choice.options.items() if name not in of_match}
    champion = champion_of(game, asked, other_than=a)
    if champion is None:
        with_options = f" with {' '.join(given)}" if given else ""
        raise UserError(f"name an opponent of {a}: {game}{with_options} has no other champion")
    return champion, given or None


def _is_bidding(a: str, b: str) -> bool:
    """Return True if a match is between bidding systems or between networks that bid."""
    from overtrick.evaluation.bidders import find_bidder, is_bidding_system

    named = is_bidding_system(a) or is_bidding_system(b)
    return named or bool(find_bidder(a) and find_bidder(b))


def _play(asked: _Request, bidding: bool) -> dict[str, Any]:
    """Play a match, print the result and return the values for JSON output.

    `bidding`: the players are bidding systems or networks that bid. Raises UserError for an option
    that does not apply to this kind of match.
    """
    from overtrick.core.files import check_output
    from overtrick.studies.duplicate_match import REPORT_SUFFIXES

    for name in ("options", "game", "video") if bidding else _FOR_BIDDING:
        if getattr(asked, name):
            option = name if name == "options" else f"--{name}"
            if bidding:
                raise UserError(f"a match of bidding systems takes no {option}")
            neither = f"neither {asked.a} nor {asked.b} is one"
            raise UserError(f"{option} is an option for bidding systems, and {neither}")
    for path, suffixes in ((asked.save, (".parquet",)), (asked.out, REPORT_SUFFIXES)):
        if path is not None:
            check_output(path, *suffixes)
    return _match_bidders(asked) if bidding else _match_players(asked)


def _match_players(asked: _Request) -> dict[str, Any]:
    """Play a match between two players of a game, print the result and return the JSON values."""
    from overtrick.config.overrides import apply_overrides
    from overtrick.games.bridge.system import loader
    from overtrick.storage import game_records
    from overtrick.studies import match as matches

    a, b, boards = asked.a, asked.b, asked.boards
    matches.check_players((a, b), loader.system_names())
    options, record = apply_overrides({}, asked.options or []), asked.save is not None
    done = matches.play_match(a, b, asked.game, options, boards, asked.seed, asked.video, record)
    if asked.save is not None and done.games is not None:
        game_records.save(asked.save, done.games)
    found, games = done.meeting, 2 * boards
    show(
        f"{a} against {b}: {found.mean:.4f} ± {found.standard_error:.4f} {done.unit} a game; of "
        f"{games} games {found.won:.0f} won, {found.lost:.0f} lost, "
        f"{games - found.won - found.lost:.0f} drawn"
    )
    result = {"mean": found.mean, "standard_error": found.standard_error, "unit": done.unit}
    counts = {"won": found.won, "lost": found.lost}
    return {"a": a, "b": b, "game": done.game, "boards": boards, **result, **counts}


def _match_bidders(asked: _Request) -> dict[str, Any]:
    """Play a duplicate match of two bidders, print the result and return the JSON values.

    A bidder is a bidding system or a trained network.
    """
    from overtrick.distributed.workers import open_pool
    from overtrick.reports.progress import counting
    from overtrick.storage import game_records
    from overtrick.studies import duplicate_match

    a, b, boards = asked.a, asked.b, asked.boards
    ours, theirs = (_with_path(name) for name in (a, b))
    sides = duplicate_match.load_sides(ours, theirs)  # refuses unknown ones before Ray starts
    for option, value in (("--worlds", asked.worlds), ("--seconds", asked.seconds)):
        if value is not None and sides[0].cards is None:
            raise UserError(f"{option} is an option for card players: write BIDDER+search")
    budget = arguments.search_budget(asked.worlds, asked.seconds, a, b)
    bar = counting(console, "boards", boards)
    with open_pool(asked.workers) as pool, bar as progress:
        played = duplicate_match.play_match(
            ours, theirs, boards, asked.seed, pool, progress, budget
        )
    if asked.out is not None:
        duplicate_match.write_report(played, asked.out, asked.show)
    if asked.save is not None:
        game_records.save(asked.save, duplicate_match.recorded_games(played))
    for board in range(min(asked.show, boards)):
        show(f"{duplicate_match.describe_board(played, board)}\n")
    imps = played.boards.imps
    show(
        f"{a} against {b}: {played.mean:+.3f} ± {played.standard_error:.3f} IMPs a board; of "
        f"{boards} boards {(imps > 0).sum()} won, {(imps < 0).sum()} lost, "
        f"{(imps == 0).sum()} flat ({played.matchpoints:.1%} of the matchpoints)"
    )
    result = {"mean": played.mean, "standard_error": played.standard_error}
    return {"a": a, "b": b, "boards": boards, **result, "unit": duplicate_match.UNIT}


def _with_path(name: str) -> str:
    """Return the name of a partnership, with the path of its model in place of a run's name."""
    from overtrick.evaluation.bidders import find_bidder, split_player

    found, (bidder, cards) = find_bidder(name), split_player(name)
    return "+".join([str(found or bidder), *([] if cards is None else [cards])])
