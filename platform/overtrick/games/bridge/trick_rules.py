"""Rules of card play: playable cards, the winner of a trick, and the replay of recorded tricks."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.cards import CARDS, SUIT_MASK, TRICKS

NO_CARD = -1


@njit(cache=True)
def playable_cards(hand, led):  # type: ignore[no-untyped-def]
    """Return the legal cards of a hand as a bit mask: cards of the suit led, or all if it has none.

    hand: bit mask. led: the card led to the trick, or NO_CARD for the leader.
    """
    if led == NO_CARD:
        return hand
    same = hand & (np.int64(SUIT_MASK) << (TRICKS * (led // TRICKS)))
    return same if same else hand


@njit(cache=True)
def beats(card, best, strain):  # type: ignore[no-untyped-def]
    """Return whether `card` beats `best`, the card that is winning the trick so far.

    strain: trump suit, 0 to 3, or notrump, 4.
    """
    if card // TRICKS == best // TRICKS:
        return card > best
    return card // TRICKS == strain


@njit(cache=True)
def suit_cards(suit):  # type: ignore[no-untyped-def]
    """Return the bit mask of all cards of a suit, 0 to 3."""
    return np.int64(SUIT_MASK) << (TRICKS * suit)


@njit(cache=True)
def lowest_card(cards):  # type: ignore[no-untyped-def]
    """Return the card of lowest rank in a bit mask, or NO_CARD if the mask is empty.

    Of equal ranks, choose the lower suit.
    """
    best = NO_CARD
    for card in range(CARDS):
        if cards >> card & 1 and (best == NO_CARD or card % TRICKS < best % TRICKS):
            best = card
    return best


@njit(cache=True)
def highest_card(cards):  # type: ignore[no-untyped-def]
    """Return the card with the highest index (suit, then rank) in a bit mask, NO_CARD if empty."""
    for card in range(CARDS - 1, -1, -1):
        if cards >> card & 1:
            return card
    return NO_CARD


@njit(cache=True)
def cheapest_winner(cards, best, strain):  # type: ignore[no-untyped-def]
    """Return the lowest-ranked card in the mask `cards` that beats `best`, NO_CARD if none does."""
    able = np.int64(0)
    for card in range(CARDS):
        if cards >> card & 1 and beats(card, best, strain):
            able |= np.int64(1) << card
    return lowest_card(able)


def replay_tricks(hands: Array, strain: Array, leader: Array, cards: Array) -> tuple[Array, Array]:
    """Replay recorded card play, count the declaring side's tricks and find illegal cards.

    Return the number (G,) of finished tricks that the declaring side won, and the index (G,) of the
    first card that was not held or did not follow suit, NO_CARD if every card was legal.

    hands: (G, 4) card bit masks. strain: (G,). leader: (G,) seat of the opening lead, so the seat
    before it declares. cards: (G, 52) the cards in the order played, padded with NO_CARD.
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
