"""Table manager: the server of one bridge table, with four connected players.

It deals the boards, relays calls and cards, and answers illegal ones with an error line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from overtrick.core import Array, RunError, UserError
from overtrick.games.bridge.auction.game import DEAL_DEALER, DEAL_VULNERABLE
from overtrick.games.bridge.auction_rules import NO_SEAT, PASS
from overtrick.games.bridge.board_observation import FIRST_PLAY
from overtrick.games.bridge.board_state import BridgeState
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import TRICKS
from overtrick.games.bridge.game import Bridge
from overtrick.interactive.bridge_table import messages
from overtrick.interactive.bridge_table.line_stream import ConnectionLost, LineStream
from overtrick.interactive.bridge_table.messages import (
    MAX_LINE_LENGTH,
    SEAT_NAMES,
    ProtocolError,
    TableAction,
)

MAX_ERRORS = 50  # wrong lines of one seat on one board
ParsedT = TypeVar("ParsedT")


class PlayedBoard(NamedTuple):
    """Calls and cards of a finished board, and the explanations of alerted calls."""

    calls: list[int]
    cards: list[int]
    alerts: dict[str, str]  # explanation by the index of the call, from 0


class SeatLeft(Exception):
    """A player has left the table."""

    def __init__(self, seat: int) -> None:
        super().__init__(SEAT_NAMES[seat])
        self.seat = seat


class TableManager:
    """Server of one table.

    ports: port of each seat, or four times the same port. teams: names of North-South and
    East-West. limit: seconds for a call or a card; then the table manager acts for the player until
    the end of the board: it passes, or plays the legal card of lowest rank. None: no limit.
    untimed: seats without a limit. reconnect: seconds to wait for a player that has left; the board
    then starts again. Version 18 of the protocol has neither limits nor reconnection.
    """

    def __init__(
        self,
        ports: Sequence[int],
        teams: tuple[str, str],
        host: str = "127.0.0.1",
        limit: float | None = None,
        reconnect: float = 0.0,
        untimed: Collection[int] = (),
    ) -> None:
        self.ports = list(ports)
        self.teams = teams
        self.host = host
        self.limit = limit
        self.reconnect = reconnect
        self.untimed = frozenset(untimed)
        self.late = set[int]()  # seats for which the table manager acts until the end of the board
        self.late_starts = set[int]()  # seats that were not ready in time for some board
        self.returned = set[int]()  # seats whose players have left and come back on this board
        self.links: list[LineStream | None] = [None] * 4
        self.joined = asyncio.Condition()
        self.servers: list[asyncio.Server] = []
        self.game = Bridge()

    async def open(self) -> None:
        """Listen on the ports. Raises UserError for a port that is in use, or a wrong host."""
        for port in sorted(set(self.ports)):
            try:
                server = await asyncio.start_server(
                    partial(self._welcome, port), self.host, port, limit=MAX_LINE_LENGTH
                )
            except (OSError, UnicodeError) as error:
                await self.close()
                why = getattr(error, "strerror", None) or error
                raise UserError(f"cannot listen on {self.host}:{port}: {why}") from None
            self.servers.append(server)

    async def close(self) -> None:
        """End the session: close the ports, tell the players, and close their connections."""
        for server in self.servers:
            server.close()
        links, self.links, self.servers = self.links, [None] * 4, []
        await asyncio.gather(*(self._dismiss(link) for link in links if link is not None))

    async def _dismiss(self, link: LineStream) -> None:
        with suppress(ConnectionLost):
            await link.send(messages.END_OF_SESSION)
        link.close()

    async def wait_for_players(self, seconds: float | None = None) -> None:
        """Wait until all four seats are taken. Raises TimeoutError after `seconds`."""

        async def complete() -> None:
            async with self.joined:
                await self.joined.wait_for(lambda: None not in self.links)

        await asyncio.wait_for(complete(), seconds)

    async def _welcome(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Seat a new client; refuse it in one line if its first messages are wrong."""
        link = LineStream(reader, writer)
        try:
            team, wanted = messages.parse_connect(await link.receive(60))
            seat = self._free_seat(port, wanted)
            await link.send(messages.format_seated(seat, team))
            messages.parse_ready(await link.receive(60), seat, "for teams")
            await link.send(messages.format_teams(*self.teams))
            messages.parse_ready(await link.receive(60), seat, "to start")
            self._check_free(seat)
        except (ProtocolError, TimeoutError) as error:
            await self._refuse(link, str(error) or "no message within a minute")
            return
        except ConnectionLost:
            return
        async with self.joined:
            if not self.servers:  # the session has ended while this task waited
                link.close()
                return
            if self.links[seat] is not None:
                self.returned.add(seat)
            self.late_starts.discard(seat)
            self.links[seat] = link
            self.joined.notify_all()

    def _free_seat(self, port: int, wanted: int | None) -> int:
        """Return the seat of a client. Raises ProtocolError for a wrong or taken seat."""
        seats = [seat for seat, each in enumerate(self.ports) if each == port]
        if wanted is None and len(seats) > 1:
            raise ProtocolError("this port has several seats: name one")
        seat = seats[0] if wanted is None else wanted
        if seat not in seats:
            raise ProtocolError(f"this port is the seat of {SEAT_NAMES[seats[0]]}")
        self._check_free(seat)
        return seat

    def _check_free(self, seat: int) -> None:
        """Raise ProtocolError if a player is connected to a seat, or the session has ended."""
        if not self.servers:
            raise ProtocolError("the session has ended")
        link = self.links[seat]
        if link is not None and not link.ended:
            raise ProtocolError(f"{SEAT_NAMES[seat]} is taken")

    async def _refuse(self, link: LineStream, why: str) -> None:
        with suppress(ConnectionLost):
            await link.send(f"Error: {why}")
        link.close()

    async def play_board(self, number: int, deal: Array) -> PlayedBoard:
        """Play one board; start it again if a player that has left comes back in time.

        deal: (74,) as in the game `bridge`. Raises RunError if a player has left for good.
        """
        while True:
            self.returned.clear()
            try:
                return await self._play_board(number, deal)
            except SeatLeft as left:
                if left.seat in self.returned:
                    continue
                link, self.links[left.seat] = self.links[left.seat], None
                if link is not None:
                    link.close()
                try:
                    if self.reconnect <= 0:
                        raise TimeoutError
                    await self.wait_for_players(self.reconnect)
                except TimeoutError:
                    raise RunError(f"{left} has left the table on board {number}") from None

    async def _play_board(self, number: int, deal: Array) -> PlayedBoard:
        state, played = self.game.start(deal[None].astype(np.int8)), PlayedBoard([], [], {})
        dealer, vulnerable = int(deal[DEAL_DEALER]), int(deal[DEAL_VULNERABLE])
        self.errors = [0] * 4
        self.late.clear()
        board = messages.format_deal(messages.BoardHeader(number, dealer, vulnerable))
        await _together(self._start_board(seat) for seat in range(4))
        await _together(self._tell(seat, board, "for cards") for seat in range(4))
        for seat in range(4):
            await self._send(
                seat, messages.format_hand(SEAT_NAMES[seat], int(state.dealt[0, seat]))
            )
        while len(observations := self.game.observe(state)):
            assert observations.legal is not None
            legal = observations.legal[0]
            actor = int(observations.seat[0])
            calling = state.declarer[0] == NO_SEAT
            owner = actor if calling else self._owner(state)
            if not calling and len(played.cards) % 4 == 0:
                await self._send(actor, self._to_lead(state, owner))
            made = await self._receive_action(actor, owner, legal)
            if calling:
                if made.explanation is not None:
                    played.alerts[str(len(played.calls))] = made.explanation
                played.calls.append(made.action)
                what = f"for {SEAT_NAMES[owner]}'s bid"
            else:
                played.cards.append(made.action - FIRST_PLAY)
                trick = (len(played.cards) - 1) // 4 + 1
                dummy = owner == (state.declarer[0] + 2) % 4
                what = f"for {'dummy' if dummy else SEAT_NAMES[owner]}'s card to trick {trick}"
            await self._relay(actor, what, made)
            self.game.step(state, observations, np.array([made.action]))
            if len(played.cards) == 1:
                await self._show_dummy(state)
        return played

    def _owner(self, state: BridgeState) -> int:
        """Return the seat whose hand is to play."""
        return int(state.declarer[0] + state.progress[0, kernels.TURN]) % 4

    def _to_lead(self, state: BridgeState, owner: int) -> str:
        name = "Dummy" if owner == (state.declarer[0] + 2) % 4 else SEAT_NAMES[owner]
        return f"{name} to lead"

    async def _show_dummy(self, state: BridgeState) -> None:
        """Send dummy's cards to the other three players, each when it is ready."""
        dummy = (int(state.declarer[0]) + 2) % 4
        line = messages.format_hand("Dummy", int(state.dealt[0, dummy]))
        others = [seat for seat in range(4) if seat != dummy]
        await _together(self._answer(seat, "for dummy", line) for seat in others)

    async def _relay(self, actor: int, what: str, made: TableAction) -> None:
        """Send a call or a card to the three other players, each when it is ready.

        The partner is not told the explanation of an alerted call.
        """
        name = SEAT_NAMES[made.seat]
        alerted = messages.format_action(name, made.action, made.explanation)
        plain = messages.format_action(name, made.action)
        await _together(
            self._answer((actor + k) % 4, what, plain if k == 2 else alerted) for k in (1, 2, 3)
        )

    async def _start_board(self, seat: int) -> None:
        """Announce a board to a player, and wait until it is ready.

        Its earlier messages, about a board that starts again, are dropped.
        """
        await self._send(seat, messages.START_OF_BOARD)
        try:
            while not await self._receive(seat, lambda line: _is_ready_for_deal(line, seat)):
                pass
        except TimeoutError:
            self.late.add(seat)
            self.late_starts.add(seat)
            await self._send(seat, messages.TOO_LATE)

    async def _tell(self, seat: int, line: str, what: str) -> None:
        """Send a line to a player, and wait until it is ready."""
        await self._send(seat, line)
        await self._wait_until_ready(seat, what)

    async def _answer(self, seat: int, what: str, line: str) -> None:
        """Wait until a player is ready, and send it a line."""
        await self._wait_until_ready(seat, what)
        await self._send(seat, line)

    async def _wait_until_ready(self, seat: int, what: str) -> None:
        """Wait for a player's message; do not wait for a player that is late on this board."""

        def parse(line: str) -> None:
            messages.parse_ready(line, seat, what)

        if seat in self.late:
            return
        try:
            await self._receive(seat, parse)
        except TimeoutError:
            self.late.add(seat)
            await self._send(seat, messages.TOO_LATE)

    async def _receive_action(self, actor: int, owner: int, legal: Array) -> TableAction:
        """Return a legal call or card of a player; of a late player a pass or the lowest card.

        actor: the player. owner: the seat whose call or card it is. legal: (90,) bool.
        """

        def parse(line: str) -> TableAction:
            made = messages.parse_action(line)
            if made.seat not in (owner, actor):
                turn, other = SEAT_NAMES[owner], SEAT_NAMES[made.seat]
                raise ProtocolError(f"it is {turn}'s turn, not {other}'s")
            if not legal[made.action]:
                raise ProtocolError(f"illegal: '{line[:60]}'")
            return made._replace(seat=owner)

        if actor not in self.late:
            try:
                return await self._receive(actor, parse)
            except TimeoutError:
                self.late.add(actor)
                await self._send(actor, messages.TOO_LATE)
        possible = np.flatnonzero(legal)
        lowest = int(possible[np.argmin((possible - FIRST_PLAY) % TRICKS)])
        return TableAction(owner, PASS if legal[PASS] else lowest, None)

    async def _receive(self, seat: int, parse: Callable[[str], ParsedT]) -> ParsedT:
        """Return a player's next message that can be parsed; answer others with one line each.

        A player that was late for a board may still say that it is ready for it: this is dropped.
        Raises TimeoutError after the time limit, and SeatLeft if the player has gone.
        """
        link = self.links[seat]
        loop = asyncio.get_running_loop()
        timed = self.limit is not None and seat not in self.untimed
        end = loop.time() + (self.limit or 0) if timed else None
        while link is not None and seat not in self.returned:
            left = None if end is None else max(end - loop.time(), 0.0)
            line = ""
            try:
                line = await link.receive(left)
                return parse(line)
            except ProtocolError as error:
                if seat in self.late_starts and _is_ready_for_deal(line, seat):
                    continue  # the late answer to an earlier board
                self.errors[seat] += 1
                if self.errors[seat] > MAX_ERRORS:
                    break
                await self._send(seat, f"Error: {error}")
            except ConnectionLost:
                break
        raise SeatLeft(seat)

    async def _send(self, seat: int, line: str) -> None:
        """Send one line to a player. Raises SeatLeft if it has gone."""
        link = self.links[seat]
        try:
            if link is None or seat in self.returned:
                raise ConnectionLost
            await link.send(line)
        except ConnectionLost:
            raise SeatLeft(seat) from None


def _is_ready_for_deal(line: str, seat: int) -> bool:
    """Return whether a player says that it is ready for the deal of a board."""
    try:
        messages.parse_ready(line, seat, "for deal")
    except ProtocolError:
        return False
    return True


async def _together(parts: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at the same time; if one raises SeatLeft, cancel the others and raise it."""
    try:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)
    except* SeatLeft as left:
        raise left.exceptions[0] from None
