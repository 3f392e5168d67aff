"""Card play by perfect-information Monte Carlo (PIMC): double dummy on sampled deals.

Source: Levy 1989, "The million pound bridge program"; Ginsberg 2001, "GIB: imperfect information in
a computationally challenging game".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, PolicySession, check_choice, select_rows
from overtrick.games.bridge import auction_rules, contract_results, double_dummy
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.board_observation import (
    FIRST_PLAY,
    card_play_observations,
    declarer_from_position,
)
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.careful_player import careful_card, lowest_of_sequence
from overtrick.games.bridge.cards import TRICKS, hand_bits
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.players.worlds import Beliefs, Worlds, sample_worlds

TIED = 1e-9  # rounding of a mean
GOALS = ("points", "made", "tricks")
"""Quantities whose mean a search maximises: the score in points, contracts made (or defeated, for
the defenders), or tricks. Ties are broken by the mean number of tricks."""


@dataclass(frozen=True)
class PimcPlayer:
    """Policy of card play: choose the card of highest mean result, double dummy, over deals.

    It acts for rows made during card play only. worlds: deals sampled for each decision. beliefs:
    how the deals are weighted. goal: one of GOALS.
    """

    worlds: int = 30
    beliefs: Beliefs = field(default_factory=Beliefs)
    goal: str = "points"

    def __post_init__(self) -> None:
        check_choice("goal", self.goal, GOALS)

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Return a session that samples deals with `rng`."""
        return _SearchSession(self, rng)

    def choose(self, observations: Observations, rng: Generator) -> int:
        """Return the action for the one row of `observations`."""
        assert observations.legal is not None
        legal = np.flatnonzero(observations.legal[0])
        if len(legal) == 1:
            return int(legal[0])
        cards = card_play_observations(observations).observation[0]
        worlds = sample_worlds(_GAME, observations, self.worlds, self.beliefs, rng)
        values = self.best_cards(observations, cards, worlds)
        return FIRST_PLAY + _break_ties(values, cards)

    def best_cards(self, observations: Observations, cards: Array, worlds: Worlds) -> Array:
        """Return (52,) the mean tricks of the side for each card of the best mean result.

        All other cards have -inf. observations: one row. cards: the same, as an observation of
        MiniBridge (16,).
        """
        seat = int(observations.observation[0, obs.SEAT])
        position, strain = int(cards[kernels.OBS_POSITION]), int(cards[kernels.OBS_STRAIN])
        declarer = declarer_from_position(seat, position)
        seats = (declarer + np.arange(4)) % 4
        played = cards[kernels.OBS_PLAYED : kernels.OBS_VOID]
        hand = hand_bits(worlds.holder)[:, seats] & ~played
        trick = cards[kernels.OBS_TRICK : kernels.OBS_PLAYED]
        count, size = int(cards[kernels.OBS_COUNT]), len(hand)
        leader = (position - count % 4) % 4
        tricks = double_dummy.card_tricks(
            hand, np.full(size, strain), np.full(size, leader), np.tile(trick, (size, 1))
        ).astype(np.int64)
        legal = tricks[0] >= 0
        won, left = int(cards[kernels.OBS_WON]), TRICKS - count // 4
        ours = position % 2 == 0
        declaring = won + (tricks if ours else left - tricks)
        value = _result_values(
            observations.observation[0], self.goal, int(cards[kernels.OBS_NEEDED])
        )
        sign = 1 if ours else -1
        mean = sign * (worlds.weight @ value[np.clip(declaring, 0, TRICKS)])
        tied = legal & (mean >= mean[legal].max() - TIED)
        return np.where(tied, sign * (worlds.weight @ declaring), -np.inf)


_GAME = Bridge()


def _result_values(observation: Array, goal: str, needed: int) -> Array:
    """Return (14,) the value to the declaring side of each number of tricks.

    observation: one observation during card play.
    """
    tricks = np.arange(TRICKS + 1)
    if goal == "tricks":
        return tricks.astype(np.float64)
    if goal == "made":
        return (tricks >= needed).astype(np.float64)
    calls = obs.calls_from_observation(observation)
    dealer = np.array([observation[obs.DEALER]])
    contract = auction_rules.final_contracts(np.array([[*calls, -1]]), dealer)
    many = auction_rules.Contracts(*(np.repeat(column, TRICKS + 1) for column in contract))
    vulnerable = np.full(TRICKS + 1, observation[obs.VULNERABLE])
    points = contract_results.north_south_points(many, vulnerable, tricks)
    return points * (1.0 if contract.declarer[0] % 2 == 0 else -1.0)


def _break_ties(values: Array, cards: Array) -> int:
    """Return a card of the highest value: that of the careful player, else the lowest.

    values: (52,). cards: an observation of MiniBridge (16,).
    """
    best = np.flatnonzero(values >= values.max() - TIED)
    likely = careful_card(cards)
    if likely in best:
        return int(likely)
    own = cards[kernels.OBS_OWN]
    return int(lowest_of_sequence(own, best[np.argmin(best % TRICKS)]))


@dataclass(eq=False)
class _SearchSession:
    policy: PimcPlayer
    rng: Generator

    def act(self, observations: Observations) -> Actions:
        """Return the chosen action of each row. All log-probabilities are 0."""
        chosen = [
            self.policy.choose(select_rows(observations, np.array([row])), self.rng)
            for row in range(len(observations))
        ]
        return Actions(np.array(chosen, np.int64), np.zeros(len(observations)))
