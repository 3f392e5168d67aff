"""Commands `overtrick bridge table` and `overtrick bridge sit`: matches over TCP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from overtrick.cli import arguments, bridge, console, print_result, show
from overtrick.core import UserError

if TYPE_CHECKING:
    from overtrick.games.bridge.players.card_players import Budget

Host = Annotated[str, Option(help="Address of the table manager; by default this machine only.")]
Alerts = Annotated[bool, Option(help="Our players explain artificial calls.")]


@bridge.group.command("table")
def table(
    a: Annotated[
        str,
        Argument(
            help="Team that sits North-South at the open table: BIDDER+CARD_PLAYER, such as "
            "natural+search, or program: players that connect from outside."
        ),
    ],
    b: Annotated[str, Argument(help="The other team: BIDDER+CARD_PLAYER, or program.")],
    out: Annotated[Path, Option(help="Folder of the match, in which a stopped match continues.")],
    boards: Annotated[int, Option(min=1, max=arguments.MOST, help="Boards.")] = 16,
    seed: arguments.Seed = 0,
    tables: Annotated[int, Option(min=1, max=2, help="2: a duplicate match; 1: one table.")] = 2,
    port: Annotated[
        int, Option(min=1, max=65528, help="Port of North at the open table; seven more follow.")
    ] = 2000,
    host: Host = "127.0.0.1",
    limit: Annotated[
        float | None,
        Option(
            min=0.1,
            help="Seconds for a call or card; then the table passes or plays the lowest card.",
        ),
    ] = None,
    reconnect: Annotated[
        float, Option(min=0, help="Seconds to wait for a player that has left.")
    ] = 0.0,
    worlds: arguments.Worlds = None,
    seconds: arguments.Seconds = None,
    alerts: Alerts = True,
    as_json: arguments.Json = False,
) -> None:
    """Host a bridge match over TCP, by the Blue Chip Bridge protocol, version 18.

    A team is one of our own, as in natural+search, or `program`: its players connect from outside,
    each to the port of its seat. Card players are search, plain_search, careful and rules. The
    folder keeps the boards in PBN files. By default only this machine can connect. The protocol has
    no time limits and no reconnection; --limit and --reconnect add them.
    """
    from overtrick.core.files import local_path
    from overtrick.evaluation.bidders import load_side
    from overtrick.interactive.bridge_table import table_match
    from overtrick.interactive.bridge_table.table_match import PROGRAM

    sides = [None if name == PROGRAM else load_side(name) for name in (a, b)]
    for option, value in (("--limit", limit), ("--reconnect", reconnect)):
        if value and None not in sides:
            raise UserError(
                f"{option} needs players from outside: leave it out, or set a team to {PROGRAM}"
            )
    budget = arguments.search_budget(worlds, seconds, a, b)
    settings = table_match.MatchSettings(
        a, b, boards, seed, tables, budget.worlds, budget.seconds, alerts
    )
    connections = table_match.Connections(port, host, limit, reconnect)

    def report(at: int, result: table_match.BoardResult) -> None:
        console.print(table_match.describe(at, result), markup=False, highlight=False)

    def announce(at: int) -> None:
        for line in table_match.seats_to_fill(match, at):
            console.print(f"waiting for a player: {line}", markup=False, highlight=False)

    folder, pair = local_path(out, "--out"), (sides[0], sides[1])
    match = table_match.TableMatch(settings, pair, folder, connections, report, announce)
    asyncio.run(match.run())
    found = table_match.as_json(match)
    error = "" if found["standard_error"] is None else f" ± {found['standard_error']:.3f}"
    what = "IMPs" if found["unit"] == "imp" else "points to North-South"
    show(f"{a} against {b}: {found['mean']:+.3f}{error} {what} a board, {boards} boards; {out}")
    print_result(as_json, **found, path=str(out))


@bridge.group.command("sit")
def sit(
    player: Annotated[
        str,
        Argument(
            help="BIDDER+CARD_PLAYER, such as natural+search, or person: you, in the terminal."
        ),
    ],
    port: Annotated[int, Option(min=1, max=65535, help="Port of the seat.")] = 2000,
    host: Host = "127.0.0.1",
    seat: Annotated[str | None, Option(help="N, E, S or W. Default: the seat of the port.")] = None,
    team: Annotated[str | None, Option(help="Name of the team. Default: the player.")] = None,
    against: Annotated[
        str | None,
        Option(help="Bidding system that our player assumes for its opponents. Default: its own."),
    ] = None,
    seed: arguments.Seed = 0,
    worlds: arguments.Worlds = None,
    seconds: arguments.Seconds = None,
    alerts: Alerts = True,
    letters: arguments.Letters = False,
    as_json: arguments.Json = False,
) -> None:
    """Take a seat at a bridge table, of `overtrick bridge table` or of another table manager.

    A person sees the alerts, and types calls such as 1NT, pass or dbl, and cards such as S7.
    """
    from overtrick.interactive.bridge_table import messages
    from overtrick.interactive.bridge_table.line_stream import open_stream
    from overtrick.interactive.bridge_table.table_client import TableClient

    name = messages.check_team(team) if team else messages.team_name(player)
    taken = None
    if seat is not None:
        if seat.upper() not in tuple("NESW"):
            raise UserError(f"--seat is N, E, S or W, not '{seat}'")
        taken = "NESW".index(seat.upper())
    budget = arguments.search_budget(worlds, seconds, player)
    ours = _seat_player(player, against, seed, budget, alerts, letters)

    async def play() -> int:
        link = await open_stream(host, port)
        return await TableClient(link, ours, name, taken).run()

    finished = asyncio.run(play())
    show(f"{finished} boards finished")
    print_result(as_json, player=player, boards=finished)


def _seat_player(
    player: str, against: str | None, seed: int, budget: Budget, alerts: bool, letters: bool
) -> Any:
    """Return the player of a seat by name, or a person at the terminal.

    Raises UserError for an option that this player does not use.
    """
    from overtrick.evaluation.bidders import load_side
    from overtrick.interactive.bridge_table.seat_players import HumanPlayer, PolicyPlayer

    if player == "person":
        if against is not None:
            raise UserError("--against is an option for our players: leave it out for a person")

        def ask(text: str) -> str:
            show(text)
            try:
                return input("> ")
            except EOFError:
                raise UserError("no more input: a person's seat needs a terminal") from None

        return HumanPlayer(ask, not letters)
    if letters:
        raise UserError(f"--letters is an option for a person: leave it out for {player}")
    side = load_side(player)
    other = load_side(against) if against else side
    return PolicyPlayer(side, other, budget, seed, alerts)
