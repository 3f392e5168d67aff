"""Rock, paper, scissors against the 43 bots of OpenSpiel, from competitions of 1999 and 2000."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from overtrick.core import UserError
from overtrick.core.lazy_modules import not_installed

PAYOFF = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
"""(3, 3) points of an action (row) against the opponent's (column): rock, paper, scissors."""

ROUNDS = 1_000  # of a match; the bots are written for this number


class RepeatedGamePlayer(Protocol):
    """Player of rock, paper, scissors in many rounds."""

    def act(self) -> int:
        """Choose an action for the next round."""

    def observe(self, own: int, opponent: int) -> None:
        """Learn the actions of a round."""


def bot_names() -> list[str]:
    """Return the names of all bots, sorted. Raises UserError if OpenSpiel is not installed."""
    return sorted(_pyspiel().roshambo_bot_names())


def development_bots() -> list[str]:
    """Return the names of every second bot, from the first on, to choose players' settings on."""
    return bot_names()[::2]


def test_bots() -> list[str]:
    """Return the names of the bots that are no development bots."""
    return bot_names()[1::2]


def play_bot(player: RepeatedGamePlayer, bot: str, seed: int) -> int:
    """Play a match of a player against a bot; return the player's points in all rounds.

    The bots draw from the random numbers of the C library, which `seed` starts anew. Nothing else
    in the process may draw from them meanwhile (Ray's threads do).
    """
    state, opponent = _start(seed), _pyspiel().make_roshambo_bot(1, bot)
    total = 0
    for _ in range(ROUNDS):
        own, theirs = player.act(), opponent.step(state)
        state.apply_actions([own, theirs])
        player.observe(own, theirs)
        total += int(PAYOFF[own, theirs])
    return total


def play_two_bots(first: str, second: str, seed: int) -> int:
    """Play a match of two bots; return the points of the first in all rounds."""
    state, pyspiel = _start(seed), _pyspiel()
    bots = [pyspiel.make_roshambo_bot(seat, name) for seat, name in enumerate((first, second))]
    while not state.is_terminal():
        state.apply_actions([bot.step(state) for bot in bots])
    return int(state.returns()[0])


def play_matches(bot: str, opponents: Sequence[str], seeds: Sequence[int]) -> dict[str, list[int]]:
    """Return the points of a bot against bots, by the opponent's name and the seed."""
    return {name: [play_two_bots(bot, name, seed) for seed in seeds] for name in opponents}


def _start(seed: int) -> Any:
    """Return the state of a new match, and start the random numbers of the C library anew."""
    ctypes.CDLL(None).srandom(1 + seed)  # 0 and 1 give the same numbers
    game = f"repeated_game(stage_game=matrix_rps(),num_repetitions={ROUNDS})"
    return _pyspiel().load_game(game).new_initial_state()


def _pyspiel() -> Any:
    """Return OpenSpiel's module. Raises UserError if it is missing, or was built without bots."""
    try:
        import pyspiel
    except ModuleNotFoundError:
        raise not_installed("pyspiel", "environments") from None
    if not hasattr(pyspiel, "make_roshambo_bot"):
        raise UserError("this OpenSpiel was built without RoShamBo bots: install open_spiel by pip")
    return pyspiel
