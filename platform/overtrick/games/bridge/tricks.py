"""The kernels of card play over many games at once: what may be played, and what then follows."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.games.bridge.cardplay import NOTHING, beats, lawful
from overtrick.games.bridge.cards import CARDS, TRICKS

SETS = (5, 6, 11, 12, 13, 14)  # facts that are sets of cards: own, shown, played by position
TRICK = (7, 8, 9, 10)  # facts that are a card
WIDTH = 4 + 5 + 3 + CARDS * (len(SETS) + len(TRICK)) + 16


@njit(cache=True)
def lawful_cards(own, led):  # type: ignore[no-untyped-def]
    """(R, 52) which cards may be played from hands (R,) to the cards led (R,)."""
    legal = np.zeros((len(own), CARDS), np.bool_)
    for row in range(len(own)):
        cards = lawful(own[row], led[row])
        for card in range(CARDS):
            legal[row, card] = cards >> card & 1
    return legal


@njit(cache=True)
def unlawful(games, cards, hand, led, position):  # type: ignore[no-untyped-def]
    """The first row whose card may not be played in its game, or NOTHING."""
    for row in range(len(games)):
        game, card = games[row], cards[row]
        if card < 0 or card >= CARDS:
            return row
        if not lawful(hand[game, position[game]], led[game]) >> card & 1:
            return row
    return NOTHING


@njit(cache=True)
def advance(  # type: ignore[no-untyped-def]
    games, cards, hand, played, trick, void, led, position, count, won, strain
):
    """Play one lawful card in each of some games, in place."""
    for row in range(len(games)):
        game, card = games[row], cards[row]
        who = position[game]
        hand[game, who] ^= np.int64(1) << card
        played[game, who] |= np.int64(1) << card
        if led[game] == NOTHING:
            led[game] = card
        elif card // TRICKS != led[game] // TRICKS:
            void[game] |= 1 << (4 * who + led[game] // TRICKS)
        trick[game, who] = card
        count[game] += 1
        if count[game] % 4:
            position[game] = (who + 1) % 4
            continue
        winner = (who + 1) % 4  # who led
        for k in range(2, 5):
            other = (who + k) % 4
            if beats(trick[game, other], trick[game, winner], strain[game]):
                winner = other
        won[game] += winner % 2 == 0
        position[game] = winner
        led[game] = NOTHING
        trick[game] = NOTHING


@njit(cache=True)
def redeal(seen, deals, rng):  # type: ignore[no-untyped-def]
    """Write who holds each card into the first 52 columns of deals (R, 54), from facts (R, K).

    What nobody has shown goes to the hands that the row does not see. Only two of them can be
    known to be void in a suit, for then dummy lies open: a card of such a suit goes to the other
    one, and of the rest each has its share at random.
    """
    hidden = np.empty(CARDS, np.int64)
    room = np.empty(4, np.int64)
    for row in range(len(seen)):
        unknown = _place_known(seen[row], deals[row], hidden, room)
        free = _place_forced(seen[row, 15], deals[row], hidden[:unknown], room)
        for last in range(free - 1, -1, -1):
            place = int(rng.random() * (last + 1))
            card, hidden[place] = hidden[place], hidden[last]
            position = 0
            while room[position] == 0:
                position += 1
            deals[row, card] = position
            room[position] -= 1


@njit(cache=True)
def _place_known(facts, deal, hidden, room):  # type: ignore[no-untyped-def]
    """Write who holds the cards that a row knows of; how many it does not, which are then in
    hidden, and in room how many of them each position has."""
    who, unknown = facts[0], 0
    other = 2 if who % 2 else 2 - who
    room[:] = TRICKS
    for card in range(CARDS):
        holder = NOTHING
        for position in range(4):
            if facts[11 + position] >> card & 1:
                holder = position
        if facts[5] >> card & 1:
            holder = who
        elif facts[6] >> card & 1:
            holder = other
        if holder == NOTHING:
            hidden[unknown] = card
            unknown += 1
        else:
            deal[card] = holder
            room[holder] -= 1
    return unknown


@njit(cache=True)
def _place_forced(void, deal, hidden, room):  # type: ignore[no-untyped-def]
    """Write who holds the hidden cards that only one hand can have; how many are left, which then
    stand first."""
    free = 0
    for card in hidden:
        able = ables = 0
        for position in range(4):
            if room[position] > 0 and not void >> (4 * position + card // TRICKS) & 1:
                able = position
                ables += 1
        if ables == 1:
            deal[card] = able
            room[able] -= 1
        else:
            hidden[free] = card
            free += 1
    return free


@njit(cache=True)
def features(seen):  # type: ignore[no-untyped-def]
    """(R, WIDTH) float32, as MiniBridge.features says."""
    out = np.zeros((len(seen), WIDTH), np.float32)
    for row in range(len(seen)):
        out[row, seen[row, 0]] = 1
        out[row, 4 + seen[row, 1]] = 1
        out[row, 9] = seen[row, 2] / TRICKS
        out[row, 10] = seen[row, 3] / TRICKS
        out[row, 11] = seen[row, 4] / CARDS
        start = 12
        for column in SETS:
            for card in range(CARDS):
                out[row, start + card] = seen[row, column] >> card & 1
            start += CARDS
        for column in TRICK:
            if seen[row, column] != NOTHING:
                out[row, start + seen[row, column]] = 1
            start += CARDS
        for bit in range(16):
            out[row, start + bit] = seen[row, 15] >> bit & 1
    return out
