"""A deal and its play as bridge players write them: declarer South, West leads."""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.cardplay import beats
from overtrick.games.bridge.cards import CARDS, NAMES, STRAINS, SUITS

SEATS = "SWNE"  # by position: declarer, left, dummy, right
SIGNS = dict(zip(SUITS, "♣♦♥♠", strict=True))
WIDE = 18  # columns of a hand


def diagram(deal: Array, signs: bool = True) -> str:
    """The four hands of a deal (54,) as MiniBridge has it; suits as signs or as letters."""
    hands = [_hand(deal, position, signs) for position in range(4)]
    south, west, north, east = hands
    middle = [f"{w:<{WIDE}}{'':<{WIDE}}{e}" for w, e in zip(west, east, strict=True)]
    lines = [" " * WIDE + line for line in north] + middle + [" " * WIDE + line for line in south]
    level, strain = int(deal[CARDS + 1]) - 6, STRAINS[deal[CARDS]]
    said = _signed(strain, signs) if strain in SUITS else strain
    return "\n".join([*(line.rstrip() for line in lines), f"{level}{said} by South"])


def play(deal: Array, cards: Array, signs: bool = True) -> str:
    """The tricks of a deal, cards (52,) in the order played; who took each, and the result."""
    leader, won, lines = 1, 0, []
    for first in range(0, len(cards), 4):
        trick = [int(card) for card in cards[first : first + 4]]
        best = 0
        for place in range(1, len(trick)):
            if beats(trick[place], trick[best], deal[CARDS]):
                best = place
        said = "  ".join(
            f"{SEATS[(leader + k) % 4]} {_signed(NAMES[card], signs)}{'*' if k == best else ' '}"
            for k, card in enumerate(trick)
        )
        lines.append(f"{first // 4 + 1:>2}.  {said}")
        leader = (leader + best) % 4
        won += leader % 2 == 0
    above = won - int(deal[CARDS + 1])
    result = "made" if above == 0 else f"made, {above} more" if above > 0 else f"{-above} down"
    return "\n".join([*lines, f"{won} tricks: {result}"])


def _hand(deal: Array, position: int, signs: bool) -> list[str]:
    """A line a suit, spades first."""
    held = [NAMES[card] for card in np.flatnonzero(deal[:CARDS] == position)]
    return [
        f"{_signed(suit, signs)} "
        + ("".join(card[1] for card in reversed(held) if card[0] == suit) or "-")
        for suit in reversed(SUITS)
    ]


def _signed(card: str, signs: bool) -> str:
    return SIGNS[card[0]] + card[1:] if signs else card
