"""Players at a bridge table: our policies, and a person at the terminal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import numpy as np

from overtrick.core import Observations, Policy, PolicySession
from overtrick.distributed.workers import RngStream, generator
from overtrick.evaluation.bidders import Side
from overtrick.games import registry
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.board_observation import in_card_play
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.players.board_player import BoardPlayer
from overtrick.games.bridge.players.card_players import CARD_PLAYERS, Budget
from overtrick.games.bridge.system import auction_simulation
from overtrick.games.bridge.system.explanation import describe_meaning
from overtrick.interactive.bridge_table.messages import SEAT_NAMES, BoardHeader

SOLVER_LOCK = threading.Lock()
"""The double-dummy solver, and compiled code that shares buffers, serve one player at a time."""


def board_policy(ns: Side, ew: Side, seat: int, budget: Budget) -> Policy:
    """Return the policy of whole boards of a seat, from the partnerships at the table.

    budget: effort of a search for each card.
    """
    systems, own = (ns.system, ew.system), (ns, ew)[seat % 2]
    cards = CARD_PLAYERS[own.cards or "search"](*systems, budget)
    return BoardPlayer(own.policy(*systems), cards, cards)


class PolicyPlayer:
    """A seat of our own player. Each board has its own random generator.

    side: the player's partnership, with a card player. other: the opponents. seed: of the match.
    alerts: explain artificial calls.
    """

    def __init__(self, side: Side, other: Side, budget: Budget, seed: int, alerts: bool) -> None:
        self.pairs = (side, other)
        self.budget = budget
        self.seed = seed
        self.alerts = alerts
        self.session: PolicySession | None = None

    def start_board(self, seat: int, board: BoardHeader) -> None:
        """Start a session with a generator that depends on seed, board and seat alone."""
        ns, ew = self.pairs if seat % 2 == 0 else self.pairs[::-1]
        rng = generator(self.seed, RngStream.EVALUATE, board.board, 1 + seat)
        self.session = board_policy(ns, ew, seat, self.budget).start(1, rng)

    async def choose(self, observations: Observations) -> tuple[int, str | None]:
        """Return the policy's action, and the meaning of an artificial call."""
        return await asyncio.to_thread(self._choose, observations)

    def _choose(self, observations: Observations) -> tuple[int, str | None]:
        assert self.session is not None
        with SOLVER_LOCK:
            action = int(self.session.act(observations).action[0])
            if not self.alerts or in_card_play(observations)[0]:
                return action, None
            seen = observations.observation[0]
            systems = tuple(side.system for side in self.pairs)
            ns, ew = systems if seen[obs.SEAT] % 2 == 0 else systems[::-1]
            calls = [*obs.calls_from_observation(seen), action]
            dealer, vulnerable = int(seen[obs.DEALER]), int(seen[obs.VULNERABLE])
            meaning = auction_simulation.call_meanings(calls, dealer, vulnerable, ns, ew)[-1]
            if not meaning.alerted:
                return action, None
            return action, describe_meaning(meaning)

    def hear(self, seat: int, action: int, explanation: str | None) -> None:
        """Do nothing: the observation has all calls and cards."""


class HumanPlayer:
    """A seat of a person at the terminal.

    ask: function that shows a text, asks for a line and returns it. signs: show suits as symbols.
    """

    def __init__(self, ask: Callable[[str], str], signs: bool = True) -> None:
        self.ask = ask
        self.show = registry.presentation(Bridge(), signs)
        self.notes = list[str]()

    def start_board(self, seat: int, board: BoardHeader) -> None:
        """Forget the alerts of the last board."""
        self.notes = [f"Board {board.board}, you are {SEAT_NAMES[seat]}"]

    async def choose(self, observations: Observations) -> tuple[int, str | None]:
        """Ask until the person names a legal call or card."""
        assert observations.legal is not None
        legal = np.flatnonzero(observations.legal[0]).tolist()
        text = self.show.describe_observation(observations.observation[0], [])
        text = "\n".join([*self.notes, text, self.show.format_actions(legal)])
        names = Bridge.action_names
        while True:
            word = (await _in_thread(self.ask, text)).strip()
            name = self.show.action_name_of(word)
            found = [action for action in legal if names[action] == name.upper()]
            if found:
                return found[0], None
            text = f"'{word}' is not possible: {self.show.format_actions(legal)}"

    def hear(self, seat: int, action: int, explanation: str | None) -> None:
        """Keep the explanation of an alerted call, to show it at the next decision."""
        if explanation is not None:
            said = Bridge.action_names[action]
            self.notes.append(f"{SEAT_NAMES[seat]} {said}: {explanation or 'alerted'}")


async def _in_thread(ask: Callable[[str], str], text: str) -> str:
    """Return the answer of a function that waits for a person.

    Its thread does not keep the program alive after Ctrl-C.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def run() -> None:
        try:
            word = ask(text)
        except Exception as error:
            loop.call_soon_threadsafe(_fail, answer, error)
        else:
            loop.call_soon_threadsafe(_answer, answer, word)

    threading.Thread(target=run, daemon=True).start()
    return await answer


def _answer(future: asyncio.Future[str], word: str) -> None:
    if not future.done():
        future.set_result(word)


def _fail(future: asyncio.Future[str], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
