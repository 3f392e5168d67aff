"""Cards drawn from a deck, and what a seat sees of them: kernels over whole arrays."""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def deal_missing_cards(cards, deck, rng):  # type: ignore[no-untyped-def]
    """Put a card in the place of each -1 in rows of cards (G, C), in place.

    A card is a number below `deck`; all that are not yet in the row are equally likely. There
    must be C of them.
    """
    for game in range(len(cards)):
        for column in range(cards.shape[1]):
            while cards[game, column] < 0:
                card = int(rng.random() * deck)
                fresh = True
                for held in range(cards.shape[1]):
                    fresh &= cards[game, held] != card
                if fresh:
                    cards[game, column] = card


@njit(cache=True)
def write_visible_cards(cards, game, seat, hole, first, turned, seen):  # type: ignore[no-untyped-def]
    """Write each row's hole cards and board into its first columns of seen (R, K).

    cards (G, C); game and seat (R,); hole cards a seat; the column of the first board card;
    turned (R,) board cards that are up. Columns of board cards not turned are left alone.
    """
    for row in range(len(game)):
        own = seat[row] * hole
        for k in range(hole):
            seen[row, k] = cards[game[row], own + k]
        for k in range(turned[row]):
            seen[row, hole + k] = cards[game[row], first + k]
