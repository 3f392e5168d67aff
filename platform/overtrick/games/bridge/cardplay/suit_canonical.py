"""Rows of card play with their suits renamed, so that those which are alike look alike.

The suit led comes first; the others follow by how many cards the two hands in view have of them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, BehaviouralPolicy, Observations, Trajectories
from overtrick.games.bridge.cardplay.kernels import (
    CARD_SET_COLUMNS,
    OBS_COUNT,
    OBS_OWN,
    OBS_POSITION,
    OBS_SHOWN,
    OBS_STRAIN,
    OBS_TRICK,
    OBS_VOID,
)
from overtrick.games.bridge.cards import CARDS, NOTRUMP, SUIT_MASK, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD
from overtrick.policies.memoryless import MemorylessPolicy


def canonical_observations(observations: Observations) -> tuple[Observations, Array]:
    """The same rows with other names for the suits, and (R, 52) each card's own name."""
    assert observations.legal is not None
    seen, own = observations.observation.copy(), np.empty((len(observations), CARDS), np.int64)
    _rename(observations.observation, seen, own)
    legal = np.take_along_axis(observations.legal, own, axis=1)
    return Observations(observations.game, observations.seat, seen, legal, None), own


def canonical_trajectories(batch: Trajectories) -> Trajectories:
    """The same decisions with other names for the suits."""
    observations, own = canonical_observations(batch.observations())
    action = (own == batch.action[:, None]).argmax(axis=1)
    return Trajectories(
        batch.games, batch.game, batch.seat, observations.observation, observations.legal, None,
        action, batch.logp, batch.reward, batch.last, batch.extras,
    )  # fmt: skip


class CanonicalPolicy(MemorylessPolicy):
    """Plays as a policy does that knows renamed suits only."""

    def __init__(self, policy: BehaviouralPolicy) -> None:
        self.policy = policy

    def probs(self, observations: Observations) -> Array:
        """(R, 52)."""
        other, own = canonical_observations(observations)
        probs = np.empty((len(observations), CARDS))
        np.put_along_axis(probs, own, self.policy.probs(other), axis=1)
        return probs


@njit(cache=True)
def _rename(seen, out, own):  # type: ignore[no-untyped-def]
    """Write facts (R, K) with suits renamed, and the own name of each renamed card (R, 52)."""
    place = np.empty(4, np.int64)
    for row in range(len(seen)):
        facts = seen[row]
        _places(facts, place)
        for column in CARD_SET_COLUMNS:
            bits = np.int64(0)
            for suit in range(4):
                bits |= (facts[column] >> (TRICKS * suit) & SUIT_MASK) << (TRICKS * place[suit])
            out[row, column] = bits
        for column in range(OBS_TRICK, OBS_TRICK + 4):
            card = facts[column]
            if card != NO_CARD:
                out[row, column] = TRICKS * place[card // TRICKS] + card % TRICKS
        if facts[OBS_STRAIN] != NOTRUMP:
            out[row, OBS_STRAIN] = place[facts[OBS_STRAIN]]
        void = np.int64(0)
        for bit in range(16):
            void |= (facts[OBS_VOID] >> bit & 1) << (bit // 4 * 4 + place[bit % 4])
        out[row, OBS_VOID] = void
        for card in range(CARDS):
            own[row, TRICKS * place[card // TRICKS] + card % TRICKS] = card


@njit(cache=True)
def _places(facts, place):  # type: ignore[no-untyped-def]
    """Write the new name of each suit (4,)."""
    worth = np.empty(4, np.int64)
    for suit in range(4):
        mine = count_cards(facts[OBS_OWN] >> (TRICKS * suit) & SUIT_MASK)
        both = mine + count_cards(facts[OBS_SHOWN] >> (TRICKS * suit) & SUIT_MASK)
        worth[suit] = 1000 * both + 10 * mine - suit
    if facts[OBS_COUNT] % 4:
        led = facts[OBS_TRICK + (facts[OBS_POSITION] - facts[OBS_COUNT]) % 4]
        worth[led // TRICKS] += 1000000
    for suit in range(4):
        place[suit] = 0
        for other in range(4):
            place[suit] += worth[other] > worth[suit]
