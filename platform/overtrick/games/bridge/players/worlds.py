"""Sample deals that agree with a player's observation, weighted by the calls and cards seen.

Source: importance sampling as in Ginsberg 2001, "GIB: imperfect information in a computationally
challenging game", section 3: deals are drawn uniformly, then weighted by the probability that the
other players would have made their calls and played their cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, Observations
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.board_observation import card_play_observations, declarer_from_position
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.careful_player import careful_card
from overtrick.games.bridge.cards import CARDS, TRICKS, count_cards, hand_bits
from overtrick.games.bridge.game import Bridge
from overtrick.games.bridge.system.contradicted_calls import count_contradicted_calls
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.trick_rules import NO_CARD, playable_cards

PROPOSALS = 4000


class Worlds(NamedTuple):
    """Worlds: sampled deals that a player considers, with their probabilities."""

    holder: Array  # (W, 52) the seat that holds each card
    weight: Array  # (W,) sums to 1


@dataclass(frozen=True)
class Beliefs:
    """Assumptions about the other players, by which sampled deals are weighted.

    systems: bidding systems of North-South and East-West; None: calls are ignored.
    call_error: likelihood of a call that the caller's system would not make with the hand, relative
        to the call that it would make.
    rule_share: probability that a player plays the card of `careful_player`, or with equal
        probability another card of its unbroken sequence; else each legal card is equally likely.
        0: cards are ignored, except that suits not followed are known to be void.
    proposals: deals drawn uniformly for one decision, before they are weighted.
    """

    systems: tuple[System, System] | None = None
    call_error: float = 0.02
    rule_share: float = 0.0
    proposals: int = PROPOSALS

    @property
    def informed(self) -> bool:
        """Return whether sampled deals are weighted at all."""
        return self.systems is not None or self.rule_share > 0


def sample_worlds(
    game: Bridge, observations: Observations, count: int, beliefs: Beliefs, rng: Generator
) -> Worlds:
    """Sample `count` deals for the one observation during card play in `observations`.

    Deals that are drawn several times are joined. beliefs: assumptions by which deals are weighted.
    """
    proposals = beliefs.proposals if beliefs.informed else count
    rows = np.zeros(proposals, np.int64)
    many = Observations(rows, observations.seat[rows], observations.observation[rows], None, None)
    holder = game.redeal(many, rng)[:, :CARDS]
    if not beliefs.informed:
        return _join_equal(holder, np.full(count, 1 / count))
    log_weight = _log_weights(observations, holder, beliefs)
    weight = np.exp(log_weight - log_weight.max())
    drawn = rng.multinomial(count, weight / weight.sum())
    chosen = np.flatnonzero(drawn)
    return _join_equal(holder[chosen], drawn[chosen] / count)


def _join_equal(holder: Array, weight: Array) -> Worlds:
    """Return the distinct deals among `holder` (W, 52), with the sums of their weights (W,)."""
    distinct, place = np.unique(holder, axis=0, return_inverse=True)
    return Worlds(distinct, np.bincount(place.ravel(), weight))


def _log_weights(observations: Observations, holder: Array, beliefs: Beliefs) -> Array:
    """Return (W,) the log likelihood of calls and cards of the hidden hands in W deals.

    observations: one row. holder: (W, 52).
    """
    seen, hands = observations.observation[0], hand_bits(holder)
    cards = card_play_observations(observations).observation[0]
    position = int(cards[kernels.OBS_POSITION])
    seat = int(seen[obs.SEAT])
    declarer = declarer_from_position(seat, position)
    opened = cards[kernels.OBS_COUNT] > 0
    visible = {seat, (declarer + 2) % 4} if opened else {seat}
    hidden = [each for each in range(4) if each not in visible]
    total = np.zeros(len(holder))
    if beliefs.systems is not None:
        wrong = count_contradicted_calls(
            hands, hidden, obs.calls_from_observation(seen), int(seen[obs.DEALER]),
            int(seen[obs.VULNERABLE]), *beliefs.systems,
        )  # fmt: skip
        total += np.log(beliefs.call_error) * wrong
    if beliefs.rule_share > 0 and opened:
        by_position = hands[:, (declarer + np.arange(4)) % 4]
        counted = np.isin((declarer + np.arange(4)) % 4, hidden)
        played = seen[-CARDS:]
        total += _log_card_likelihood(
            by_position, counted, played, cards[kernels.OBS_STRAIN], beliefs.rule_share
        )
    return total


@njit(cache=True)
def _log_card_likelihood(hands, counted, cards, strain, rule_share):  # type: ignore[no-untyped-def]
    """Return (W,) the log probability of the cards played by hidden hands, in W deals.

    hands: (W, 4) dealt hands by position. counted: (4,) bool, the hidden positions. cards: (52,) in
    the order played, then NO_CARD. rule_share: see Beliefs.
    """
    found = np.zeros(len(hands))
    observation = np.empty(kernels.OBSERVATION_WIDTH, np.int64)
    hand, played, trick = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4, np.int64)
    progress = np.empty(kernels.PROGRESS_WIDTH, np.int64)
    for row in range(len(hands)):
        hand[:], played[:], trick[:], progress[:] = hands[row], 0, NO_CARD, 0
        progress[kernels.LED], progress[kernels.TURN] = NO_CARD, 1
        progress[kernels.STRAIN] = strain
        for card in cards:
            if card == NO_CARD:
                break
            turn = progress[kernels.TURN]
            if counted[turn]:
                kernels.write_observation(hand, played, trick, progress, observation)
                able = playable_cards(hand[turn], progress[kernels.LED])
                choices = count_cards(able)
                if choices > 1:
                    equal = _touching(hand[turn], careful_card(observation))
                    like = rule_share / count_cards(equal) if equal >> card & 1 else 0.0
                    found[row] += np.log(like + (1 - rule_share) / choices)
            kernels.play_card(card, hand, played, trick, progress)
    return found


@njit(cache=True)
def _touching(hand, card):  # type: ignore[no-untyped-def]
    """Return the unbroken sequence of a hand that contains one of its cards, as a bit mask."""
    low, high = card, card
    while low % TRICKS and hand >> (low - 1) & 1:
        low -= 1
    while high % TRICKS < TRICKS - 1 and hand >> (high + 1) & 1:
        high += 1
    return (np.int64(1) << (high + 1)) - (np.int64(1) << low)
