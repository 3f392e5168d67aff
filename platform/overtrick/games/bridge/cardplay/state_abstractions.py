"""State abstractions of card play: keys for tables of action values (Hadjur 2018, section 4.2).

A key is a uint64 hash of the properties of an observation that an abstraction keeps. Two different
abstract states have the same key with probability 2 ** -64. Most abstractions return one key per
observation, (R, 1); the table then has 52 values for a key, one for each card. `prospects` returns
one key per legal card, (R, 52); the table then has one value for a key.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from overtrick.core import Array, Observations
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS, RANKS, SUIT_MASK, SUITS, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD, beats


def _cards_of_ranks(ranks: str) -> int:
    """Return the bit mask of all cards with the given ranks, such as "KA"."""
    return sum(1 << (TRICKS * suit + RANKS.index(r)) for suit in range(len(SUITS)) for r in ranks)


HELD_HONOURS, PLAYED_HONOURS = _cards_of_ranks("KA"), _cards_of_ranks("QKA")
"""Bit masks of the cards that `known_hands` keeps in visible hands and in earlier tricks."""


def similar_cards() -> tuple[Array, Array]:
    """Return the four cards (52, 4) nearest in rank to each card, and their distances (52, 4).

    They are the cards of the same suit that are one or two ranks lower or higher. If there is no
    such rank, the card is -1.
    """
    offset = np.array([-2, -1, 1, 2])
    rank = np.arange(CARDS)[:, None] % TRICKS + offset
    inside = (rank >= 0) & (rank < TRICKS)
    similar = np.where(inside, np.arange(CARDS)[:, None] + offset, -1)
    return similar, np.tile(abs(offset), (CARDS, 1))


@njit(cache=True)
def _mix(key, word):  # type: ignore[no-untyped-def]
    """Combine a hash and one more number into a new hash (finaliser of MurmurHash3, 2011)."""
    key = (key ^ np.uint64(word)) * np.uint64(0xFF51AFD7ED558CCD)
    key = (key ^ key >> np.uint64(33)) * np.uint64(0xC4CEB9FE1A85EC53)
    return key ^ key >> np.uint64(33)


@njit(cache=True)
def _full(observation):  # type: ignore[no-untyped-def]
    keys = np.ones((len(observation), 1), np.uint64)
    for row in range(len(observation)):
        for field in range(kernels.OBSERVATION_WIDTH):
            keys[row, 0] = _mix(keys[row, 0], observation[row, field])
    return keys


@njit(cache=True)
def _honours(observation, with_hands):  # type: ignore[no-untyped-def]
    keys = np.ones((len(observation), 1), np.uint64)
    for row in range(len(observation)):
        seen, key = observation[row], np.uint64(1)
        played = in_trick = np.int64(0)
        for position in range(4):
            card = seen[kernels.OBS_TRICK + position]
            key = _mix(key, card + 1)
            played |= seen[kernels.OBS_PLAYED + position]
            if card != NO_CARD:
                in_trick |= np.int64(1) << card
        key = _mix(key, played & ~in_trick & PLAYED_HONOURS)
        if with_hands:
            visible = seen[kernels.OBS_OWN] | seen[kernels.OBS_SHOWN]
            key = _mix(key, visible & HELD_HONOURS)
        keys[row, 0] = key
    return keys


LEADS, WINS, FOLLOWS, RUFFS, DISCARDS = range(5)
"""Roles of a card in its trick; WINS and RUFFS make it the best card so far."""


@njit(cache=True)
def _prospects(observation, legal):  # type: ignore[no-untyped-def]
    keys = np.zeros(legal.shape, np.uint64)
    for row in range(len(observation)):
        seen = observation[row]
        position, place = seen[kernels.OBS_POSITION], seen[kernels.OBS_COUNT] % 4
        seen_cards, led = kernels.seen_cards(seen), kernels.led_card(seen)
        best, winning = NO_CARD, False
        if place:
            winner = kernels.winning_position(seen)
            best, winning = seen[kernels.OBS_TRICK + winner], winner % 2 == position % 2
        shown_card = seen[kernels.OBS_TRICK + kernels.shown_position(position)]
        trick = 8 * place + 2 * winning + (shown_card != NO_CARD)
        for suit in range(4):
            own = seen[kernels.OBS_OWN] >> (TRICKS * suit) & SUIT_MASK
            shown = seen[kernels.OBS_SHOWN] >> (TRICKS * suit) & SUIT_MASK
            unseen = ~seen_cards >> (TRICKS * suit) & SUIT_MASK
            key = _mix(np.uint64(1), trick)
            key = _mix(key, 64 * min(count_cards(own), 5) + 8 * min(count_cards(shown), 5))
            key = _mix(key, min(count_cards(unseen), 6))
            key = _mix(key, 4 * min(_winners(own, unseen), 2) + min(_winners(shown, unseen), 2))
            for rank in range(TRICKS):
                card = TRICKS * suit + rank
                if not legal[row, card]:
                    continue
                if place == 0:
                    role = LEADS
                elif beats(card, best, seen[kernels.OBS_STRAIN]):
                    role = WINS if suit == led // TRICKS else RUFFS
                else:
                    role = FOLLOWS if suit == led // TRICKS else DISCARDS
                higher = min(count_cards(unseen >> rank), 3)
                lower = min(count_cards(own & ((np.int64(1) << rank) - 1)), 2)
                keys[row, card] = _mix(key, 16 * role + 4 * higher + lower)
    return keys


@njit(cache=True)
def _winners(held, unseen):  # type: ignore[no-untyped-def]
    """Return the number of held cards of one suit that are higher than all its unseen cards.

    held, unseen: bit masks of the 13 ranks.
    """
    higher = 0
    for rank in range(TRICKS - 1, -1, -1):
        if unseen >> rank & 1:
            break
        higher += held >> rank & 1
    return higher


def full(observations: Observations) -> Array:
    """Return the hashes (R, 1) uint64 of complete observations, as keys without abstraction."""
    return _full(observations.observation)


def known_hands(observations: Observations) -> Array:
    """Return the key (R, 1) uint64 of each observation's abstract state: trick and high cards.

    A key is the hash of:

    - the card that each position has played to the current trick
    - the queens, kings and aces played in earlier tricks
    - the kings and aces in the player's hand and in dummy, or the declarer's hand if dummy is to
      play
    """
    return _honours(observations.observation, True)


def unknown_hands(observations: Observations) -> Array:
    """Return the key (R, 1) uint64 of each observation's abstract state: played cards only.

    A key is the hash of:

    - the card that each position has played to the current trick
    - the queens, kings and aces played in earlier tricks

    The player's own hand and dummy's hand are ignored.
    """
    return _honours(observations.observation, False)


def prospects(observations: Observations) -> Array:
    """Return the key (R, 52) uint64 of each abstract state-action pair; 0 for illegal cards.

    An action is a legal card. Its key is the hash of the features below. A number in brackets is an
    upper bound to which a feature is clipped. "Dummy" means the declarer's hand if dummy is to
    play.

    - the number of cards already played to the trick
    - the role of the card in the trick: lead, win, follow, ruff or discard
    - whether the player's side is winning the trick
    - whether dummy has already played to the trick
    - the number of higher cards that are unseen [3]
    - the number of lower cards in the player's hand [2]
    - the length of the suit in the player's hand [5], in dummy [5], and unseen [6]
    - the number of cards higher than all unseen cards, in the player's hand [2] and in dummy [2]
    """
    return _prospects(observations.observation, observations.legal)


REPRESENTATIONS: dict[str, Callable[[Observations], Array]] = {
    each.__name__: each for each in (full, known_hands, unknown_hands, prospects)
}
"""State abstractions by name: functions from Observations to keys."""
