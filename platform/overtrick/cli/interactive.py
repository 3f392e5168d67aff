"""Command `overtrick play`: play a game from the terminal."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Option

from overtrick.cli import PLAY, app, arguments, console, print_result, show
from overtrick.core import UserError

if TYPE_CHECKING:
    from overtrick.core import Observations
    from overtrick.interactive.human_game import HumanGame
    from overtrick.interactive.session import PlayedGame
    from overtrick.storage.game_records import Move

    OnGameEnd = Callable[[PlayedGame], None]


def _help(numbered: bool) -> str:
    """Return a line that says how to answer. `numbered`: actions may be typed by number."""
    ways = "its name, its first letters or its number" if numbered else "its name or first letters"
    return f"type an action by {ways}; or ? for a hint, undo, quit"


@app.command(rich_help_panel=PLAY)
def play(
    game: arguments.GameName,
    options: arguments.GameOptions = None,
    against: Annotated[
        str | None, Option(help=f"{arguments.PLAYER}. Auction: as for --system.")
    ] = None,
    system: Annotated[
        str | None,
        Option(
            help="Auction: your partner, a bidding system, champion:NAME or model. Default: the "
            "champion."
        ),
    ] = None,
    seat: Annotated[str | None, Option(help="Your seat, by number or name.")] = None,
    games: Annotated[int, Option(min=1, max=arguments.MOST, help="Games, one after another.")] = 10,
    seed: arguments.Seed = 0,
    letters: arguments.Letters = False,
    keep: arguments.SaveGames = None,
    screen: Annotated[
        bool, Option("--screen", help="Play full-screen, with buttons and the mouse.")
    ] = False,
    as_json: arguments.Json = False,
) -> None:
    """Play a game yourself against an opponent.

    Type `?` for a hint. It lists each action's value, and its probability under the opponent's
    policy (in the auction: under your partner's policy). `undo` takes your last decision back.
    `quit`, or the end of the input, ends the session with a table of results.
    """
    from overtrick.config.overrides import apply_overrides
    from overtrick.core.files import check_output
    from overtrick.evaluation.bidders import default_bidder
    from overtrick.games.bridge.auction.game import Auction
    from overtrick.interactive import session
    from overtrick.interactive.auction_game import make_auction_game
    from overtrick.interactive.human_game import make_human_game
    from overtrick.storage import game_records

    asked = apply_overrides({}, options or [])
    signs = not letters and (console.encoding or "").lower().startswith("utf")
    if system is not None and game != Auction.name:
        raise UserError(f"--system is an option of the auction, not of {game}")
    if keep is not None:
        check_output(keep, ".parquet")
    with console.status(f"preparing {game}"):
        if game == Auction.name:
            bidders = system or default_bidder(), against or default_bidder()
            table = make_auction_game(*bidders, asked, signs)
        else:
            table = make_human_game(game, against, asked, signs)
    fixed = _seat_number(table, seat)
    seats = [number % table.game.seats if fixed is None else fixed for number in range(games)]
    sheet = session.ScoreSheet(table)

    def add_game(done: PlayedGame) -> None:
        sheet.games.append(done)
        if keep is not None:  # after each game: a connection may break
            game_records.save(keep, sheet.record())

    if screen:
        _play_full_screen(table, seats, seed, add_game)
    else:
        _play_line_by_line(table, seats, seed, add_game)
    summary = sheet.summary()
    _print_summary(summary)
    if keep is not None and sheet.games:
        show(f"saved in {keep}: `overtrick view {keep}`")
    print_result(as_json, **summary)


def _play_line_by_line(
    table: HumanGame, seats: Sequence[int], seed: int, on_game_end: OnGameEnd
) -> None:
    """Play a game for each seat of the person, line by line, until the person quits.

    `on_game_end`: called after each game.
    """
    from overtrick.interactive.session import QuitRequested, play_game

    ways = _help(table.presentation.numbered_actions)
    show(f"{table.game.name} against {table.against}, in {table.game.unit}s; {ways}")
    try:
        for number, own in enumerate(seats):
            show(f"\nGame {1 + number} of {len(seats)}: you are {table.seat_name(own)}")
            done = play_game(table, own, seed, number, _AskAtTerminal(table))
            on_game_end(done)
            show(f"\n{table.presentation.describe_deal(done.deal, done.moves)}")
            show(done.describe_result(table.game.unit))
    except (QuitRequested, KeyboardInterrupt):
        show("\nAn unfinished game does not count.")


def _play_full_screen(
    table: HumanGame, seats: Sequence[int], seed: int, on_game_end: OnGameEnd
) -> None:
    """Play a game for each seat of the person, full-screen, until the person quits.

    `on_game_end`: called after each game.
    """
    from overtrick.interactive.game_app import GameApp

    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError("--screen needs a terminal: leave it out to play line by line")
    app = GameApp(table, seats, seed, on_game_end)
    app.run()
    if app.error is not None:
        raise app.error


class _AskAtTerminal:
    """Callable that asks the person at the terminal (or standard input) for an action."""

    def __init__(self, table: HumanGame) -> None:
        self.table = table
        if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
            sys.stdin.reconfigure(errors="replace")  # bytes that are not text are no error

    def __call__(self, observations: Observations, moves: Sequence[Move]) -> int:
        """Ask for an action and return the action's index.

        `observations`: one row, the person's decision. `moves`: the actions of the game so far.
        Raises UndoRequested or QuitRequested if the person types "undo" or "quit".
        """
        from overtrick.interactive.session import QuitRequested, UndoRequested

        table = self.table
        assert observations.legal is not None
        legal = [int(action) for action in observations.legal[0].nonzero()[0]]
        names = table.game.action_names
        show(f"\n{table.describe_observation(observations.observation[0], moves)}")
        show(table.presentation.format_actions(legal))
        while True:
            word = _read_line("> ")
            if word is None or word == "quit":
                raise QuitRequested
            if word == "undo":
                if any(move.seat == observations.seat[0] for move in moves):
                    raise UndoRequested
                show("this is your first decision of the game: there is none to take back")
            elif word in ("?", "hint"):
                show(_hint(table, observations))
                if table.value_source:
                    show(f"value: {table.value_source}")
            else:
                meant = table.presentation.action_name_of(word)
                found = parse_action(word, names, legal, meant, table.presentation.numbered_actions)
                if isinstance(found, int):
                    return found
                show(found)


def parse_action(
    word: str, names: Sequence[str], legal: Sequence[int], meant: str, numbered: bool
) -> int | str:
    """Return the action that a person typed, or else a message to print.

    `word`: the text that the person typed. `names`: the names of all actions of the game. `legal`:
    the indices of the legal actions. `meant`: equals `word`, or the name of an action if `word` is
    a synonym. `numbered`: also accept the number of an action, its index plus 1.
    """
    if not word:
        return legal[0] if len(legal) == 1 else _help(numbered)
    if numbered and word.isdigit():
        by_number = {str(1 + action): action for action in legal}
        wrong = f"{word} is not a legal action here: type one of {', '.join(by_number)}"
        return by_number.get(word, wrong)
    prefix = meant.lower()
    exact = [action for action in legal if names[action].lower() == prefix]
    begun = [action for action in legal if names[action].lower().startswith(prefix)]
    if len(exact or begun) == 1:
        return (exact or begun)[0]
    if begun:
        return f"'{word}' may be {', '.join(names[k] for k in begun)}: type more of it"
    allowed = ", ".join(names[action] for action in legal)
    return f"'{word}' is not possible now; legal actions: {allowed}\n{_help(numbered)}"


def _read_line(prompt: str) -> str | None:
    """Read a line of input, without blanks at both ends; return None at the end of the input."""
    if sys.stdin is None:  # closed
        return None
    try:
        word = console.input(prompt).strip()
    except EOFError:
        return None
    if not sys.stdin.isatty():  # show the input in a transcript, too
        show(word)
    return word


def _hint(table: HumanGame, observations: Observations) -> Table:
    """Return a table of advice for a decision: each action with its probability and value.

    `observations`: one row, the person's decision.
    """
    from overtrick.interactive.human_game import advice_rows

    headings, *rows = advice_rows(table, observations)
    shown = Table(*headings)
    for cells in rows:
        shown.add_row(*cells)
    return shown


def _seat_number(table: HumanGame, asked: str | None) -> int | None:
    """Return the index of the person's seat; None: the person changes seats from game to game.

    `asked`: the number or name of a seat; None: the game's default. Raises UserError for an unknown
    seat.
    """
    if asked is None:
        return table.presentation.default_human_seat()
    seats = table.presentation.seat_names()
    names = [name.lower() for name in seats]
    if asked.lower() not in names:
        raise UserError(f"--seat is {', '.join(seats)}, not '{asked}'")
    return names.index(asked.lower())


def _print_summary(summary: dict[str, Any]) -> None:
    """Print the results of a session as a table; print nothing if no game was finished.

    `summary`: the result of `ScoreSheet.summary`.
    """
    if not summary["games"]:
        return
    title = f"{summary['game']} against {summary['against']}"
    exact = summary["best"] is not None
    unit = f"{summary['unit']}s"
    sheet = Table("game", "seat", unit, *(["given up"] if exact else []), title=title)
    for row in summary["rows"]:
        given_up = [f"{row['given_up']:.3f}"] if exact else []
        sheet.add_row(str(row["game"]), row["seat"], f"{row['points']:+g}", *given_up)
    show(sheet)
    error = "" if summary["standard_error"] is None else f" ± {summary['standard_error']:.3f}"
    plural = "" if summary["games"] == 1 else "s"
    show(
        f"{summary['points']:+g} {summary['unit']}s in {summary['games']} game{plural}: "
        f"{summary['mean']:+.3f}{error} a game"
    )
    if exact:
        show(
            f"in your seats best replies win {summary['best']:+.3f} a game from this opponent, and "
            f"the opponent itself would win {summary['opponent']:+.3f}; your decisions gave up "
            f"{summary['given_up']:.3f} {summary['unit']}s in all, compared with best replies"
        )
