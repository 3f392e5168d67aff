"""A bridge match over TCP, at two tables in duplicate or at one table in points.

A folder keeps the finished boards. A match that was stopped continues with the first unfinished
board of each table. Deals and our players' random numbers depend on the seed and the board alone,
so that the result is the same unless our players have a time limit.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, TypeAdapter

from overtrick.core import Array, UserError
from overtrick.core.files import write_text
from overtrick.core.json_files import ClosedRecord, read_json
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.bidders import Side
from overtrick.evaluation.standard_error import standard_error
from overtrick.games.bridge import auction_rules, contract_results, scoring
from overtrick.games.bridge.auction.game import DEAL_WIDTH, UNSOLVED
from overtrick.games.bridge.auction_rules import REDOUBLE
from overtrick.games.bridge.boards import (
    ROOMS,
    Board,
    finished_board,
    rotating_dealer_and_vulnerability,
    validated,
)
from overtrick.games.bridge.cards import CARDS, hand_bits, random_deals
from overtrick.games.bridge.formats import pbn_lin
from overtrick.games.bridge.players.card_players import DEFAULT_BUDGET, Budget
from overtrick.games.bridge.trick_rules import NO_CARD, replay_tricks
from overtrick.interactive.bridge_table import messages
from overtrick.interactive.bridge_table.line_stream import open_stream
from overtrick.interactive.bridge_table.messages import SEAT_NAMES
from overtrick.interactive.bridge_table.seat_players import PolicyPlayer
from overtrick.interactive.bridge_table.table_client import TableClient
from overtrick.interactive.bridge_table.table_manager import PlayedBoard, TableManager


class _StoredBoard(ClosedRecord):
    calls: list[Annotated[int, Field(ge=0, le=REDOUBLE)]]
    cards: list[Annotated[int, Field(ge=0, lt=CARDS)]]
    alerts: dict[Annotated[str, Field(pattern=r"^[0-9]{1,3}$")], str]


class _Record(ClosedRecord):
    settings: dict[str, Any]
    boards: list[list[_StoredBoard]]


_RECORD = TypeAdapter(_Record)
REMEDY = "name another folder, or remove it and play again"
TABLES = ("open", "closed")
RECORD = "match.json"


@dataclass(frozen=True)
class MatchSettings:
    """Settings that decide the result of a match; a stopped match continues only with the same.

    a, b: partnerships as `bidders.load_side` takes them, or `program` for players that connect from
    outside. Team a sits North-South at the open table, East-West at the closed one.
    worlds, seconds: effort of our players' searches, see Budget.
    """

    a: str
    b: str
    boards: int
    seed: int = 0
    tables: int = 2
    worlds: int = DEFAULT_BUDGET.worlds
    seconds: float | None = None
    alerts: bool = True


@dataclass(frozen=True)
class Connections:
    """Ports, host and limits of the tables of a match.

    port: of North at the open table; the other seats and the closed table follow, eight in all.
    limit, reconnect: see TableManager.
    """

    port: int = 2000
    host: str = "127.0.0.1"
    limit: float | None = None
    reconnect: float = 0.0

    def ports(self, table: int) -> list[int]:
        """Return the ports of the four seats of a table, 0 open, 1 closed."""
        return [self.port + 4 * table + seat for seat in range(4)]


class BoardResult(NamedTuple):
    """One board at one table: number, deal (74,), calls and cards."""

    number: int
    deal: Array
    played: PlayedBoard

    @property
    def contracts(self) -> auction_rules.Contracts:
        """The final contract."""
        calls = np.array([[*self.played.calls, -1]])
        return auction_rules.final_contracts(calls, self.deal[CARDS : CARDS + 1].astype(np.int64))

    @property
    def is_complete(self) -> bool:
        """Whether the auction has ended, and all cards of its contract were played."""
        auction_rules.check_auction(self.played.calls)
        return len(self.played.cards) == (CARDS if self.contracts.level[0] else 0)

    @property
    def tricks(self) -> int | None:
        """The tricks of the declaring side; None if all passed."""
        contracts = self.contracts
        if not contracts.level[0]:
            return None
        cards = np.full((1, CARDS), NO_CARD)
        cards[0, : len(self.played.cards)] = self.played.cards
        leader = (contracts.declarer + 1) % 4
        hands = hand_bits(self.deal[None, :CARDS])
        return int(replay_tricks(hands, contracts.strain, leader, cards)[0][0])

    @property
    def score(self) -> int:
        """The points of North-South."""
        vulnerable = self.deal[[CARDS + 1]].astype(np.int64)
        tricks = np.array([self.tricks or 0])
        return int(contract_results.north_south_points(self.contracts, vulnerable, tricks)[0])

    def board(self) -> Board:
        """Return the board for a file, with the explanations of alerted calls."""
        board = finished_board(
            self.deal, self.played.calls, self.played.cards, self.tricks, self.number
        )
        explained = {int(call): text for call, text in self.played.alerts.items()}
        return replace(board, explanations=explained, alerted=tuple(sorted(explained)))


def board_deal(settings: MatchSettings, number: int) -> Array:
    """Return the deal (74,) of a board of a match; number: from 1."""
    deal = np.full(DEAL_WIDTH, UNSOLVED, np.int8)
    rng = generator(settings.seed, RngStream.EVALUATE, number)
    deal[:CARDS] = random_deals(1, rng)[0]
    deal[CARDS : CARDS + 2] = np.concatenate(
        rotating_dealer_and_vulnerability(np.array([number - 1]))
    )
    return deal


class TableMatch:
    """A match whose finished boards are kept in a folder.

    sides: partnerships a and b; None for players that connect from outside. on_board: called after
    each board. on_open: called with a table when its ports are open. Raises UserError if the folder
    has a match with other settings.
    """

    def __init__(
        self,
        settings: MatchSettings,
        sides: tuple[Side | None, Side | None],
        folder: Path,
        connections: Connections,
        on_board: Callable[[int, BoardResult], None] = lambda table, result: None,
        on_open: Callable[[int], None] = lambda table: None,
    ) -> None:
        self.settings = settings
        self.sides = sides
        self.folder = folder
        self.connections = connections
        self.on_board = on_board
        self.on_open = on_open
        self.boards: list[list[PlayedBoard]] = [[] for _ in range(settings.tables)]
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file: name a folder for the match")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot create {folder}: {error.strerror}") from None
        if (folder / RECORD).exists():
            self._load()

    def _load(self) -> None:
        """Read the finished boards of a match that was stopped."""
        path = self.folder / RECORD
        stored = read_json(path, _RECORD, REMEDY)
        if {"seconds": None, **stored["settings"]} != asdict(self.settings):
            raise UserError(f"{path} has a match with other settings: name another folder")
        for table, boards in enumerate(stored["boards"][: self.settings.tables]):
            self.boards[table] = [
                PlayedBoard(each["calls"], each["cards"], each["alerts"]) for each in boards
            ]
            for result in self.results(table):
                try:
                    complete = result.number <= self.settings.boards and result.is_complete
                    if not complete or validated(result.board()).tricks != result.tricks:
                        raise UserError("it is not complete")
                except UserError as error:
                    where = f"board {result.number} of the {TABLES[table]} table: {error}"
                    raise UserError(f"{path} is damaged ({where}): {REMEDY}") from None

    def _save(self) -> None:
        """Write the record, and a PBN file of each table."""
        boards = [[each._asdict() for each in table] for table in self.boards]
        record = {"settings": asdict(self.settings), "boards": boards}
        write_text(self.folder / RECORD, json.dumps(record))
        for table, name in enumerate(TABLES[: self.settings.tables]):
            if results := self.results(table):
                path = self.folder / f"{name}.pbn"
                pbn_lin.save(path, [self._named(table, each.board()) for each in results])

    def _named(self, table: int, board: Board) -> Board:
        """Return a board of a table with the names of its players; in duplicate also the room."""
        a, b = (messages.team_name(each) for each in (self.settings.a, self.settings.b))
        players = (a, b, a, b) if table == 0 else (b, a, b, a)
        if self.settings.tables == 1:
            return replace(board, players=players)
        return replace(board, players=players, teams=(a, b), room=ROOMS[table])

    def results(self, table: int) -> list[BoardResult]:
        """Return the finished boards of a table, 0 open, 1 closed."""
        return [
            BoardResult(number, board_deal(self.settings, number), played)
            for number, played in enumerate(self.boards[table], 1)
        ]

    def imps(self) -> Array:
        """Return (B,) the IMPs of team a on the boards finished at both tables."""
        pairs = zip(self.results(0), self.results(1), strict=False)
        margin = np.array([one.score - other.score for one, other in pairs], np.int64)
        return scoring.imps(margin)

    async def run(self) -> None:
        """Play the unfinished boards of all tables at the same time.

        Raises RunError if a player leaves a table for good; the other tables stop too, and the
        finished boards are kept.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for table in range(self.settings.tables):
                    group.create_task(self._run_table(table))
        except* Exception as errors:
            raise errors.exceptions[0] from None

    async def _run_table(self, table: int) -> None:
        """Play the unfinished boards of one table, if there are any."""
        if len(self.boards[table]) >= self.settings.boards:
            return
        a, b = self.settings.a, self.settings.b
        names = (a, b) if table == 0 else (b, a)
        sides = self.sides if table == 0 else self.sides[::-1]
        ports, where = self.connections.ports(table), self.connections
        own = [seat for seat in range(4) if sides[seat % 2] is not None]
        seed, alerts = self.settings.seed, self.settings.alerts
        budget = Budget(self.settings.worlds, self.settings.seconds)
        teams = (messages.team_name(names[0]), messages.team_name(names[1]))
        manager = TableManager(ports, teams, where.host, where.limit, where.reconnect, own)
        await manager.open()
        self.on_open(table)
        clients: list[asyncio.Task[int]] = []
        try:
            for seat, port in enumerate(ports):
                side, other = sides[seat % 2], sides[1 - seat % 2]
                if side is not None:
                    player = PolicyPlayer(side, other or side, budget, seed, alerts)
                    link = await open_stream(where.host, port)
                    client = TableClient(link, player, teams[seat % 2], seat)
                    clients.append(asyncio.create_task(client.run()))
            boards = asyncio.create_task(self._play_boards(table, manager))
            try:
                await asyncio.wait({boards, *clients}, return_when=asyncio.FIRST_COMPLETED)
                for task in clients:  # before the end of the match: one of our players has failed
                    if task.done() and (error := task.exception()) is not None:
                        raise error
                await boards
            finally:
                boards.cancel()
                await asyncio.gather(boards, return_exceptions=True)
        finally:
            await manager.close()
            await asyncio.gather(*clients, return_exceptions=True)

    async def _play_boards(self, table: int, manager: TableManager) -> None:
        """Wait for the players of a table, and play its unfinished boards."""
        await manager.wait_for_players()
        for number in range(len(self.boards[table]) + 1, self.settings.boards + 1):
            played = await manager.play_board(number, board_deal(self.settings, number))
            self.boards[table].append(played)
            self._save()
            self.on_board(table, self.results(table)[-1])


def describe(table: int, result: BoardResult) -> str:
    """Return one line about a finished board at a table."""
    (contract,) = contract_results.describe_contracts(result.contracts)
    tricks = "" if result.tricks is None else f", {result.tricks} tricks"
    return f"board {result.number}, {TABLES[table]} table: {contract}{tricks}: {result.score:+d}"


def seats_to_fill(match: TableMatch, table: int) -> list[str]:
    """Return a line for each seat of a table to which an external program must connect.

    A line has the table, the seat, and the host and port on which the program connects. table: 0
    open, 1 closed.
    """
    settings, connections = match.settings, match.connections
    names = (settings.a, settings.b) if table == 0 else (settings.b, settings.a)
    return [
        f"{TABLES[table]} table, {SEAT_NAMES[seat]}: {connections.host}:{port}"
        for seat, port in enumerate(connections.ports(table))
        if names[seat % 2] == PROGRAM
    ]


PROGRAM = "program"
"""Name of a partnership whose players connect from outside."""


def as_json(match: TableMatch) -> dict[str, Any]:
    """Return the results of a match for JSON output."""
    settings = match.settings
    found: dict[str, Any] = {"a": settings.a, "b": settings.b, "boards": settings.boards}
    if settings.tables == 1:
        scores = [result.score for result in match.results(0)]
        return found | {"mean": float(np.mean(scores)), "standard_error": standard_error(scores),
                        "unit": "point"}  # fmt: skip
    imps = match.imps().tolist()
    return found | {
        "mean": float(np.mean(imps)),
        "standard_error": standard_error(imps),
        "unit": "imp",
    }
