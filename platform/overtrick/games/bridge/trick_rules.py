"""The play of the cards: who may play what, who wins a trick, and recorded plays played again."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.cards import CARDS, SUIT_MASK, TRICKS

NO_CARD = -1  # in the place of a card


@njit(cache=True)
def playable_cards(hand, led):  # type: ignore[no-untyped-def]
    """The cards of a hand that may be played: those of the suit of the card led, if there are any.

    led is NOTHING for who leads.
    """
    if led == NO_CARD:
        return hand
    same = hand & (np.int64(SUIT_MASK) << (TRICKS * (led // TRICKS)))
    return same if same else hand


@njit(cache=True)
def beats(card, best, strain):  # type: ignore[no-untyped-def]
    """Does a card take a trick from the best one so far?"""
    if card // TRICKS == best // TRICKS:
        return card > best
    return card // TRICKS == strain


def replay_tricks(hands: Array, strain: Array, leader: Array, cards: Array) -> tuple[Array, Array]:
    """Plays from the opening lead on, as far as they go.

    hands (G, 4); strain (G,) and leader (G,) numbers; cards (G, 52) in the order played, NOTHING
    after the last one. Returns (G,) how many tricks were finished and won by the leader's
    opponents, the declaring side; and (G,) the first card that was not held or did not follow
    suit, NOTHING if all did.
    """
    won = np.zeros(len(hands), np.int64)
    wrong = np.full(len(hands), NO_CARD)
    _replay(hands.copy(), strain, leader, cards, won, wrong)
    return won, wrong


@njit(cache=True)
def _replay(hands, strain, leader, cards, won, wrong):  # type: ignore[no-untyped-def]
    for game in range(len(hands)):
        seat, declarers = leader[game], (leader[game] + 1) % 2
        led = best = winner = NO_CARD
        for k in range(CARDS):
            card = cards[game, k]
            if card == NO_CARD:
                break
            bit = np.int64(1) << card
            if not playable_cards(hands[game, seat], led) & bit:
                wrong[game] = k
                break
            hands[game, seat] ^= bit
            if led == NO_CARD:
                led = best = card
                winner = seat
            elif beats(card, best, strain[game]):
                best, winner = card, seat
            seat = (seat + 1) % 4
            if k % 4 == 3:
                won[game] += winner % 2 == declarers
                led, seat = NO_CARD, winner
