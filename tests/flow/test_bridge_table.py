"""Bridge over TCP: the messages, the table manager, our client, and OpenSpiel's controller."""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

import numpy as np
import pyspiel
import pytest
from open_spiel.python.bots import bluechip_bridge

from overtrick import cli
from overtrick.core import RunError, UserError
from overtrick.evaluation.bidders import load_side
from overtrick.games.bridge.auction_rules import CALLS, DOUBLE, PASS
from overtrick.games.bridge.board_observation import FIRST_PLAY
from overtrick.games.bridge.cards import CARD_NAMES, parse_hand
from overtrick.games.bridge.formats import pbn_lin
from overtrick.interactive.bridge_table import line_stream, messages, table_match
from overtrick.interactive.bridge_table.line_stream import ConnectionLost, LineStream, open_stream
from overtrick.interactive.bridge_table.messages import BoardHeader, ProtocolError, TableAction
from overtrick.interactive.bridge_table.seat_players import HumanPlayer, PolicyPlayer
from overtrick.interactive.bridge_table.table_client import TableClient
from overtrick.interactive.bridge_table.table_manager import TableManager
from overtrick.interactive.bridge_table.table_match import Connections, MatchSettings, TableMatch

CAREFUL = "natural+careful"


def free_port() -> int:
    """Return a port with seven free ports after it.

    It is below those that the operating system gives to other processes, such as Ray's, so that
    none of them takes it before the test does.
    """
    for port in random.SystemRandom().sample(range(20_000, 32_000, 8), 1000):
        with ExitStack() as stack, suppress(OSError):
            for k in range(8):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port + k))
            return port
    raise AssertionError("no eight free ports in a row")


def careful_seat(seed: int = 0, alerts: bool = True) -> PolicyPlayer:
    side = load_side(CAREFUL)
    return PolicyPlayer(side, side, 2, seed, alerts)


# --- messages


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("NORTH PASSES", TableAction(0, PASS, None)),
        ("east doubles", TableAction(1, DOUBLE, None)),
        ("South bids 1NT", TableAction(2, CALLS.index("1N"), None)),
        (
            "West bids 3C Alert. asks for majors",
            TableAction(3, CALLS.index("3C"), "asks for majors"),
        ),
        ("West bids 3C Alert.", TableAction(3, CALLS.index("3C"), "")),
        ("North plays ts", TableAction(0, FIRST_PLAY + CARD_NAMES.index("ST"), None)),
    ],
)
def test_calls_and_cards_are_parsed_and_written(line: str, action: TableAction) -> None:
    assert messages.parse_action(line) == action
    written = messages.format_action(
        messages.SEAT_NAMES[action.seat], action.action, action.explanation
    )
    assert messages.parse_action(written) == action


def test_other_messages_are_parsed_and_written() -> None:
    cards = sum(1 << card for card in parse_hand("AKT9..QJ8765.K32"))
    line = messages.format_hand("West", cards)
    assert line == "West's cards : S A K T 9. H -. D Q J 8 7 6 5. C K 3 2."
    assert messages.parse_hand(line, "WEST") == cards
    for board in (
        BoardHeader(7, 2, 0),
        BoardHeader(1, 0, 1),
        BoardHeader(2, 3, 2),
        BoardHeader(4, 1, 3),
    ):
        assert messages.parse_deal(messages.format_deal(board)) == board
    assert messages.parse_deal("Board number 8. Dealer WEST. Neither vulnerable.") == BoardHeader(
        8, 3, 0
    )
    assert messages.parse_teams(messages.format_teams("a b", "c")) == ("a b", "c")
    assert messages.parse_teams('Teams: N/S "a" E/W "b"') == ("a", "b")
    assert messages.parse_connect(messages.format_connect("x", 2)) == ("x", 2)
    assert messages.parse_connect(messages.format_connect("x", None)) == ("x", None)


@pytest.mark.parametrize(
    "line",
    [
        "North bids 8C",
        "North plays 1S",
        "Nord passes",
        "North",
        "",
        "North bids 1C please",
        "\0" * 9,
    ],
)
def test_a_line_that_is_no_action_is_refused(line: str) -> None:
    with pytest.raises(ProtocolError, match="expected SEAT passes"):
        messages.parse_action(line)


def test_a_hand_of_twelve_cards_or_a_team_with_quotes_is_refused() -> None:
    with pytest.raises(ProtocolError, match="13 cards, not 12"):
        messages.parse_hand("North's cards : S A K. H 2 3. D 4 5 6 7. C 2 3 4 5.", "North")
    with pytest.raises(UserError, match="without quotes"):
        messages.check_team('a"b')


# --- a match of our own players


def match_in(folder: Path, settings: MatchSettings, **changes) -> TableMatch:
    sides = tuple(
        None if name == table_match.PROGRAM else load_side(name)
        for name in (settings.a, settings.b)
    )
    connections = Connections(free_port(), **changes)
    return TableMatch(settings, sides, folder, connections)


@pytest.mark.parametrize(("team", "boards"), [(CAREFUL, 6), ("natural+search", 2)])
def test_a_match_over_tcp_is_resumed_with_the_same_result(
    team: str, boards: int, tmp_path: Path
) -> None:
    """A search keeps sampled deals from card to card, but not from board to board."""
    settings, stop = MatchSettings(team, "precision+rules", boards, seed=3, worlds=1), boards // 2
    whole = match_in(tmp_path / "whole", settings)
    asyncio.run(whole.run())
    assert [len(table) for table in whole.boards] == [boards, boards]
    assert sum(len(board.alerts) for table in whole.boards for board in table) > 0

    class StopError(Exception):
        pass

    def stop_in_the_middle(table: int, result: table_match.BoardResult) -> None:
        if result.number == stop:  # at the table that is first to finish this board
            raise StopError

    half = match_in(tmp_path / "half", settings)
    half.on_board = stop_in_the_middle
    with pytest.raises(StopError):
        asyncio.run(half.run())
    again = match_in(tmp_path / "half", settings)
    assert max(len(table) for table in again.boards) == stop
    asyncio.run(again.run())
    assert again.boards == whole.boards
    asyncio.run(again.run())  # nothing is left to play
    for name in ("open.pbn", "closed.pbn", "match.json"):
        assert (tmp_path / "half" / name).read_text() == (tmp_path / "whole" / name).read_text()
    written = pbn_lin.load(tmp_path / "whole" / "open.pbn").boards
    assert [each.tricks for each in written] == [each.tricks for each in whole.results(0)]
    assert {each.room for each in written} == {"Open"}
    assert all(each.players[:2] == each.teams for each in written)
    alerts = [{int(k): v for k, v in each.alerts.items()} for each in whole.boards[0]]
    assert [each.explanations for each in written] == alerts
    assert len(whole.imps()) == boards
    with pytest.raises(UserError, match="a match with other settings: name another folder"):
        match_in(tmp_path / "half", MatchSettings(CAREFUL, CAREFUL, boards, seed=3))


def test_equal_teams_draw_every_board(tmp_path: Path) -> None:
    """Our players' random numbers depend on the board and the seat, not on the table."""
    match = match_in(tmp_path, MatchSettings("natural+rules", "natural+rules", 3))
    asyncio.run(match.run())
    assert not match.imps().any()
    assert match.boards[0] == match.boards[1]


# --- strangers at the table


async def with_strangers(match: TableMatch, table: int, *strangers) -> None:
    """Run a match, and strangers: functions from a seat's port to a coroutine, by seat."""
    ports = match.connections.ports(table)

    async def later(seat: int, stranger) -> None:
        for _ in range(100):
            await asyncio.sleep(0.05)
            try:
                link = await open_stream("127.0.0.1", ports[seat])
            except OSError:
                continue
            await stranger(link)
            return

    tasks = [asyncio.create_task(later(seat, each)) for seat, each in strangers]
    try:
        await match.run()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def polite(link: LineStream) -> None:
    await TableClient(link, careful_seat(), "strangers").run()


class Rude(LineStream):
    """A connection that sends wrong lines before each call or card."""

    answers: list[str] = []  # noqa: RUF012

    async def send(self, line: str) -> None:
        acts = " plays " in line or " bids " in line or line.endswith("PASSES")
        if acts and len(self.answers) < 20:
            name = line.split(maxsplit=1)[0]
            other = "North" if name != "North" else "South"
            for wrong in ("nonsense", f"{other} bids 7NT", f"{name} plays 2c {'x' * 2000}", "\x00"):
                await super().send(wrong)
        await super().send(line)

    async def receive(self, seconds: float | None = None) -> str:
        while (line := await super().receive(seconds)).startswith("Error"):
            self.answers.append(line)
        return line


def test_wrong_lines_get_one_line_each_and_change_nothing(tmp_path: Path) -> None:
    settings = MatchSettings(CAREFUL, table_match.PROGRAM, 2, seed=5, tables=1)
    ours = MatchSettings(CAREFUL, CAREFUL, 2, seed=5, tables=1)
    calm = match_in(tmp_path / "calm", ours)
    asyncio.run(calm.run())

    async def rude(link: LineStream) -> None:
        link.__class__ = Rude
        player = careful_seat(5)
        await TableClient(link, player, "rude").run()

    Rude.answers.clear()
    match = match_in(tmp_path / "rude", settings)
    asyncio.run(with_strangers(match, 0, (1, rude), (3, rude)))
    assert [board.calls for board in match.boards[0]] == [b.calls for b in calm.boards[0]]
    assert [board.cards for board in match.boards[0]] == [b.cards for b in calm.boards[0]]
    said = " ".join(Rude.answers)
    for words in ("expected SEAT passes", "'s turn, not ", "at most 1000 characters"):
        assert words in said


def test_a_late_player_passes_or_plays_low_and_the_board_ends(tmp_path: Path) -> None:
    class Sleeper(PolicyPlayer):
        async def choose(self, observations):
            answer = await super().choose(observations)
            await asyncio.sleep(1.5 if self.board == 1 else 0)  # too late on the first board
            return answer

        def start_board(self, seat, board):
            super().start_board(seat, board)
            self.board = board.board

    async def sleeping(link: LineStream) -> None:
        side = load_side(CAREFUL)
        await TableClient(link, Sleeper(side, side, 2, 6, False), "asleep").run()

    settings = MatchSettings(CAREFUL, table_match.PROGRAM, 3, seed=6, tables=1)
    match = match_in(tmp_path / "late", settings, limit=1.0)
    asyncio.run(with_strangers(match, 0, (1, sleeping), (3, polite)))
    calm = match_in(tmp_path / "calm", MatchSettings(CAREFUL, CAREFUL, 3, seed=6, tables=1))
    asyncio.run(calm.run())
    first, *others = match.boards[0]
    east = [call for k, call in enumerate(first.calls) if k % 4 == 1]  # North deals board 1
    assert set(east) == {PASS}
    result = match.results(0)[0]
    assert result.is_complete
    assert [each.cards for each in others] == [each.cards for each in calm.boards[0][1:]]


def test_a_player_whose_answer_comes_during_the_next_board_plays_the_board_after_it() -> None:
    class Sleeper:
        """Player that passes; its first answer comes after two boards have begun without it."""

        def __init__(self, awake: asyncio.Event) -> None:
            self.awake = awake

        def start_board(self, seat, board):
            self.board = board.board

        async def choose(self, observations):
            await self.awake.wait()
            legal = np.flatnonzero(observations.legal[0])
            return (PASS if PASS in legal else int(legal[0])), None

        def hear(self, *_):
            pass

    async def match() -> dict[int, bool]:
        first, awake, sleeps = free_port(), asyncio.Event(), asyncio.Event()
        awake.set()
        table = TableManager([first + k for k in range(4)], ("a", "b"), limit=0.5)
        await table.open()
        players = []
        for seat in range(4):
            link = await open_stream("127.0.0.1", first + seat)
            player = Sleeper(awake if seat else sleeps)
            one = TableClient(link, player, "ab"[seat % 2], seat)
            players.append(asyncio.create_task(one.run()))
        await table.wait_for_players()
        settings = MatchSettings("a", "b", 4)
        late = {}
        for number in range(1, 5):
            await table.play_board(number, table_match.board_deal(settings, number))
            late[number] = 0 in table.late
            if number == 2:
                table.limit = 60
                sleeps.set()
        await table.close()
        await asyncio.gather(*players)
        return late

    assert asyncio.run(match()) == {1: True, 2: True, 3: False, 4: False}


def test_a_player_that_reads_nothing_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table would otherwise wait forever once the buffers of the connection are full."""
    monkeypatch.setattr(line_stream, "SEND_SECONDS", 0.2)

    async def talk() -> None:
        streams = list[LineStream]()
        port = free_port()
        server = await asyncio.start_server(
            lambda reader, writer: streams.append(LineStream(reader, writer)), "127.0.0.1", port
        )
        not_reading = await open_stream("127.0.0.1", port)
        cast(asyncio.Transport, not_reading.writer.transport).pause_reading()
        while not streams:
            await asyncio.sleep(0.01)
        with pytest.raises(ConnectionLost):
            await streams[0].send("x" * 50_000_000)
        server.close()

    asyncio.run(asyncio.wait_for(talk(), 60))


def test_the_partner_of_an_alerted_call_is_not_told_its_meaning(tmp_path: Path) -> None:
    heard: dict[int, list[str | None]] = {1: [], 3: []}

    class Listener(PolicyPlayer):
        def hear(self, seat, action, explanation):
            if action == CALLS.index("2C") and seat == 0:
                heard[self.seat].append(explanation)

        def start_board(self, seat, board):
            super().start_board(seat, board)
            self.seat = seat

    class Bidder(Listener):
        """North bids 2C whenever it can, and alerts it."""

        async def choose(self, observations):
            if observations.legal[0, CALLS.index("2C")]:
                return CALLS.index("2C"), "secret"
            return await super().choose(observations)

    class South(Listener):
        def hear(self, seat, action, explanation):
            if action == CALLS.index("2C") and seat == 0:
                partner.append(explanation)

    partner: list[str | None] = []

    def sit(kind):
        async def play(link: LineStream) -> None:
            side = load_side(CAREFUL)
            await TableClient(link, kind(side, side, 2, 1, True), "x").run()

        return play

    settings = MatchSettings(table_match.PROGRAM, table_match.PROGRAM, 1, seed=6, tables=1)
    match = match_in(tmp_path, settings)
    kinds = (Bidder, Listener, South, Listener)
    asyncio.run(with_strangers(match, 0, *((k, sit(kind)) for k, kind in enumerate(kinds))))
    assert heard[1] == heard[3] == ["secret"]
    assert partner == [None]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("North plays AS", "it is no call"),
        ("North bids 7NT", None),
    ],
)
def test_an_illegal_message_of_a_table_manager_is_refused(line: str, why: str | None) -> None:
    """A manager that relays an impossible call gets no further."""

    async def manager(reader, writer) -> None:
        link = LineStream(reader, writer)
        cards = messages.format_hand("East", (1 << 13) - 1)
        for answer in (
            'East ("x") seated', messages.format_teams("a", "b"), messages.START_OF_BOARD,
            "Board number 1. Dealer North. Neither vulnerable.", cards,
        ):  # fmt: skip
            await link.receive()
            if answer == messages.START_OF_BOARD:
                await link.send(answer)
                continue
            await link.send(answer)
        await link.receive()
        await link.send(line)
        if why is None:
            await link.receive()
            await link.send("South bids 1C")
        await asyncio.sleep(0.2)
        link.close()

    async def play() -> None:
        server = await asyncio.start_server(manager, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        link = await open_stream("127.0.0.1", port)
        try:
            await TableClient(link, careful_seat(), "x", 1).run()
        finally:
            server.close()

    with pytest.raises(RunError, match=r"breaks the protocol: illegal call of (North|South)"):
        asyncio.run(play())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda board: board.update(calls=[200, 35, 35, 35]), "is damaged"),
        (lambda board: board.update(calls=[0, 35, 35]), "is damaged .board 1 of the open table"),
        (lambda board: board["cards"].pop(), "it is not complete"),
        (lambda board: board["cards"].reverse(), "is damaged .board 1 of the open table"),
    ],
)
def test_a_damaged_record_of_a_match_is_refused(tmp_path: Path, change, message: str) -> None:
    settings = MatchSettings(CAREFUL, CAREFUL, 1, seed=6, tables=1)
    asyncio.run(match_in(tmp_path, settings).run())
    path = tmp_path / table_match.RECORD
    record = json.loads(path.read_text())
    change(record["boards"][0][0])
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match=message):
        match_in(tmp_path, settings)


def test_a_player_that_leaves_comes_back_and_the_board_starts_again(tmp_path: Path) -> None:
    settings = MatchSettings(CAREFUL, table_match.PROGRAM, 2, seed=5, tables=1)

    class Leaver(PolicyPlayer):
        async def choose(self, observations):
            raise RunError("it has crashed")

    async def leaving(link: LineStream) -> None:
        side = load_side(CAREFUL)
        with pytest.raises(RunError):
            await TableClient(link, Leaver(side, side, 2, 5, False), "leaver").run()
        port = link.writer.get_extra_info("peername")[1]
        await TableClient(await open_stream("127.0.0.1", port), careful_seat(5), "back").run()

    async def partner(link: LineStream) -> None:
        await TableClient(link, careful_seat(5), "partner").run()

    match = match_in(tmp_path / "back", settings, reconnect=20.0)
    asyncio.run(with_strangers(match, 0, (1, leaving), (3, partner)))
    calm = match_in(tmp_path / "calm", MatchSettings(CAREFUL, CAREFUL, 2, seed=5, tables=1))
    asyncio.run(calm.run())
    assert [each.cards for each in match.boards[0]] == [each.cards for each in calm.boards[0]]

    gone = match_in(tmp_path / "gone", settings)
    with pytest.raises(RunError, match="East has left the table on board 1"):
        asyncio.run(with_strangers(gone, 0, (1, leaving), (3, partner)))


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        ("hello", "expected Connecting"),
        ('Connecting "a" as North using protocol version 17', "protocol version 18 is spoken"),
        ('Connecting "a" as South using protocol version 18', "the seat of North"),
    ],
)
def test_a_wrong_client_is_refused_in_one_line(tmp_path: Path, hello: str, answer: str) -> None:
    match = match_in(tmp_path, MatchSettings(table_match.PROGRAM, CAREFUL, 1, tables=1))
    heard = []

    async def stranger(link: LineStream) -> None:
        await link.send(hello)
        heard.append(await link.receive())
        await polite(await open_stream("127.0.0.1", match.connections.port))

    asyncio.run(with_strangers(match, 0, (0, stranger), (2, polite)))
    assert len(match.boards[0]) == 1
    assert heard[0].startswith("Error: ")
    assert answer in heard[0]


# --- a person


def test_a_person_sees_alerts_and_is_asked_again_after_a_wrong_word(tmp_path: Path) -> None:
    shown, player = [], careful_seat(5)

    def ask(text: str) -> str:
        shown.append(text)
        return "nothing" if len(shown) == 1 else next(answers)

    answers = iter(())
    person = HumanPlayer(ask, signs=False)

    async def choose(observations):
        nonlocal answers
        action, _ = await player.choose(observations)
        names = [*CALLS, *CARD_NAMES]
        answers = iter([names[action].lower()])
        return await HumanPlayer.choose(person, observations)

    class Both(HumanPlayer):
        def start_board(self, seat, board):
            player.start_board(seat, board)
            person.start_board(seat, board)

        async def choose(self, observations):
            return await choose(observations)

        def hear(self, seat, action, explanation):
            person.hear(seat, action, explanation)

    async def sit(link: LineStream) -> None:
        await TableClient(link, Both(ask), "person").run()

    settings = MatchSettings(CAREFUL, table_match.PROGRAM, 1, seed=21, tables=1)
    match = match_in(tmp_path, settings)
    asyncio.run(with_strangers(match, 0, (1, sit), (3, polite)))
    assert "'nothing' is not possible" in shown[1]
    assert shown[0].startswith("Board 1, you are East")
    assert re.search(r"^South 4.: Splinter: 12-16 points", shown[-1], re.MULTILINE)
    assert len(match.boards[0]) == 1


# --- OpenSpiel's controller


class Controller:
    """The other end of OpenSpiel's controller: one of our clients in a thread of its own."""

    def __init__(self) -> None:
        server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        self.thread = threading.Thread(target=self._sit, args=(port,), daemon=True)
        self.thread.start()
        self.socket, _ = server.accept()
        server.close()
        self.file = self.socket.makefile("rw", encoding="ascii", newline="\r\n")

    def _sit(self, port: int) -> None:
        async def play() -> None:
            link = await open_stream("127.0.0.1", port)
            with pytest.raises(RunError):  # OpenSpiel's controller says no farewell
                await TableClient(link, careful_seat(), "ours").run()

        asyncio.run(play())

    def read_line(self) -> str:
        return self.file.readline().rstrip("\r\n")

    def send_line(self, line: str) -> None:
        self.file.write(line + "\n")
        self.file.flush()

    def terminate(self) -> None:
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)


def boards_under_openspiel(count: int, rng: np.random.Generator) -> int:
    """Play boards with our clients in all four seats of OpenSpiel; return the contracts played."""
    game = pyspiel.load_game("bridge(use_double_dummy_result=false)")
    bots = [bluechip_bridge.BlueChipBridgeBot(game, seat, Controller) for seat in range(4)]
    played = 0
    for _ in range(count):
        state = game.new_initial_state()
        for bot in bots:
            bot.restart()
        while not state.is_terminal():
            if state.is_chance_node():
                actions, _ = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(int(rng.choice(actions)))
            else:
                for seat, bot in enumerate(bots):  # each hears the calls and cards so far
                    if seat != state.current_player():
                        bot.inform_state(state)
                state.apply_action(bots[state.current_player()].step(state))
        for bot in bots:
            bot.inform_state(state)
        played += len(state.history()) > 52 + 4
    for bot in bots:
        bot.terminate()
    return played


def test_our_client_plays_under_openspiels_controller(rng: np.random.Generator) -> None:
    assert boards_under_openspiel(5, rng) > 1


@pytest.mark.slow
def test_our_client_plays_a_hundred_boards_under_openspiels_controller(
    rng: np.random.Generator,
) -> None:
    assert boards_under_openspiel(100, rng) > 50


# --- the command line


def test_a_table_and_two_programs_in_processes_of_their_own(tmp_path: Path) -> None:
    port = free_port()
    words = [sys.executable, "-m", "overtrick", "bridge"]
    table = subprocess.Popen(
        [*words, "table", CAREFUL, "program", "--boards", "2", "--tables", "1", "--out",
         str(tmp_path / "m"), "--port", str(port), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    first = table.stderr.readline()
    assert f"waiting for a player: open table, East: 127.0.0.1:{port + 1}" in first
    sitting = [
        subprocess.Popen(
            [*words, "sit", CAREFUL, "--port", str(port + seat), "--json"],
            stdout=subprocess.PIPE, text=True,
        )
        for seat in (1, 3)
    ]  # fmt: skip
    out, _ = table.communicate(timeout=120)
    assert table.returncode == 0
    found = json.loads(out.splitlines()[-1])
    assert (found["boards"], found["unit"]) == (2, "point")
    for player in sitting:
        answer, _ = player.communicate(timeout=60)
        assert json.loads(answer.splitlines()[-1])["boards"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("table", CAREFUL, "program", "--out", "m", "--worlds", "5"), "--worlds has no effect, "
         "because neither natural+careful nor program searches: leave it out, or name a player "
         "that does, such as natural+search"),
        (("table", "program", "program", "--out", "m", "--worlds", "5"), "neither program nor"),
        (("table", CAREFUL, CAREFUL, "--out", "m", "--limit", "5"), "--limit needs players from "),
        (("table", CAREFUL, CAREFUL, "--out", "m", "--reconnect", "5"), "--reconnect needs "),
        (("sit", "precision+rules", "--worlds", "5"), "because precision+rules does not search: "
         "leave it out, or name a player that does, such as precision+search"),
        (("sit", "person", "--worlds", "5"), "because person does not search"),
        (("sit", "person", "--against", "natural"), "--against is an option for our players"),
        (("sit", CAREFUL, "--letters"), "--letters is an option for a person"),
        (("match", CAREFUL, "precision+rules", "--worlds", "5"), "neither natural+careful nor "
         "precision+rules searches"),
        (("match", "natural", "precision", "--worlds", "5"), "is an option for card players"),
        (("match", CAREFUL, "precision+rules", "--seconds", "1"), "--seconds has no effect"),
        (("match", "natural", "precision", "--seconds", "1"), "--seconds is an option for card "),
        (("sit", "natural+search", "--seconds", "1", "--worlds", "5"), "exclude each other"),
    ],
)  # fmt: skip
def test_an_option_that_no_player_uses_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["overtrick", "bridge", *words, "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    line = json.loads(out.splitlines()[-1])["error"]
    assert message in line
    assert err.splitlines()[-1] == f"error: {line}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("player", ["natural+search", "natural+plain_search", "natural"])
@pytest.mark.parametrize("option", ["--worlds", "--seconds"])
def test_a_player_that_searches_takes_a_budget(
    option: str, player: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A player without a card player searches; here nobody listens at its port."""
    words = "bridge", "sit", player, "--port", str(free_port()), option, "5", "--json"
    monkeypatch.setattr(sys, "argv", ["overtrick", *words])
    with pytest.raises(SystemExit):
        cli.main()
    assert "no table manager at" in capsys.readouterr().out
