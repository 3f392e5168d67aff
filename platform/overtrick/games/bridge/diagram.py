"""Text diagrams of bridge deals, auctions and card play.

Mini-Bridge deals are drawn with the declarer as South.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import CALLS
from overtrick.games.bridge.cards import CARD_NAMES, CARDS, SEATS, STRAINS, SUITS
from overtrick.games.bridge.trick_rules import beats

POSITIONS = "SWNE"  # seats of declarer, left-hand opponent, dummy, right-hand opponent
SUIT_SYMBOLS = dict(zip(SUITS, "♣♦♥♠", strict=True))
HAND_WIDTH, CALL_WIDTH = 18, 7  # characters
COLUMNS, WEST = ("West", "North", "East", "South"), 3  # columns of an auction; the first seat


def deal_diagram(deal: Array, signs: bool = True) -> str:
    """Draw the four hands of a Mini-Bridge deal (54,) as a compass, with the contract below.

    deal: the position that holds each of the 52 cards, the strain, and the number of tricks needed.
    signs: write suits as symbols instead of letters.
    """
    level, strain = int(deal[CARDS + 1]) - 6, STRAINS[deal[CARDS]]
    said = _with_symbol(strain, signs) if strain in SUITS else strain
    return f"{hands_diagram(deal[:CARDS], POSITIONS.index('N'), signs)}\n{level}{said} by South"


def hands_diagram(holder: Array, north: int = 0, signs: bool = True) -> str:
    """Draw four hands as a compass diagram, with North on top.

    holder: (52,) the seat, 0 to 3, that holds each card. north: the seat that is drawn as North;
    the other seats follow clockwise. signs: write suits as symbols instead of letters.
    """
    top, right, below, left = (_hand_lines(holder, (north + k) % 4, signs) for k in range(4))
    indent = " " * HAND_WIDTH
    sides = (f"{w:<{HAND_WIDTH}}{indent}{e}" for w, e in zip(left, right, strict=True))
    lines = [*(indent + line for line in top), *sides, *(indent + line for line in below)]
    return "\n".join(line.rstrip() for line in lines)


def auction_table(calls: Sequence[int], dealer: int, signs: bool = True) -> str:
    """Format an auction as a table of four columns: West, North, East, South.

    dealer: seat of the dealer; 0 is North. signs: write suits as symbols instead of letters.
    """
    said = [""] * ((dealer - WEST) % 4) + [format_call(each, signs) for each in calls]
    rows = [COLUMNS, *(said[first : first + 4] for first in range(0, len(said), 4))]
    return "\n".join("".join(f"{word:<{CALL_WIDTH}}" for word in row).rstrip() for row in rows)


def call_meanings(
    calls: Sequence[int], dealer: int, meanings: Sequence[str], signs: bool = True
) -> list[str]:
    """Format an auction as one line for each call: the caller, the call and its meaning.

    dealer: seat of the dealer; 0 is North. meanings: meaning of each call in words. signs: write
    suits as symbols instead of letters.
    """
    return [
        f"  {SEATS[(dealer + k) % 4]} {format_call(made, signs):<5} {meaning}"
        for k, (made, meaning) in enumerate(zip(calls, meanings, strict=True))
    ]


def format_call(made: int, signs: bool = True) -> str:
    """Format a call, such as 1S, X or Pass. signs: write the suit as a symbol, not a letter."""
    said = CALLS[made]
    if said == "P":
        return "Pass"
    return said[0] + SUIT_SYMBOLS[said[1]] if signs and said[1:] in SUIT_SYMBOLS else said


def format_play(deal: Array, cards: Array, signs: bool = True) -> str:
    """Format the tricks of a Mini-Bridge deal (54,) and the result of its contract.

    cards: (52,) in the order played. signs: write suits as symbols instead of letters.
    """
    lines, won = format_tricks(deal, cards, signs)
    above = won - int(deal[CARDS + 1])
    result = "made" if above == 0 else f"made, {above} more" if above > 0 else f"{-above} down"
    return "\n".join([*lines, f"{won} tricks: {result}"])


def format_tricks(
    deal: Array, cards: Array, signs: bool = True, seats: str = POSITIONS
) -> tuple[list[str], int]:
    """Return one line of text for each trick, and the number of tricks won by the declarer's side.

    A star marks the winning card. The last trick may be unfinished.

    deal: (54,) Mini-Bridge deal. cards: the cards in the order played. signs: write suits as
    symbols instead of letters. seats: letters to print for the declarer, left-hand opponent, dummy
    and right-hand opponent.
    """
    leader, won, lines = 1, 0, []
    for first in range(0, len(cards), 4):
        trick = [int(card) for card in cards[first : first + 4]]
        best = 0
        for place in range(1, len(trick)):
            if beats(trick[place], trick[best], deal[CARDS]):
                best = place
        said = "  ".join(
            f"{seats[(leader + k) % 4]} {_with_symbol(CARD_NAMES[card], signs)}"
            + ("*" if k == best else " ")
            for k, card in enumerate(trick)
        )
        lines.append(f"{first // 4 + 1:>2}.  {said}")
        leader = (leader + best) % 4
        won += len(trick) == 4 and leader % 2 == 0
    return lines, won


def format_hand(holder: Array, seat: int, signs: bool = True) -> str:
    """Format the cards of one seat in one line, spades first.

    holder: (52,) the seat that holds each card. signs: write suits as symbols instead of letters.
    """
    return "  ".join(_hand_lines(holder, seat, signs))


def _hand_lines(holder: Array, seat: int, signs: bool) -> list[str]:
    """Return one line for each suit of a seat's hand, spades first.

    The lines are empty if `holder` contains no card of the seat.

    holder: (52,) the seat that holds each card. signs: write suits as symbols instead of letters.
    """
    held = [CARD_NAMES[card] for card in np.flatnonzero(holder == seat)]
    if not held:
        return [""] * len(SUITS)
    return [
        f"{_with_symbol(suit, signs)} "
        + ("".join(card[1] for card in reversed(held) if card[0] == suit) or "-")
        for suit in reversed(SUITS)
    ]


def _with_symbol(card: str, signs: bool) -> str:
    return SUIT_SYMBOLS[card[0]] + card[1:] if signs else card
