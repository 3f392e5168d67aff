"""The pack of bridge: cards as numbers, hands as sets of bits, deals as who holds what.

Card c has suit c // 13 (clubs, diamonds, hearts, spades) and rank c % 13 (two to ace); a set of
cards is an int64 with bit c for card c. Strains are the suits and notrump. Seats go round the
table in the order of play.
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
SUIT_MASK = (1 << TRICKS) - 1  # the set of all clubs; shifted by 13 a suit, of the others
HONOUR_POINTS = {"A": 4, "K": 3, "Q": 2, "J": 1}
"""Honour points, 40 in the pack (Milton Work)."""

CARD_POINTS = np.array([HONOUR_POINTS.get(name[1], 0) for name in CARD_NAMES])


def random_deals(games: int, rng: Generator) -> Array:
    """(G, 52) int8 the seat that holds each card, 13 cards each, all deals equally likely."""
    holder = np.tile(np.repeat(np.arange(4, dtype=np.int8), TRICKS), (games, 1))
    _shuffle(holder, rng)
    return holder


def hand_bits(holder: Array) -> Array:
    """(G, 4) the set of cards of each seat, from who holds each card (G, 52)."""
    bits = np.int64(1) << np.arange(CARDS, dtype=np.int64)
    return np.stack([(holder == seat) @ bits for seat in range(4)], axis=1)


def honour_points(holder: Array) -> Array:
    """(G, 4) honour points of each seat."""
    return np.stack([(holder == seat) @ CARD_POINTS for seat in range(4)], axis=1)


def suit_lengths(holder: Array) -> Array:
    """(G, 4, 4) how many cards each seat holds of each suit."""
    by_suit = holder.reshape(-1, 4, TRICKS)
    return np.stack([(by_suit == seat).sum(axis=2) for seat in range(4)], axis=1)


def parse_deal(text: str) -> Array:
    """(52,) int8 who holds each card, from a deal in PBN: "N:KT8.A96.A95.7542 ...", spades first,
    the hands in the order of play from the seat before the colon. Raises UserError."""
    first, colon, rest = text.strip().partition(":")
    parts = rest.split()
    if not colon or first not in SEATS or len(first) != 1 or len(parts) != 4:
        raise UserError(
            f"no deal in PBN: '{text}'; write four hands, such as N:KT8.A96.A95.7542 ..."
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
        raise UserError(f"a hand has 13 cards, but in '{text}' they have {said}")
    return holder


def parse_hand(hand: str, whose: str = "the hand") -> list[int]:
    """The cards of a hand in PBN, such as KT8.A96.A95.7542, spades first. Raises UserError, saying
    whose hand it is."""
    suits = hand.split(".")
    if len(suits) != 4:
        raise UserError(f"{whose} '{hand}' has {len(suits)} suits, not 4")
    for rank in hand.replace(".", ""):
        if rank not in RANKS:
            raise UserError(f"'{rank}' in {whose} '{hand}' is no rank")
    return [
        CARD_NAMES.index(suit + rank)
        for suit, ranks in zip(reversed(SUITS), suits, strict=True)
        for rank in ranks
    ]


def format_deal(holder: Array) -> str:
    """A deal (52,) in PBN, North first."""
    seats = []
    for seat in range(4):
        held = [CARD_NAMES[card] for card in np.flatnonzero(holder == seat)]
        suits = ("".join(c[1] for c in reversed(held) if c[0] == s) for s in reversed(SUITS))
        seats.append(".".join(suits))
    return "N:" + " ".join(seats)


@njit(cache=True)
def count_cards(cards):  # type: ignore[no-untyped-def]
    """How many cards a set has."""
    counted = 0
    while cards:
        cards &= cards - 1
        counted += 1
    return counted


@njit(cache=True)
def draw_card(cards, rng):  # type: ignore[no-untyped-def]
    """Any card of a set that is not empty."""
    for _ in range(int(rng.random() * count_cards(cards))):
        cards &= cards - 1
    card = 0
    while not cards >> card & 1:
        card += 1
    return card


@njit(cache=True)
def _shuffle(holder, rng):  # type: ignore[no-untyped-def]
    """Every row in an order of its own, in place (Fisher and Yates)."""
    for game in range(len(holder)):
        for last in range(holder.shape[1] - 1, 0, -1):
            other = int(rng.random() * (last + 1))
            kept = holder[game, last]
            holder[game, last] = holder[game, other]
            holder[game, other] = kept
