"""Card player that sees all hands: a yardstick for players that do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, PolicySession
from overtrick.games.bridge import double_dummy
from overtrick.games.bridge.board_observation import FIRST_PLAY
from overtrick.games.bridge.board_state import BridgeState
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import TRICKS
from overtrick.games.bridge.game import Bridge


@dataclass(frozen=True)
class DoubleDummyPlayer:
    """Policy of card play that sees all hands and plays double dummy.

    It plays the lowest of equally good cards. It is a yardstick for other players. deals: (G, 74)
    the deals of the games that are played.
    """

    deals: Array

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Return a session; the generator is not used."""
        return _DoubleDummySession(self.deals)


@dataclass(eq=False)
class _DoubleDummySession:
    deals: Array

    def act(self, observations: Observations) -> Actions:
        """Return the best card of each row: of equal cards the lowest rank, then lowest suit."""
        state = Bridge().resume(observations, self.deals[observations.game])
        tricks = tricks_after_each_card(state)
        best = tricks == tricks.max(axis=1, keepdims=True)
        rank = np.arange(tricks.shape[1]) % TRICKS
        card = np.where(best, rank, TRICKS).argmin(axis=1)
        return Actions(FIRST_PLAY + card, np.zeros(len(card)))


def tricks_after_each_card(state: BridgeState) -> Array:
    """Return (G, 52) the tricks that each legal card wins for its side from now on; -1: illegal.

    Both sides play double dummy.

    state: G boards during card play.
    """
    progress = state.progress
    leader = (progress[:, kernels.TURN] - progress[:, kernels.CARDS_PLAYED]) % 4
    return double_dummy.card_tricks(state.hand, progress[:, kernels.STRAIN], leader, state.trick)
