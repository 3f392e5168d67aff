"""External programs as players on a board: JSON lines on standard input and output.

The board sends one object a line, and the program answers each with one object a line:

    {"type": "match", "game": {"name": "leduc"}, "told": "own_cards",
     "action_names": ["call", "raise", "fold", "check"], "seed": 7}               -> {}
    {"type": "act", "seat": 0, "cards": [1, -1], "actions": [0, 1], "legal": [0, 1, 2],
     "playing": true}                            -> {"action": 1} or {"probabilities": [0, 1, 0, 0]}
    {"type": "finished", "seat": 0, "cards": [1, 2], "actions": [2], "payoff": -0.5}        -> {}

`cards`, `actions` and `payoff` are those of `Decision` and `FinishedGame`.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import shlex
import signal
import subprocess
import sys
import time
import typing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.random import Generator

from overtrick.config.job_file import GameChoice, expand_game
from overtrick.core import END, Array, UserError
from overtrick.evaluation.board import board_evaluation, bucket_board
from overtrick.evaluation.board.board_setting import (
    UNNUMBERED,
    ActingPlayer,
    BoardSetting,
    Decision,
    ExploringPlayer,
    FinishedGame,
    NewPlayer,
    ObservingPlayer,
)
from overtrick.evaluation.board.bucket_match import NewPolicyPlayer
from overtrick.evaluation.board.bucket_setting import BucketSetting
from overtrick.evaluation.board.end_observations import Told

START_SECONDS = 120.0  # in which a program must answer the message `match`
END_SECONDS = 5.0  # in which it must end after its input has ended; then it is killed


class ProcessPlayer:
    """Player that is an external program, with a process for each match."""

    def __init__(
        self,
        command: str,
        folder: Path,
        game: GameChoice,
        setting: BoardSetting | BucketSetting,
        rng: Generator,
        seconds: float | None,
        memory_gib: float | None,
    ) -> None:
        """Start the program. Raises UserError if it cannot be started, or does not answer.

        `folder`: in which the program runs. `seconds`: limit of the sum of all answers' times.
        `memory_gib`: limit of the heap and private writable memory of each of its processes, on
        Linux. None: no limit.
        """
        self.command, self.memory_gib = command, memory_gib
        self.seconds_left = np.inf if seconds is None else seconds
        self.received = b""
        if memory_gib is not None and sys.platform != "linux":
            raise UserError("limits.memory_gib: only Linux has this limit; set it to null")
        try:
            self.process = subprocess.Popen(
                shlex.split(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"cannot start `{command}`: {error.strerror}") from None
        try:
            if memory_gib is not None:
                limit, pid, kind = int(memory_gib * 2**30), self.process.pid, resource.RLIMIT_DATA
                _, most = resource.prlimit(pid, kind)
                limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
                resource.prlimit(pid, kind, (limit, limit))
            message = {
                "type": "match",
                "game": {"name": game.name, **game.options},
                "told": setting.told,
                "action_names": list(setting.game.action_names),
                "seed": int(rng.integers(2**31)),
            }
            self._ask(message, START_SECONDS, "it needs too long to start")
        except BaseException:
            self.close()
            raise

    def act(self, decision: Decision) -> int | Sequence[float]:
        """Ask for an action, or for the probabilities of all actions."""
        asked = {"type": "act", **decision._asdict()}
        del asked["infoset"]
        answer = self._timed(asked)
        if answer.keys() not in ({"action"}, {"probabilities"}):
            raise self._error(f"answers {answer}, neither an action nor probabilities")
        found: int | Sequence[float] = next(iter(answer.values()))
        return found

    def observe(self, game: FinishedGame) -> None:
        """Tell the program a finished game."""
        told = {"type": "finished", **game._asdict()}
        del told["number"]
        self._timed(told)

    def close(self) -> None:
        """Close the program's standard input; kill the process if it does not end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # a program that has ended before
            self.process.stdin.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            self.process.wait()
        self.process.stdout.close()

    def _kill(self) -> None:
        """Kill the program, and the programs that it has started."""
        with suppress(ProcessLookupError):  # they have ended before
            os.killpg(self.process.pid, signal.SIGKILL)

    def _timed(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message, return the answer, and take its time from the limit."""
        began = time.monotonic()
        answer = self._ask(message, self.seconds_left, "see limits.seconds_per_game")
        self.seconds_left -= time.monotonic() - began
        return answer

    def _ask(self, message: dict[str, Any], seconds: float, advice: str) -> dict[str, Any]:
        """Send a message; return the answer.

        Raises UserError if no JSON object comes in time; `advice` ends its message.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        if self.received:
            raise self._error(f"has written more than one line: {self.received[:200]!r}")
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.received:
                left = end - time.monotonic()
                if left <= 0 or not selector.select(None if np.isinf(left) else left):
                    self._kill()
                    raise self._error(
                        f"has not answered {message} in the {max(0, seconds):.1f} s that were "
                        f"left; {advice}"
                    )
                chunk = os.read(self.process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise self._ended()
                self.received += chunk
        line, _, self.received = self.received.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._error(f"answers {line[:200]!r} to {message}, not a JSON object")
        return answer

    def _ended(self) -> UserError:
        """Return the error of a process that has ended before its match."""
        try:
            code = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return self._error("has closed its output")
        limit = "" if self.memory_gib is None else f"; limits.memory_gib is {self.memory_gib:g}"
        return self._error(f"has ended with exit code {code}{limit}")

    def _error(self, text: str) -> UserError:
        return UserError(f"the program `{self.command}` {text}")


def serve(new_player: NewPlayer | NewPolicyPlayer, source: IO[str], sink: IO[str]) -> None:
    """Answer the messages of a board with a player of this project, until the messages end.

    `source`, `sink`: lines of messages and of answers. Raises UserError for a line that is no
    message of a board.
    """
    served: _ServedPlayer | _ServedActingPlayer | None = None
    for line in source:
        answer: dict[str, Any] = {}
        with _reading(line):
            message = json.loads(line)
            kind = message["type"]
        if kind == "match":
            with _reading(line):
                choice = GameChoice.model_validate(expand_game(message["game"]))
                told, seed = message["told"], np.random.default_rng(message["seed"])
                if told not in typing.get_args(Told):
                    raise ValueError(f"told is {told!r}")
            acting = bucket_board.uses_abstraction(choice)
            serving = _ServedActingPlayer if acting else _ServedPlayer
            served = serving(new_player, choice, told, seed)
        elif served is not None and kind == "act":
            with _reading(line):
                decision = served.decision(message)
            answer = served.act(decision)
        elif served is not None and kind == "finished":
            with _reading(line):
                game = served.finished_game(message)
            served.observe(game)
        else:
            raise UserError(f"a board does not send {line!r} here")
        print(json.dumps(answer), file=sink, flush=True)


@contextmanager
def _reading(line: str) -> Iterator[None]:
    """Context manager that reads a message, the text `line`. Raises UserError if it is none."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{line!r} is no message of a board: {error!r}") from error


class _ServedPlayer:
    """A player of this project in one match, with the messages of a board."""

    def __init__(
        self, new_player: Callable[..., Any], choice: GameChoice, told: Told, rng: Generator
    ) -> None:
        here = board_evaluation.setting(choice, told)
        self.player = new_player(here, rng)
        self.decisions = {(d.seat, d.cards, d.actions): d for d in here.decisions}
        ends = np.flatnonzero(here.tree.seat == END).tolist()
        finished = [here.finished_game(seat, node) for seat in range(2) for node in ends]
        self.finished = {(g.seat, g.cards, g.actions, g.payoff): g for g in finished}
        self.games: list[FinishedGame] = []
        self.strategies: dict[bool, Array] = {}  # of the next game, and of a checkpoint

    def decision(self, message: dict[str, Any]) -> Decision:
        """Return the decision of a message `act`."""
        key = message["seat"], tuple(message["cards"]), tuple(message["actions"])
        return self.decisions[key]._replace(playing=message["playing"])

    def act(self, decision: Decision) -> dict[str, Any]:
        """Return the probabilities of all actions, or an action."""
        if isinstance(self.player, ActingPlayer):
            return _action_or_probabilities(self.player.act(decision))
        return {"probabilities": self._strategy(decision.playing)[decision.infoset].tolist()}

    def finished_game(self, message: dict[str, Any]) -> FinishedGame:
        """Return the game of a message `finished`."""
        cards, actions = tuple(message["cards"]), tuple(message["actions"])
        return self.finished[message["seat"], cards, actions, message["payoff"]]

    def observe(self, game: FinishedGame) -> None:
        """Tell the player a finished game."""
        self._strategy(playing=True)  # the player may not have had to act in this game
        self.games.append(game)
        self.strategies.clear()
        if isinstance(self.player, ObservingPlayer):
            self.player.observe(game)

    def _strategy(self, playing: bool) -> Array:
        """Return the strategy of the next game or of a checkpoint, if the player gives one.

        A player is asked once for each game, also if it does not have to act in the game.
        """
        if isinstance(self.player, ActingPlayer):
            return np.zeros(0)
        if playing not in self.strategies:
            found = (
                self.player.next_strategy(self.games)
                if playing and isinstance(self.player, ExploringPlayer)
                else self.player.strategy(self.games)
            )
            self.strategies[playing] = np.asarray(found)
        return self.strategies[playing]


class _ServedActingPlayer:
    """An acting player of this project in one match of a game that is too large for a tree."""

    def __init__(
        self, new_player: Callable[..., Any], choice: GameChoice, told: Told, rng: Generator
    ) -> None:
        here = bucket_board.setting(choice, told)
        self.player = new_player(here, rng)
        if not isinstance(self.player, ActingPlayer):
            raise UserError(f"in {choice.name} a program's player needs the method act")

    def decision(self, message: dict[str, Any]) -> Decision:
        """Return the decision of a message `act`."""
        cards, actions, legal = (tuple(message[key]) for key in ("cards", "actions", "legal"))
        return Decision(UNNUMBERED, message["seat"], cards, actions, legal, message["playing"])

    def act(self, decision: Decision) -> dict[str, Any]:
        """Return the probabilities of all actions, or an action."""
        return _action_or_probabilities(self.player.act(decision))

    def finished_game(self, message: dict[str, Any]) -> FinishedGame:
        """Return the game of a message `finished`."""
        cards, actions = tuple(message["cards"]), tuple(message["actions"])
        return FinishedGame(message["seat"], cards, actions, message["payoff"], UNNUMBERED)

    def observe(self, game: FinishedGame) -> None:
        """Tell the player a finished game."""
        if isinstance(self.player, ObservingPlayer):
            self.player.observe(game)


def _action_or_probabilities(given: int | Sequence[float]) -> dict[str, Any]:
    """Return the answer to a message `act`, from a player's action or probabilities."""
    answer = np.asarray(given)
    return {"probabilities" if answer.ndim else "action": answer.tolist()}
