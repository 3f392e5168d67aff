"""Players of whole bridge boards, made of a bidder and of card players."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from overtrick.core import (
    Actions,
    Array,
    BehaviouralPolicy,
    Observations,
    Policy,
    PolicySession,
    select_rows,
)
from overtrick.games.bridge.board_observation import (
    FIRST_PLAY,
    auction_observations,
    card_play_observations,
    in_card_play,
)
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS
from overtrick.policies.memoryless import MemorylessPolicy


@dataclass(frozen=True)
class BoardPlayer:
    """Policy of the game `bridge`: one policy for the calls, one as declarer, one as defender.

    bidder: policy of the game `auction`. declarer, defender: policies of the game `bridge`, which
    act for the declaring side and for the defenders during card play.
    """

    bidder: Policy
    declarer: Policy
    defender: Policy

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Start a session of each of the three policies."""
        parts = (self.bidder, self.declarer, self.defender)
        sessions = [
            part.start(games, child) for part, child in zip(parts, rng.spawn(3), strict=True)
        ]
        return _BoardSession(*sessions)


@dataclass(eq=False)
class _BoardSession:
    bidder: PolicySession
    declarer: PolicySession
    defender: PolicySession

    def act(self, observations: Observations) -> Actions:
        """Return the call of the bidder, or the card of the declarer or the defender, by row."""
        action, logp = np.zeros(len(observations), np.int64), np.zeros(len(observations))
        play = in_card_play(observations)
        rows = np.flatnonzero(~play)
        if len(rows):
            made = self.bidder.act(auction_observations(select_rows(observations, rows)))
            action[rows], logp[rows] = made.action, made.logp
        rows = np.flatnonzero(play)
        if len(rows):
            chosen = select_rows(observations, rows)
            position = card_play_observations(chosen).observation[:, kernels.OBS_POSITION]
            for side, session in enumerate((self.declarer, self.defender)):
                (some,) = np.nonzero(position % 2 == side)
                if len(some):
                    made = session.act(select_rows(chosen, some))
                    action[rows[some]], logp[rows[some]] = made.action, made.logp
        return Actions(action, logp)


class BoardPolicy(MemorylessPolicy):
    """Memoryless policy of the game `bridge`: one policy for the calls, one for the cards.

    bidder: policy of the game `auction`. cards: policy of the game `minibridge`, for all hands.
    """

    def __init__(self, bidder: BehaviouralPolicy, cards: BehaviouralPolicy) -> None:
        self.bidder = bidder
        self.cards = cards

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 90): columns 0 to 37 are calls, 38 to 89 are cards.

        A row has probabilities of the calls during the auction, else of the cards. The other
        entries are 0.
        """
        probs = np.zeros((len(observations), FIRST_PLAY + CARDS))
        play = in_card_play(observations)
        rows = np.flatnonzero(~play)
        if len(rows):
            calls = auction_observations(select_rows(observations, rows))
            probs[rows, :FIRST_PLAY] = self.bidder.probs(calls)
        rows = np.flatnonzero(play)
        if len(rows):
            cards = card_play_observations(select_rows(observations, rows))
            probs[rows, FIRST_PLAY:] = self.cards.probs(cards)
        return probs
