"""A bridge match between processes whose table manager and clients are killed and started again."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from command_process import COMMAND, PATIENCE, environment, kill, wait_for
from ray_head import free_ports

from overtrick.games.bridge.formats import pbn_lin
from overtrick.interactive.bridge_table import table_match

pytestmark = pytest.mark.slow

BOARDS, SEED = 64, "7"
OURS, THEIRS = "precision+careful", "natural+careful"
OUTSIDE = (1, 3, 4, 6)  # ports after the first: East and West, then North and South


class MatchProcesses:
    """A table manager and the four clients of the team `program`, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.port = next(p for p in free_ports(20) if p < 65_000)
        self.clients = dict[int, subprocess.Popen[str]]()
        self.manager = self.start_manager()

    def start_manager(self) -> subprocess.Popen[str]:
        """Start the table manager, and the clients when all ports are open."""
        self.said = 0 if not self.log.exists() else len(self.log.read_text())
        match = "bridge", "table", OURS, "program", "--boards", str(BOARDS), "--out", "match"
        more = "--port", str(self.port), "--seed", SEED, "--reconnect", str(PATIENCE)
        self.manager = self._start(self.log, *match, *more)
        wait_for(lambda: self.lines().count("waiting for a player") == len(OUTSIDE), self.manager)
        for at in OUTSIDE:
            self.start_client(at)
        return self.manager

    def start_client(self, at: int) -> None:
        """Start the client of one port."""
        words = ("bridge", "sit", THEIRS, "--against", "precision", "--seed", SEED)
        port = "--port", str(self.port + at)
        self.clients[at] = self._start(self.folder / f"client{at}", *words, *port)

    def _start(self, log: Path, *words: str) -> subprocess.Popen[str]:
        with log.open("a") as file:
            return subprocess.Popen(
                [*COMMAND, *words, "--json"],
                cwd=self.folder, env=environment(), stdout=subprocess.PIPE, stderr=file,
                text=True, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> Path:
        return self.folder / "manager"

    def lines(self) -> str:
        """Return the text that the present table manager has printed."""
        return self.log.read_text()[self.said :]

    def wait_for_boards(self, number: int, table: str) -> None:
        """Wait until the present table manager has ended boards at a table, and begun the next."""
        wait_for(lambda: self.lines().count(f", {table} table:") >= number, self.manager)
        time.sleep(0.15)  # about half a board

    def finish(self) -> dict[str, object]:
        """Wait for the end of the match; return the result that the table manager prints."""
        out, _ = self.manager.communicate(timeout=PATIENCE)
        assert self.manager.returncode == 0, self.log.read_text()
        for client in self.clients.values():
            client.communicate(timeout=PATIENCE)
            assert client.returncode == 0
        return dict(json.loads(out.splitlines()[-1]))

    def results(self) -> dict[str, str]:
        """Return the files of the match."""
        files = (self.folder / "match").iterdir()
        return {file.name: file.read_text() for file in files}

    def kill_all(self) -> None:
        for process in (self.manager, *self.clients.values()):
            kill(process)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], MatchProcesses]]:
    """Return a function that starts a match in a folder of this name; at the end all are killed."""
    started = list[MatchProcesses]()

    def run(name: str) -> MatchProcesses:
        started.append(MatchProcesses(tmp_path / name))
        return started[-1]

    yield run
    for match in started:
        match.kill_all()


def answer(port: int, line: str) -> str:
    """Return the first line that a table manager answers to a new connection."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) as link:
        link.sendall(f"{line}\r\n".encode())
        return link.makefile().readline()


def test_a_match_of_64_boards_survives_killed_managers_and_clients(
    start: Callable[[str], MatchProcesses],
) -> None:
    """Boards that a kill interrupts are played again; the result is that of a calm match."""
    calm = start("calm")
    expected = calm.finish()
    assert expected["boards"] == BOARDS
    assert expected["mean"] != 0

    match = start("killed")
    match.wait_for_boards(4, "open")
    for line, why in (
        ("nonsense \0", "Error: expected Connecting"),
        ('Connecting "x" as East using protocol version 18', "Error: East is taken"),
        ('Connecting "x" as North using protocol version 18', "Error: this port is the seat of E"),
    ):
        assert answer(match.port + 1, line).startswith(why)
    for table, client in (("open", 1), ("closed", 6)):
        match.wait_for_boards(8, table)
        kill(match.clients[client])
        match.start_client(client)
        match.wait_for_boards(16, table)
        kill(match.manager)
        for left in match.clients.values():
            left.communicate(timeout=PATIENCE)
            assert left.returncode in (0, 1)  # 0 if its table has just ended its last board
        record = json.loads(match.results()["match.json"])
        kept = [len(boards) for boards in record["boards"]]
        assert kept[table_match.TABLES.index(table)] >= 16
        assert sum(kept) < 2 * BOARDS
        match.start_manager()
    assert match.finish() == expected
    assert match.results() == calm.results()
    assert sorted(match.results()) == ["closed.pbn", "match.json", "open.pbn"]
    for table in table_match.TABLES:
        boards = pbn_lin.load(match.folder / "match" / f"{table}.pbn").boards
        assert [board.number for board in boards] == list(range(1, BOARDS + 1))
    messages = [file.read_text() for file in match.folder.iterdir() if file.is_file()]
    assert not any("Traceback" in text for text in messages)
