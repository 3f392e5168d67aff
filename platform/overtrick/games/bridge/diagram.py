"""A deal, its auction and its play as bridge players write them; in Mini-Bridge South declares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, STRAINS, SUITS
from overtrick.games.bridge.cards import SEATS as NESW
from overtrick.games.bridge.trick_rules import beats

POSITIONS = "SWNE"  # by position: declarer, left, dummy, right
SUIT_SYMBOLS = dict(zip(SUITS, "♣♦♥♠", strict=True))
WIDE = 18  # columns of a hand
COLUMNS, WEST = ("West", "North", "East", "South"), 3  # of an auction, and the first one's seat
COLUMN = 7


def deal_diagram(deal: Array, signs: bool = True) -> str:
    """The four hands of a deal (54,) as MiniBridge has it; suits as signs or as letters."""
    level, strain = int(deal[CARDS + 1]) - 6, STRAINS[deal[CARDS]]
    said = _signed(strain, signs) if strain in SUITS else strain
    return f"{hands_diagram(deal[:CARDS], POSITIONS.index('N'), signs)}\n{level}{said} by South"


def hands_diagram(holder: Array, north: int = 0, signs: bool = True) -> str:
    """Four hands with North on top, from the seat that holds each card (52,), of which `north` is
    North's; the others follow it clockwise."""
    hands = [_hand(holder, (north + k) % 4, signs) for k in range(4)]
    top, right, below, left = hands
    middle = [f"{w:<{WIDE}}{'':<{WIDE}}{e}" for w, e in zip(left, right, strict=True)]
    lines = [" " * WIDE + line for line in top] + middle + [" " * WIDE + line for line in below]
    return "\n".join(line.rstrip() for line in lines)


def auction_table(calls: Sequence[int], dealer: int, signs: bool = True) -> str:
    """Calls in four columns, West's first, from the dealer (0 is North) on."""
    said = [""] * ((dealer - WEST) % 4) + [format_call(each, signs) for each in calls]
    rows = [COLUMNS, *(said[first : first + 4] for first in range(0, len(said), 4))]
    return "\n".join("".join(f"{word:<{COLUMN}}" for word in row).rstrip() for row in rows)


def call_meanings(
    calls: Sequence[int], dealer: int, told: Sequence[str], signs: bool = True
) -> list[str]:
    """A line a call: who made it, and what is told of it."""
    return [
        f"  {NESW[(dealer + k) % 4]} {format_call(made, signs):<5} {meaning}"
        for k, (made, meaning) in enumerate(zip(calls, told, strict=True))
    ]


def format_call(made: int, signs: bool = True) -> str:
    """A call with its suit as a sign, and passes in words."""
    said = CALLS[made]
    if said == "P":
        return "Pass"
    return said[0] + SUIT_SYMBOLS[said[1]] if signs and said[1:] in SUIT_SYMBOLS else said


def format_play(deal: Array, cards: Array, signs: bool = True) -> str:
    """The tricks of a deal, cards (52,) in the order played; who took each, and the result."""
    lines, won = format_tricks(deal, cards, signs)
    above = won - int(deal[CARDS + 1])
    result = "made" if above == 0 else f"made, {above} more" if above > 0 else f"{-above} down"
    return "\n".join([*lines, f"{won} tricks: {result}"])


def format_tricks(
    deal: Array, cards: Array, signs: bool = True, seats: str = POSITIONS
) -> tuple[list[str], int]:
    """A line for each trick, the last perhaps not over, with a star at the card that takes it; and
    how many the declarer's side has taken. seats: their letters by position."""
    leader, won, lines = 1, 0, []
    for first in range(0, len(cards), 4):
        trick = [int(card) for card in cards[first : first + 4]]
        best = 0
        for place in range(1, len(trick)):
            if beats(trick[place], trick[best], deal[CARDS]):
                best = place
        said = "  ".join(
            f"{seats[(leader + k) % 4]} {_signed(CARD_NAMES[card], signs)}"
            + ("*" if k == best else " ")
            for k, card in enumerate(trick)
        )
        lines.append(f"{first // 4 + 1:>2}.  {said}")
        leader = (leader + best) % 4
        won += len(trick) == 4 and leader % 2 == 0
    return lines, won


def format_hand(holder: Array, seat: int, signs: bool = True) -> str:
    """The cards of a seat in one line."""
    return "  ".join(_hand(holder, seat, signs))


def _hand(holder: Array, seat: int, signs: bool) -> list[str]:
    """A line a suit, spades first; blank if no card is known."""
    held = [CARD_NAMES[card] for card in np.flatnonzero(holder == seat)]
    if not held:
        return [""] * len(SUITS)
    return [
        f"{_signed(suit, signs)} "
        + ("".join(card[1] for card in reversed(held) if card[0] == suit) or "-")
        for suit in reversed(SUITS)
    ]


def _signed(card: str, signs: bool) -> str:
    return SUIT_SYMBOLS[card[0]] + card[1:] if signs else card
