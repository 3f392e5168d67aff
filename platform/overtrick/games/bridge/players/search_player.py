"""Card player that searches: sampled deals, solved double dummy, and alpha-mu as declarer.

Source: Levy 1989, "The million pound bridge program"; Ginsberg 2001, "GIB: imperfect information in
a computationally challenging game"; for alpha-mu see `alpha_mu`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, PolicySession, check_choice, select_rows
from overtrick.games.bridge import auction_rules, contract_results
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.board_observation import (
    FIRST_PLAY,
    card_play_observations,
    declarer_from_position,
)
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.careful_player import lowest_of_sequence
from overtrick.games.bridge.cardplay.defence_signals import signalling_card
from overtrick.games.bridge.cards import TRICKS, hand_bits
from overtrick.games.bridge.players.alpha_mu import TIED, Position, alpha_mu
from overtrick.games.bridge.players.worlds import Beliefs, Worlds, WorldSampler

GOALS = ("points", "made", "tricks")
"""Quantities whose mean a search maximises: the score in points, contracts made (or defeated, for
the defenders), or tricks."""
TRICK_BONUS = 1e-7  # utility of a trick beside that of the goal: it decides between equal results
WORLDS, DEPTH = 30, 10  # defaults
FIRST_WORLDS = 8  # deals of the first round of a search with a time limit
MOST_WORLDS = 4000


@dataclass(frozen=True)
class SearchPlayer:
    """Policy of card play: choose the card with the best mean double-dummy result over deals.

    It acts for rows made during card play only.

    worlds: deals sampled for each decision. seconds: time for a decision; deals are then doubled
        from FIRST_WORLDS on until the next round would probably not end in time, or brings no new
        deal, and `worlds` is not used. The first round is always played. The cards depend on the
        speed of the machine. None: no time limit.
    beliefs: how the deals are weighted.
    goal: one of GOALS.
    moves: moves of the declaring side that alpha-mu chooses alike in all deals; 1: none but the
        card itself. depth: alpha-mu begins once each hand holds at most this many cards.
    """

    worlds: int = WORLDS
    beliefs: Beliefs = field(default_factory=Beliefs)
    goal: str = "points"
    moves: int = 1
    depth: int = DEPTH
    seconds: float | None = None

    def __post_init__(self) -> None:
        check_choice("goal", self.goal, GOALS)

    def start(self, games: int, rng: Generator) -> PolicySession:
        """Return a session that samples deals with `rng`."""
        return _SearchSession(self, rng)

    def choose(self, observations: Observations, sampler: WorldSampler, rng: Generator) -> int:
        """Return the action for the one row of `observations`."""
        assert observations.legal is not None
        legal = np.flatnonzero(observations.legal[0])
        if len(legal) == 1:
            return int(legal[0])
        cards = card_play_observations(observations).observation[0]
        values = self._search(observations, cards, sampler, rng)
        seat = int(observations.observation[0, obs.SEAT])
        declarer = declarer_from_position(seat, int(cards[kernels.OBS_POSITION]))
        signals = self.beliefs.signals_by_position(declarer)
        return FIRST_PLAY + _break_ties(values, cards, signals)

    def _search(
        self, observations: Observations, cards: Array, sampler: WorldSampler, rng: Generator
    ) -> Array:
        """Return (52,) the value of each card, with as many deals as the time allows."""
        if self.seconds is None:
            return self.card_values(
                observations, cards, sampler.sample(observations, self.worlds, rng)
            )
        count, distinct, begun = FIRST_WORLDS, 0, time.perf_counter()
        while True:
            round_begun = time.perf_counter()
            worlds = sampler.sample(observations, count, rng, fewest=1)
            values = self.card_values(observations, cards, worlds)
            now = time.perf_counter()
            late = now - begun + 2 * (now - round_begun) > self.seconds
            if late or len(worlds.weight) <= distinct or count >= MOST_WORLDS:
                return values
            count, distinct = 2 * count, len(worlds.weight)

    def card_values(self, observations: Observations, cards: Array, worlds: Worlds) -> Array:
        """Return (52,) the mean utility of each card for the side to play; -inf: illegal.

        With alpha-mu, cards that cannot be best have -inf too. observations: one row. cards: the
        same, as an observation of MiniBridge (16,).
        """
        seat = int(observations.observation[0, obs.SEAT])
        turn, count = int(cards[kernels.OBS_POSITION]), int(cards[kernels.OBS_COUNT])
        declarer = declarer_from_position(seat, turn)
        seats = (declarer + np.arange(4)) % 4
        played = cards[kernels.OBS_PLAYED : kernels.OBS_VOID]
        position = Position(
            hand_bits(worlds.holder)[:, seats] & ~played,
            cards[kernels.OBS_TRICK : kernels.OBS_PLAYED],
            (turn - count % 4) % 4,
            int(cards[kernels.OBS_WON]),
            int(cards[kernels.OBS_STRAIN]),
        )
        utility = _result_values(
            observations.observation[0], self.goal, int(cards[kernels.OBS_NEEDED])
        ) + TRICK_BONUS * np.arange(TRICKS + 1)
        if turn % 2 == 0 and self.moves > 1 and TRICKS - count // 4 <= self.depth:
            return alpha_mu(position, utility, worlds.weight, self.moves)
        outcomes = position.outcomes(utility if turn % 2 == 0 else -utility)
        legal = np.isfinite(outcomes[0])
        return np.where(legal, worlds.weight @ np.where(legal, outcomes, 0), -np.inf)


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


def _break_ties(values: Array, cards: Array, signals: Array) -> int:
    """Return a card of the highest value: that of the rules and signals, else the lowest.

    values: (52,). cards: an observation of MiniBridge (16,). signals: (4, 2) by position.
    """
    best = np.flatnonzero(values >= values.max() - TIED)
    likely = signalling_card(cards, signals)
    if likely in best:
        return int(likely)
    own = cards[kernels.OBS_OWN]
    return int(lowest_of_sequence(own, best[np.argmin(best % TRICKS)]))


@dataclass(eq=False)
class _SearchSession:
    policy: SearchPlayer
    rng: Generator
    samplers: dict[tuple[int, int], WorldSampler] = field(default_factory=dict)  # by game and seat

    def act(self, observations: Observations) -> Actions:
        """Return the chosen action of each row. All log-probabilities are 0."""
        chosen = np.empty(len(observations), np.int64)
        for row in range(len(observations)):
            one = select_rows(observations, np.array([row]))
            key = int(one.game[0]), int(one.observation[0, obs.SEAT])
            sampler = self.samplers.setdefault(key, WorldSampler(self.policy.beliefs))
            chosen[row] = self.policy.choose(one, sampler, self.rng)
        return Actions(chosen, np.zeros(len(observations)))
