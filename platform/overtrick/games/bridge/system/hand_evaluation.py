"""Compute the features of 13-card hands that bidding systems use, such as points and lengths."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.cards import SUITS, count_cards

PLAIN = (
    "hcp", "total", "adjusted", "losers", "quick", "aces", "kings", "shape", "longest", "second",
    "shortest", "controls",
)  # fmt: skip
BY_SUIT = (
    "length", "strength", "control", "king", "queen", "stopper", "top3", "top5", "keycards",
    "keycode", "support",
)  # fmt: skip
PAIRS = ((3, 2), (3, 1), (3, 0), (2, 1), (2, 0), (1, 0))  # pairs of suits with compared lengths

HCP, TOTAL, ADJUSTED, LOSERS, QUICK, ACES, KINGS, SHAPE, LONGEST, SECOND, SHORTEST = range(11)
CONTROLS = 11
LENGTH, STRENGTH, CONTROL, KING, QUEEN, STOPPER = range(12, 36, 4)
TOP3, TOP5, KEYCARDS, KEYCODE, SUPPORT = range(36, 56, 4)
LONGER = 56
"""First column of each field. A field with one value per suit has four columns, clubs first."""
FIELDS = (
    *PLAIN,
    *(f"{name} {suit}" for name in BY_SUIT for suit in SUITS),
    *(f"{SUITS[a]}-{SUITS[b]}" for a, b in PAIRS),
)
WIDTH = len(FIELDS)


def hand_fields(hands: Array) -> Array:
    """Return H features (R, H) int16 of hands (R,) given as card bit masks, in the order of FIELDS.

    Features of the hand:

        hcp       high-card points (Milton Work)
        total     hcp plus 1 for each card after the fourth card of a suit
        adjusted  hcp plus 3 for a void, 2 for a singleton, 1 for a doubleton (Goren 1949)
        losers    losing trick count (Courtenay 1935): number of missing aces, kings and queens
                  among the first three cards of each suit
        quick     twice the quick tricks: AK 4, AQ 3, A or KQ 2, Kx 1 (Culbertson)
        aces      number of aces; likewise kings
        shape     2 if balanced, 1 if 5422 or 6322, otherwise 0
        longest   length of the longest suit; likewise second, shortest
        controls  2 for each ace plus 1 for each king

    Features of each suit:

        length    number of cards
        strength  4 for the ace plus 2 for the king plus 1 for the queen
        control   1 with ace or void, 2 with king or singleton, 3 with queen or doubleton, else 4
        king      1 if the hand has the king, otherwise 0; likewise queen
        stopper   1 with A, Kx, Qxx or Jxxx, otherwise 0
        top3      number of cards among the highest 3 ranks; likewise top5
        keycards  number of aces and of the suit's king
        keycode   0 for 0 or 3 key cards, 1 for 1 or 4, 2 for 2 or 5
        support   hcp plus points for shortness, with the suit as trumps: for each void, singleton
                  or doubleton elsewhere 5, 3, 1 with four trumps, or 3, 2, 1 with three trumps

    The last features are the differences of suit lengths, such as S-H.
    """
    found = np.empty((len(hands), WIDTH), np.int16)
    evaluate(hands, found)
    return found


@njit(cache=True)
def evaluate(hands, found):  # type: ignore[no-untyped-def]
    """Compute the features of hands, such as points and suit lengths; see `hand_fields`.

    hands: (R,) card bit masks. found: (R, H) output, the features of each hand.
    """
    for row in range(len(hands)):
        _evaluate_hand(hands[row], found[row])


@njit(cache=True)
def _evaluate_hand(cards, out):  # type: ignore[no-untyped-def]
    """Compute the features of one hand, such as points and suit lengths; see `hand_fields`.

    cards: card bit mask. out: (H,) output.
    """
    out[:] = 0
    for suit in range(4):
        _evaluate_suit((cards >> (13 * suit)) & 8191, suit, out)
    out[CONTROLS] = 2 * out[ACES] + out[KINGS]
    out[TOTAL] += out[HCP]
    out[ADJUSTED] += out[HCP]
    lengths = np.sort(out[LENGTH : LENGTH + 4])
    out[LONGEST], out[SECOND], out[SHORTEST] = lengths[3], lengths[2], lengths[0]
    doubletons = (lengths[0] == 2) + (lengths[1] == 2)
    if lengths[0] >= 2 and lengths[3] <= 6 and doubletons <= 2:
        out[SHAPE] = 2 if lengths[3] <= 5 and doubletons <= 1 else 1
    for suit in range(4):
        out[KEYCARDS + suit] = out[ACES] + out[KING + suit]
        out[KEYCODE + suit] = out[KEYCARDS + suit] % 3
        out[SUPPORT + suit] = out[HCP]
        for other in range(4):
            missing = max(3 - out[LENGTH + other], 0)
            if other != suit and missing > 0 and out[LENGTH + suit] >= 3:
                out[SUPPORT + suit] += 2 * missing - 1 if out[LENGTH + suit] > 3 else missing
    at = LONGER
    for a in range(3, 0, -1):
        for b in range(a - 1, -1, -1):
            out[at] = out[LENGTH + a] - out[LENGTH + b]
            at += 1


@njit(cache=True)
def _evaluate_suit(held, suit, out):  # type: ignore[no-untyped-def]
    """Write the features of one suit of a hand, and add its points to the hand's, in `out` (H,).

    held: bit mask of the ranks held in the suit. suit: 0 to 3.
    """
    length = count_cards(held)
    ace, king, queen = (held >> 12) & 1, (held >> 11) & 1, (held >> 10) & 1
    jack, ten = (held >> 9) & 1, (held >> 8) & 1
    out[LENGTH + suit] = length
    out[HCP] += 4 * ace + 3 * king + 2 * queen + jack
    out[TOTAL] += max(length - 4, 0)
    out[ADJUSTED] += max(3 - length, 0)
    out[LOSERS] += min(length, 3) - ace - (king and length >= 2) - (queen and length >= 3)
    if ace:
        out[QUICK] += 4 if king else 2 + queen
    elif king:
        out[QUICK] += 2 if queen else length >= 2
    out[ACES] += ace
    out[KINGS] += king
    out[STRENGTH + suit] = 4 * ace + 2 * king + queen
    out[CONTROL + suit] = 4
    if ace or length == 0:
        out[CONTROL + suit] = 1
    elif king or length == 1:
        out[CONTROL + suit] = 2
    elif queen or length == 2:
        out[CONTROL + suit] = 3
    out[KING + suit], out[QUEEN + suit] = king, queen
    out[STOPPER + suit] = (
        ace or (king and length >= 2) or (queen and length >= 3) or (jack and length >= 4)
    )
    out[TOP3 + suit] = ace + king + queen
    out[TOP5 + suit] = ace + king + queen + jack + ten
