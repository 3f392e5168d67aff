"""A seat for a person: `overtrick play`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Columns

from overtrick.cli import PLAY, app, arguments, console, print_result, say
from overtrick.core import UserError, nearest

if TYPE_CHECKING:
    from overtrick.core import Observations
    from overtrick.interactive.advice import Table
    from overtrick.interactive.session import Finished
    from overtrick.storage.game_records import Move

HELP = "type an action by its name, its first letters or its number; or ? for a hint, undo, quit"


@app.command(rich_help_panel=PLAY)
def play(
    game: arguments.GameName,
    options: arguments.GameOptions = None,
    against: Annotated[
        str | None, typer.Option(help=f"{arguments.PLAYER}; in the auction a bidding system.")
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(help="Auction: bidding system of you and your partner. Default: natural."),
    ] = None,
    seat: Annotated[
        str | None, typer.Option(help="Your seat by number or name. Default: the game's custom.")
    ] = None,
    games: Annotated[int, typer.Option(min=1, help="Games, one after another.")] = 10,
    seed: arguments.Seed = 0,
    letters: arguments.Letters = False,
    keep: arguments.SaveGames = None,
    as_json: arguments.Json = False,
) -> None:
    """Play a game yourself against an opponent.

    Type `?` for a hint: the probability of each action under the opponent's (in the auction your
    partner's) policy, and its value. `undo` takes your last decision back; `quit`, or the end of
    the input, ends with a table of results.
    """
    from overtrick.config.overrides import apply_overrides
    from overtrick.games.bridge.auction.game import Auction
    from overtrick.interactive import session
    from overtrick.interactive.advice import auction_table, table_of
    from overtrick.storage import game_records

    asked = apply_overrides({}, options or [])
    signs = not letters and (console.encoding or "").lower().startswith("utf")
    if system is not None and game != Auction.name:
        raise UserError(f"--system is of the auction, not of {game}")
    if keep is not None:
        game_records.check(keep)
    with console.status(f"laying the table of {game}"):
        if game == Auction.name:
            table = auction_table(system or "natural", against or "natural", asked, signs)
        else:
            table = table_of(game, against, asked, signs)
    chosen = _seat(table, seat)
    sheet = session.Sheet(table)
    say(f"{game} against {table.against}, in {table.game.unit}s; {HELP}")
    try:
        for number in range(games):
            mine = number % table.game.seats if chosen is None else chosen
            say(f"\nGame {1 + number} of {games}: you are {_named(table, mine)}")
            done = session.game(table, mine, seed, number, _Asking(table))
            sheet.games.append(done)
            if keep is not None:  # at once, for a connection may break
                game_records.save(keep, sheet.record())
            say(_end(table, done))
    except session.Left:
        say("\nYou leave; a game that is not over does not count.")
    except KeyboardInterrupt:
        say("\nStopped; a game that is not over does not count.")
    told = sheet.summary()
    _print(told)
    if keep is not None and sheet.games:
        say(f"kept in {keep}: `overtrick view {keep}`")
    print_result(as_json, **told)


class _Asking:
    """Asks for actions by the keyboard, or whatever stands in for it."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __call__(self, observations: Observations, moves: Sequence[Move]) -> int:
        from overtrick.interactive.session import Left, TakenBack

        table = self.table
        assert observations.legal is not None
        legal = [int(action) for action in observations.legal[0].nonzero()[0]]
        names = [table.game.action_names[action] for action in legal]
        numbered = not any(name[0].isdigit() for name in names)
        say(f"\n{table.sees(observations.observation[0], moves)}")
        say(table.offered(names))
        while True:
            word = _read("> ")
            if word is None or word == "quit":
                raise Left
            if word == "undo":
                if any(move.seat == observations.seat[0] for move in moves):
                    raise TakenBack
                say("this is your first decision of the game: there is none to take back")
            elif word in ("?", "hint"):
                console.print(_hint(table, observations))
                if table.basis:
                    say(f"worth by {table.basis}")
            else:
                found = understood(word, names, table.meant(word), numbered)
                if isinstance(found, int):
                    return legal[found]
                say(found)


def understood(word: str, names: Sequence[str], meant: str, numbered: bool) -> int | str:
    """Which of some actions a word means, by its place; or what to say if it means none. meant: the
    word as the game has it."""
    if not word:
        return 0 if len(names) == 1 else HELP
    if numbered and word.isdigit():
        known = 1 <= int(word) <= len(names)
        return int(word) - 1 if known else f"the actions go from 1 to {len(names)}"
    said = meant.lower()
    exact = [place for place, name in enumerate(names) if name.lower() == said]
    begun = [place for place, name in enumerate(names) if name.lower().startswith(said)]
    if len(exact or begun) == 1:
        return (exact or begun)[0]
    if begun:
        return f"'{word}' may be {', '.join(names[place] for place in begun)}: type more of it"
    return f"'{word}' may not be done now: did you mean '{nearest(word, names)}'? {HELP}"


def _read(prompt: str) -> str | None:
    """A line, without what surrounds it; None at the end of the input."""
    try:
        word = console.input(prompt).strip()
    except EOFError:
        return None
    if not sys.stdin.isatty():  # so that a transcript shows what was said
        say(word)
    return word


def _hint(table: Table, observations: Observations) -> Columns:
    """What could be done, how likely who is asked would do it, and what it brings."""
    thoughts = table.thoughts(observations)
    shown = {
        "how likely": any(each.likely is not None for each in thoughts),
        "worth": any(each.worth is not None for each in thoughts),
        "shows": any(each.shows for each in thoughts),
    }
    columns = Columns("action", *(name for name, some in shown.items() if some))
    for each in thoughts:
        cells = (
            "" if each.likely is None else f"{each.likely:.1%}",
            "" if each.worth is None else f"{each.worth:+.3f}",
            each.shows,
        )
        kept = [cell for cell, some in zip(cells, shown.values(), strict=True) if some]
        columns.add_row(table.game.action_names[each.action], *kept)
    return columns


def _seat(table: Table, asked: str | None) -> int | None:
    """The seat that a person asked for, by its number or name. Raises UserError."""
    if asked is None:
        return table.usual
    names = [name.lower() for name in table.seats]
    if asked.lower() not in names:
        raise UserError(f"--seat is {', '.join(table.seats)}, not '{asked}'")
    return names.index(asked.lower())


def _named(table: Table, seat: int) -> str:
    name = table.seats[seat]
    return f"seat {name} of {len(table.seats)}" if name.isdigit() else name


def _end(table: Table, done: Finished) -> str:
    """All cards, and what was won."""
    lost = "" if not done.given_up else f"; {done.given_up:.3f} less than best replies expect"
    return (
        f"\n{table.shows(done.deal, done.moves)}\nyou win {done.points:+g} {table.game.unit}s{lost}"
    )


def _print(told: dict[str, Any]) -> None:
    """The sheet of results."""
    if not told["games"]:
        return
    sheet = Columns("game", "seat", "points", title=f"{told['game']} against {told['against']}")
    exact = told["best"] is not None
    if exact:
        sheet.add_column("given up")
    for row in told["rows"]:
        given_up = [f"{row['given_up']:.3f}"] if exact else []
        sheet.add_row(str(row["game"]), row["seat"], f"{row['points']:+g}", *given_up)
    console.print(sheet)
    error = "" if told["standard_error"] is None else f" ± {told['standard_error']:.3f}"
    say(
        f"{told['points']:+g} {told['unit']}s in {told['games']} games: "
        f"{told['mean']:+.3f}{error} a game"
    )
    if exact:
        say(
            f"in your seats best replies win {told['best']:+.3f} a game from this opponent, and "
            f"the opponent itself would win {told['opponent']:+.3f}; your decisions gave up "
            f"{told['given_up']:.3f} in all, luck aside"
        )
