"""Bridge cards, hands and deals as integers, and their PBN notation.

Card c has suit c // 13 (clubs, diamonds, hearts, spades) and rank c % 13 (two to ace). A hand is an
int64 bit mask with bit c for card c. A deal is an array `holder` (52,): the seat that holds each
card. Seats N, E, S, W are 0 to 3, clockwise. Strains are the four suits and notrump.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, UserError

SUITS, RANKS, SEATS = "CDHS", "23456789TJQKA", "NESW"
STRAINS = (*SUITS, "NT")
NOTRUMP = 4
CARDS, TRICKS = 52, 13
CARD_NAMES = tuple(suit + rank for suit in SUITS for rank in RANKS)
SUIT_MASK = (1 << TRICKS) - 1  # all clubs; shift by 13 s for suit s
HONOUR_POINTS = {"A": 4, "K": 3, "Q": 2, "J": 1}
CARD_POINTS = np.array([HONOUR_POINTS.get(name[1], 0) for name in CARD_NAMES])
"""High-card points (52,) of each card by Milton Work's count: 4, 3, 2, 1 for A, K, Q, J."""


def random_deals(games: int, rng: Generator) -> Array:
    """Sample G uniformly random deals (G, 52) int8: the seat that holds each card."""
    holder = np.tile(np.repeat(np.arange(4, dtype=np.int8), TRICKS), (games, 1))
    _shuffle(holder, rng)
    return holder


def are_deals(holder: Array) -> Array:
    """Return (G,) bool: whether each of the four seats holds 13 cards.

    holder: (G, 52) integers, the seat that holds each card.
    """
    held = np.stack([(holder == seat).sum(axis=1) for seat in range(4)], axis=1)  # (G, 4)
    return np.all(held == TRICKS, axis=1)


def hand_bits(holder: Array) -> Array:
    """Convert deals (G, 52) to the hands (G, 4) of all seats as card bit masks.

    holder: (G, 52) the seat that holds each card.
    """
    bits = np.int64(1) << np.arange(CARDS, dtype=np.int64)
    return np.stack([(holder == seat) @ bits for seat in range(4)], axis=1)


def card_holders(hands: Array) -> Array:
    """Convert the hands (G, 4) of complete deals, as card bit masks, to deals (G, 52)."""
    held = hands[:, :, None] >> np.arange(CARDS, dtype=np.int64) & 1
    return held.argmax(axis=1).astype(np.int8)


def honour_points(holder: Array) -> Array:
    """Return the high-card points (G, 4) of each seat in deals (G, 52).

    holder: (G, 52) the seat that holds each card.
    """
    return np.stack([(holder == seat) @ CARD_POINTS for seat in range(4)], axis=1)


def suit_lengths(holder: Array) -> Array:
    """Return the suit lengths (G, 4, 4), by seat and suit, in deals (G, 52).

    holder: (G, 52) the seat that holds each card.
    """
    by_suit = holder.reshape(-1, 4, TRICKS)
    return np.stack([(by_suit == seat).sum(axis=2) for seat in range(4)], axis=1)


def parse_deal(text: str) -> Array:
    """Parse a PBN deal such as "N:KT8.A96.A95.7542 ..."; return the holder (52,) int8 of each card.

    The letter names the seat of the first hand; the other hands follow clockwise. Each hand lists
    spades first. Raises UserError if the text is not a complete deal.
    """
    first, colon, rest = text.strip().partition(":")
    parts = rest.split()
    if not colon or first not in SEATS or len(first) != 1 or len(parts) != 4:
        raise UserError(
            f"not a deal in PBN: '{text}'; write four hands, such as N:KT8.A96.A95.7542 ..."
        )
    holder = np.full(CARDS, -1, np.int8)
    for k, hand in enumerate(parts):
        seat = (SEATS.index(first) + k) % 4
        for card in parse_hand(hand, f"{SEATS[seat]}'s hand"):
            if holder[card] >= 0:
                raise UserError(f"{CARD_NAMES[card]} is dealt twice in '{text}'")
            holder[card] = seat
    counts = [int((holder == seat).sum()) for seat in range(4)]
    if counts != [TRICKS] * 4:
        said = ", ".join(f"{seat} {count}" for seat, count in zip(SEATS, counts, strict=True))
        raise UserError(f"a hand has 13 cards, but the hands in '{text}' have {said}")
    return holder


def parse_hand(hand: str, whose: str = "the hand") -> list[int]:
    """Parse a PBN hand such as KT8.A96.A95.7542, spades first; return its cards as integers.

    whose: name of the hand for error messages. Raises UserError for wrong ranks or number of suits.
    """
    suits = hand.split(".")
    if len(suits) != 4:
        raise UserError(f"{whose} '{hand}' has {len(suits)} suits, not 4")
    for rank in hand.replace(".", ""):
        if rank not in RANKS:
            raise UserError(f"'{rank}' in {whose} '{hand}' is not a rank")
    return [
        CARD_NAMES.index(suit + rank)
        for suit, ranks in zip(reversed(SUITS), suits, strict=True)
        for rank in ranks
    ]


def format_deal(holder: Array) -> str:
    """Format a deal (52,) in PBN, with North's hand first."""
    return "N:" + " ".join(format_hand(int(hand)) for hand in hand_bits(holder[None])[0])


def format_hand(cards: int) -> str:
    """Format a card bit mask in PBN, spades first: KT8.A96.A95.7542."""
    suits = (cards >> (TRICKS * suit) for suit in reversed(range(len(SUITS))))
    ranks = range(TRICKS - 1, -1, -1)
    return ".".join("".join(RANKS[r] for r in ranks if suit >> r & 1) for suit in suits)


@njit(cache=True)
def count_cards(cards):  # type: ignore[no-untyped-def]
    """Return the number of cards in a bit mask of cards."""
    counted = 0
    while cards:
        cards &= cards - 1
        counted += 1
    return counted


@njit(cache=True)
def draw_card(cards, rng):  # type: ignore[no-untyped-def]
    """Draw a card from a non-empty bit mask of cards, uniformly at random."""
    for _ in range(int(rng.random() * count_cards(cards))):
        cards &= cards - 1
    card = 0
    while not cards >> card & 1:
        card += 1
    return card


@njit(cache=True)
def _shuffle(holder, rng):  # type: ignore[no-untyped-def]
    """Shuffle each row of `holder` (G, 52) in place and independently (Fisher-Yates shuffle)."""
    for game in range(len(holder)):
        for last in range(holder.shape[1] - 1, 0, -1):
            other = int(rng.random() * (last + 1))
            swapped = holder[game, last]
            holder[game, last] = holder[game, other]
            holder[game, other] = swapped
