"""Client of a bridge table: one player at one seat of a table manager."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from overtrick.core import Observations, RunError
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import NO_SEAT
from overtrick.games.bridge.board_observation import (
    FIRST_PLAY,
    acting_seat,
    declaring_seat,
    encode_observation,
)
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.trick_rules import beats
from overtrick.interactive.bridge_table import messages
from overtrick.interactive.bridge_table.line_stream import ConnectionLost, LineStream
from overtrick.interactive.bridge_table.messages import SEAT_NAMES, BoardHeader, ProtocolError


class SeatPlayer(Protocol):
    """A player at a table."""

    def start_board(self, seat: int, board: BoardHeader) -> None:
        """Prepare for a new board."""

    async def choose(self, observations: Observations) -> tuple[int, str | None]:
        """Return the action for one observation of the game `bridge`.

        The second value explains the call if it is alerted, else it is None.
        """

    def hear(self, seat: int, action: int, explanation: str | None) -> None:
        """Receive a call or a card of another player, with the explanation of an alerted call."""


class _NewBoard(Exception):
    """The table manager starts a board, perhaps again before its end."""


class _ActedTooLate(Exception):
    """The table manager has acted for this player, because the player was too late."""


class _EndOfSession(Exception):
    """The table manager has ended the session."""


class TableClient:
    """One player at a seat of a table manager.

    link: the open connection. team: the team's name. seat: None takes the seat of the port.
    """

    def __init__(
        self, link: LineStream, player: SeatPlayer, team: str, seat: int | None = None
    ) -> None:
        self.link = link
        self.player = player
        self.team = team
        self.seat = seat
        self.name = ""  # of the seat, in the server's case
        self.boards = 0  # boards finished
        self.game = Bridge()

    async def run(self) -> int:
        """Play until the session ends; return the number of finished boards.

        Raises RunError if the table manager refuses the player or breaks the protocol.
        """
        try:
            await self._join()
            await self._wait_for_board()
            while True:
                try:
                    await self._play_board()
                    self.boards += 1
                    await self._wait_for_board()
                except _NewBoard:
                    continue
                except _ActedTooLate:
                    await self._skip_board()
        except _EndOfSession:
            return self.boards
        except ConnectionLost:
            raise RunError("the table manager has closed the connection") from None
        except ProtocolError as error:
            raise RunError(f"the table manager breaks the protocol: {error}") from None
        finally:
            self.link.close()

    async def _join(self) -> None:
        await self.link.send(messages.format_connect(self.team, self.seat))
        self.name = messages.parse_seated(await self._line())
        self.seat = messages.seat_of(self.name)
        await self._ready("for teams")
        messages.parse_teams(await self._line())
        await self._ready("to start")

    async def _line(self) -> str:
        """Return the next line of the table manager.

        Lines about times are dropped. Raises RunError for an error, _NewBoard at the start of a
        board, and _EndOfSession at the end.
        """
        while True:
            line = await self.link.receive()
            low = " ".join(line.lower().split())
            if low.startswith("timing"):
                continue
            if low == messages.TOO_LATE.lower():
                raise _ActedTooLate
            if low.startswith("error"):
                raise RunError(f"the table manager says: {line}")
            if low.rstrip(".") == messages.START_OF_BOARD.lower():
                raise _NewBoard
            if low.rstrip(".") == messages.END_OF_SESSION.lower():
                raise _EndOfSession
            return line

    async def _ready(self, what: str) -> None:
        await self.link.send(messages.format_ready(self.name, what))

    async def _skip_board(self) -> None:
        """Drop all messages until the start of the next board: the table acts for this player."""
        while True:
            try:
                await self._line()
            except _NewBoard:
                return
            except (_ActedTooLate, RunError):  # errors about the answer that was late
                continue

    async def _wait_for_board(self) -> None:
        """Wait for the start of a board. Raises ProtocolError for another message."""
        try:
            line = await self._line()
        except _NewBoard:
            return
        raise ProtocolError(f"expected {messages.START_OF_BOARD}, not '{line[:60]}'")

    async def _play_board(self) -> None:
        """Play one board, after its start has been announced."""
        await self._ready("for deal")
        deal = messages.parse_deal(await self._line())
        await self._ready("for cards")
        own = messages.parse_hand(await self._line(), self.name)
        assert self.seat is not None
        self.player.start_board(self.seat, deal)
        calls = await self._auction(deal, own)
        state = auction_rules.states_after(np.array([[*calls, -1]]), np.array([deal.dealer]))[0]
        declarer = int(declaring_seat(state))
        if declarer != NO_SEAT:
            strain = int(state[auction_rules.LAST_BID]) % 5
            await self._play(deal, own, calls, declarer, strain)

    async def _auction(self, deal: BoardHeader, own: int) -> list[int]:
        """Make and hear the calls of one board; return them."""
        calls = list[int]()
        state = np.empty(auction_rules.STATE_WIDTH, np.int64)
        auction_rules.start_auction(state, deal.dealer)
        while not auction_rules.auction_over(state):
            seat = int(state[auction_rules.NEXT_SEAT])
            if seat == self.seat:
                calls.append(await self._act(deal, own, 0, calls, []))
            else:
                await self._ready(f"for {self._called(seat)}'s bid")
                calls.append(await self._hear(seat, seat))
                if not auction_rules.is_legal_call(state, calls[-1]):
                    raise ProtocolError(f"illegal call of {SEAT_NAMES[seat]}")
            auction_rules.make_call(state, calls[-1])
        return calls

    async def _play(
        self, deal: BoardHeader, own: int, calls: list[int], declarer: int, strain: int
    ) -> None:
        """Play and hear the 52 cards of one board."""
        dummy, open_cards, cards = (declarer + 2) % 4, 0, list[int]()
        leader = (declarer + 1) % 4
        for trick in range(1, 14):
            best = 0
            for place in range(4):
                owner = (leader + place) % 4
                actor = acting_seat(declarer, (owner - declarer) % 4)
                if actor == self.seat:
                    if place == 0:
                        await self._line()  # SEAT to lead
                    cards.append(
                        await self._act(deal, own, open_cards, calls, cards, owner) - FIRST_PLAY
                    )
                else:
                    name = "Dummy" if owner == dummy else self._called(owner)
                    await self._ready(f"for {name}'s card to trick {trick}")
                    card = await self._hear(owner, actor) - FIRST_PLAY
                    possible = ~(own | open_cards)
                    if owner == dummy:
                        possible = own if self.seat == dummy else open_cards
                    if card < 0 or card in cards or not possible >> card & 1:
                        raise ProtocolError(f"illegal card of {SEAT_NAMES[owner]}")
                    cards.append(card)
                if len(cards) == 1 and self.seat != dummy:
                    await self._ready("for dummy")
                    open_cards = messages.parse_hand(await self._line(), "Dummy")
                if place and beats(cards[-1], cards[4 * (trick - 1) + best], strain):
                    best = place
            leader = (leader + best) % 4

    def _called(self, seat: int) -> str:
        """Return the name of a seat in the case of the server."""
        return SEAT_NAMES[seat].upper() if self.name.isupper() else SEAT_NAMES[seat]

    async def _act(
        self, deal: BoardHeader, own: int, dummy: int, calls: list[int], cards: list[int],
        owner: int | None = None,
    ) -> int:  # fmt: skip
        """Let the player choose, send its call or card, and return the action."""
        assert self.seat is not None
        row = encode_observation(self.seat, deal.dealer, deal.vulnerable, own, dummy, calls, cards)
        observations = self.game.validated_observations(row[None])
        action, explanation = await self.player.choose(observations)
        name = self.name if owner is None else self._called(owner)
        await self.link.send(messages.format_action(name, action, explanation))
        return action

    async def _hear(self, owner: int, actor: int) -> int:
        """Return the next call or card of another player, of the hand of seat `owner`."""
        made = messages.parse_action(await self._line())
        if made.seat not in (owner, actor):
            raise ProtocolError(f"it is {SEAT_NAMES[owner]}'s turn, not {SEAT_NAMES[made.seat]}'s")
        self.player.hear(owner, made.action, made.explanation)
        return made.action
