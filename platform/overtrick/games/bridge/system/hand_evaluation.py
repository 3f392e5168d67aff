"""What a hand of 13 cards is worth: the numbers that bidding systems speak of."""

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
PAIRS = ((3, 2), (3, 1), (3, 0), (2, 1), (2, 0), (1, 0))  # whose lengths are compared

HCP, TOTAL, ADJUSTED, LOSERS, QUICK, ACES, KINGS, SHAPE, LONGEST, SECOND, SHORTEST = range(11)
CONTROLS = 11
LENGTH, STRENGTH, CONTROL, KING, QUEEN, STOPPER = range(12, 36, 4)
TOP3, TOP5, KEYCARDS, KEYCODE, SUPPORT = range(36, 56, 4)
LONGER = 56
FIELDS = (
    *PLAIN,
    *(f"{name} {suit}" for name in BY_SUIT for suit in SUITS),
    *(f"{SUITS[a]}-{SUITS[b]}" for a, b in PAIRS),
)
WIDTH = len(FIELDS)


def hand_fields(hands: Array) -> Array:
    """(R, H) int16 the FIELDS of each set of 13 cards (R,).

    hcp: honour points (Milton Work). total: with 1 for each card beyond the fourth of a suit.
    adjusted: with 3 for a void, 2 for a singleton, 1 for a doubleton (Goren 1949). losers: of the
    losing trick count (Courtenay 1935), an ace, king and queen short in the first three cards of a
    suit. quick: half tricks, AK 4, AQ 3, A or KQ 2, Kx 1 (Culbertson). shape: 2 balanced, 1 with
    5422 or 6322, else 0. controls: 2 an ace, 1 a king. strength: 4 for the ace, 2 for the king, 1
    for the queen of a suit. control: 1 with ace or void, 2 with king or singleton, 3 with queen or
    doubleton, else 4. stopper: A, Kx, Qxx, Jxxx. top3, top5: of the highest honours. keycards: aces
    and the suit's king; keycode: 0 with none or 3 of them, 1 with 1 or 4, 2 with 2 or 5. support:
    hcp and, for shortage elsewhere, 5-3-1 with four trumps, 3-2-1 with three. Then by how much a
    suit is longer than another.
    """
    found = np.empty((len(hands), WIDTH), np.int16)
    evaluate(hands, found)
    return found


@njit(cache=True)
def evaluate(hands, found):  # type: ignore[no-untyped-def]
    """Write the fields of each hand."""
    for row in range(len(hands)):
        evaluate_one(hands[row], found[row])


@njit(cache=True)
def evaluate_one(cards, out):  # type: ignore[no-untyped-def]
    """Write the fields of one hand."""
    out[:] = 0
    for suit in range(4):
        _suit((cards >> (13 * suit)) & 8191, suit, out)
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
def _suit(held, suit, out):  # type: ignore[no-untyped-def]
    """Write the fields of one suit, and add to those of the hand."""
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
