"""Relabel suits in observations of card play, so that equivalent decisions have equal observations.

In the canonical order, the suit led comes first. The other suits are sorted by their number of
cards in the two visible hands, then by their number of own cards, longest first.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit

from overtrick.core import Array, BehaviouralPolicy, Observations, Trajectories
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS, NOTRUMP, SUIT_MASK, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD
from overtrick.policies.memoryless import MemorylessPolicy


def canonical_observations(observations: Observations) -> tuple[Observations, Array]:
    """Relabel the suits of card-play observations in canonical order (see the module's docstring).

    Return the relabelled observations, and the original card (R, 52) of each relabelled card.
    """
    assert observations.legal is not None
    observation = observations.observation.copy()
    original = np.empty((len(observations), CARDS), np.int64)
    _reorder(observations.observation, observation, original)
    legal = np.take_along_axis(observations.legal, original, axis=1)
    return replace(observations, observation=observation, legal=legal, infoset=None), original


def canonical_trajectories(batch: Trajectories) -> Trajectories:
    """Relabel the suits in observations and actions of card play in canonical order.

    The module's docstring defines the order.
    """
    observations, original = canonical_observations(batch.observations())
    return replace(
        batch,
        observation=observations.observation,
        legal=observations.legal,
        infoset=None,
        action=(original == batch.action[:, None]).argmax(axis=1),
    )


class CanonicalPolicy(MemorylessPolicy):
    """Policy that relabels the suits of observations in canonical order and delegates to `policy`.

    policy: a policy on relabelled observations. Its probabilities are mapped back to the original
    cards.
    """

    def __init__(self, policy: BehaviouralPolicy) -> None:
        self.policy = policy

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 52), mapped back from relabelled to original cards."""
        canonical, original = canonical_observations(observations)
        probs = np.empty((len(observations), CARDS))
        np.put_along_axis(probs, original, self.policy.probs(canonical), axis=1)
        return probs


@njit(cache=True)
def _reorder(observation, out, original):  # type: ignore[no-untyped-def]
    """Relabel the suits of observations (R, K) in canonical order.

    out: (R, K) output; it must be a copy of `observation`. original: (R, 52) output, the original
    card of each relabelled card.
    """
    rank = np.empty(4, np.int64)
    for row in range(len(observation)):
        seen = observation[row]
        _rank_suits(seen, rank)
        for column in kernels.CARD_SET_COLUMNS:
            cards = np.int64(0)
            for suit in range(4):
                cards |= (seen[column] >> (TRICKS * suit) & SUIT_MASK) << (TRICKS * rank[suit])
            out[row, column] = cards
        for column in range(kernels.OBS_TRICK, kernels.OBS_TRICK + 4):
            card = seen[column]
            if card != NO_CARD:
                out[row, column] = TRICKS * rank[card // TRICKS] + card % TRICKS
        if seen[kernels.OBS_STRAIN] != NOTRUMP:
            out[row, kernels.OBS_STRAIN] = rank[seen[kernels.OBS_STRAIN]]
        voids = np.int64(0)
        for bit in range(16):
            voids |= (seen[kernels.OBS_VOID] >> bit & 1) << (bit // 4 * 4 + rank[bit % 4])
        out[row, kernels.OBS_VOID] = voids
        for card in range(CARDS):
            original[row, TRICKS * rank[card // TRICKS] + card % TRICKS] = card


@njit(cache=True)
def _rank_suits(observation, rank):  # type: ignore[no-untyped-def]
    """Compute the canonical order of the suits at one observation (K,).

    The module's docstring defines the order. rank: (4,) output, the index of each suit in it.
    """
    key = np.empty(4, np.int64)
    for suit in range(4):
        own = count_cards(observation[kernels.OBS_OWN] >> (TRICKS * suit) & SUIT_MASK)
        both = own + count_cards(observation[kernels.OBS_SHOWN] >> (TRICKS * suit) & SUIT_MASK)
        key[suit] = 1000 * both + 10 * own - suit
    led = kernels.led_card(observation)
    if led != NO_CARD:
        key[led // TRICKS] += 1000000
    for suit in range(4):
        rank[suit] = 0
        for other in range(4):
            rank[suit] += key[other] > key[suit]
