"""What a table of values knows a decision by: state representations (Hadjur 2018, section 4.2).

A state is mixed into a uint64 from all that its representation looks at, so that two different ones
are taken for the same about once in 2 ** 64 pairs. Most representations have one state a row,
(R, 1), in which every card is an action. `prospects` has one a card, (R, 52), 0 where it may not be
played: what can become of the card is the state, and that it is played the only action.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from overtrick.core import Array, Observations
from overtrick.games.bridge.cardplay.kernels import (
    OBS_COUNT,
    OBS_OWN,
    OBS_PLAYED,
    OBS_POSITION,
    OBS_SHOWN,
    OBS_STRAIN,
    OBS_TRICK,
    OBSERVATION_WIDTH,
    winning_position,
)
from overtrick.games.bridge.cards import CARDS, RANKS, SUIT_MASK, SUITS, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD, beats

NEAR = 2  # ranks that a card may be away to be like another


def _of_ranks(ranks: str) -> int:
    """The set of all cards of some ranks."""
    return sum(1 << (TRICKS * suit + RANKS.index(r)) for suit in range(len(SUITS)) for r in ranks)


HELD, GONE_BY = _of_ranks("KA"), _of_ranks("QKA")
"""What is looked at in the hands, and in the tricks that are over."""


def similar_cards() -> tuple[Array, Array]:
    """The cards (52, 4) like each card, those of its suit at most NEAR ranks away, -1 if there are
    fewer; and how far away each is."""
    far = np.array([-2, -1, 1, 2])
    rank = np.arange(CARDS) % TRICKS
    there = rank[:, None] + far
    inside = (there >= 0) & (there < TRICKS)
    return np.where(inside, np.arange(CARDS)[:, None] + far, -1), np.tile(abs(far), (CARDS, 1))


@njit(cache=True)
def _mixed(state, word):  # type: ignore[no-untyped-def]
    """A state and one more number of it as a state (finaliser of MurmurHash3, Appleby 2011)."""
    state = (state ^ np.uint64(word)) * np.uint64(0xFF51AFD7ED558CCD)
    state = (state ^ state >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    return state ^ state >> np.uint64(33)


@njit(cache=True)
def _full(seen):  # type: ignore[no-untyped-def]
    """All facts."""
    states = np.ones((len(seen), 1), np.uint64)
    for row in range(len(seen)):
        for fact in range(OBSERVATION_WIDTH):
            states[row, 0] = _mixed(states[row, 0], seen[row, fact])
    return states


@njit(cache=True)
def _honours(seen, hands):  # type: ignore[no-untyped-def]
    """The trick, and who played which card of it; the queens, kings and aces of the tricks before;
    with hands, the kings and aces that both hands in view hold."""
    states = np.ones((len(seen), 1), np.uint64)
    for row in range(len(seen)):
        facts, state = seen[row], np.uint64(1)
        gone = on_table = np.int64(0)
        for position in range(4):
            card = facts[OBS_TRICK + position]
            state = _mixed(state, card + 1)
            gone |= facts[OBS_PLAYED + position]
            if card != NO_CARD:
                on_table |= np.int64(1) << card
        state = _mixed(state, gone & ~on_table & GONE_BY)
        if hands:
            state = _mixed(state, (facts[OBS_OWN] | facts[OBS_SHOWN]) & HELD)
        states[row, 0] = state
    return states


LEADS, TAKES, FOLLOWS, RUFFS, DISCARDS = range(5)
"""What a card does in its trick: TAKES and RUFFS are for now the best card."""


@njit(cache=True)
def _prospects(seen, legal):  # type: ignore[no-untyped-def]
    """Of each card (R, 52): the place in the trick, what the card does there, whose the trick is,
    whether the hand in view has played to it; how many unseen cards of the suit are higher (to 3),
    how many own ones lower (to 2); how many of the suit this hand has (to 5), the one in view (to
    5), and those unseen (to 6); how many of both hands no unseen card beats (to 2 each)."""
    states = np.zeros(legal.shape, np.uint64)
    for row in range(len(seen)):
        facts = seen[row]
        who, place = facts[OBS_POSITION], facts[OBS_COUNT] % 4
        shows = 2 if who % 2 else 2 - who
        known = facts[OBS_OWN] | facts[OBS_SHOWN]
        for position in range(4):
            known |= facts[OBS_PLAYED + position]
        best = led = NO_CARD
        ours = False
        if place:
            taker = winning_position(facts)
            best, led = facts[OBS_TRICK + taker], facts[OBS_TRICK + (who - place) % 4]
            ours = taker % 2 == who % 2
        trick = 8 * place + 2 * ours + (facts[OBS_TRICK + shows] != NO_CARD)
        for suit in range(4):
            own = facts[OBS_OWN] >> (TRICKS * suit) & SUIT_MASK
            other = facts[OBS_SHOWN] >> (TRICKS * suit) & SUIT_MASK
            unseen = ~known >> (TRICKS * suit) & SUIT_MASK
            about = _mixed(np.uint64(1), trick)
            about = _mixed(about, 64 * min(count_cards(own), 5) + 8 * min(count_cards(other), 5))
            about = _mixed(about, min(count_cards(unseen), 6))
            about = _mixed(about, 4 * min(_sure(own, unseen), 2) + min(_sure(other, unseen), 2))
            for rank in range(TRICKS):
                card = TRICKS * suit + rank
                if not legal[row, card]:
                    continue
                if place == 0:
                    does = LEADS
                elif beats(card, best, facts[OBS_STRAIN]):
                    does = TAKES if suit == led // TRICKS else RUFFS
                else:
                    does = FOLLOWS if suit == led // TRICKS else DISCARDS
                higher = min(count_cards(unseen >> rank), 3)
                lower = min(count_cards(own & ((np.int64(1) << rank) - 1)), 2)
                states[row, card] = _mixed(about, 16 * does + 4 * higher + lower)
    return states


@njit(cache=True)
def _sure(held, unseen):  # type: ignore[no-untyped-def]
    """How many cards held of a suit are higher than all that are unseen."""
    higher = 0
    for rank in range(TRICKS - 1, -1, -1):
        if unseen >> rank & 1:
            break
        higher += held >> rank & 1
    return higher


def full(observations: Observations) -> Array:
    return _full(observations.observation)


def known_hands(observations: Observations) -> Array:
    return _honours(observations.observation, True)


def unknown_hands(observations: Observations) -> Array:
    return _honours(observations.observation, False)


def prospects(observations: Observations) -> Array:
    return _prospects(observations.observation, observations.legal)


REPRESENTATIONS: dict[str, Callable[[Observations], Array]] = {
    each.__name__: each for each in (full, known_hands, unknown_hands, prospects)
}
"""By name: rows to their states."""
