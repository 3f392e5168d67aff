"""Compiled kernels that deal cards and copy the visible ones into observations."""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def deal_missing_cards(cards, deck, rng):  # type: ignore[no-untyped-def]
    """Replace each -1 in `cards` (G, C), in place, by a random card that is not yet in its row.

    deck: number of cards in the deck, at least C; cards are integers from 0 to deck - 1.
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
    """Write hole cards and visible board cards into the first columns of observations, in place.

    cards: (G, C) all cards of each game.
    game, seat: (R,) the game and the seat of each observation.
    hole: number of hole cards of a seat.
    first: column of the first board card in `cards`.
    turned: (R,) number of visible board cards. Columns of hidden board cards stay unchanged.
    seen: (R, K) observations.
    """
    for row in range(len(game)):
        own = seat[row] * hole
        for k in range(hole):
            seen[row, k] = cards[game[row], own + k]
        for k in range(turned[row]):
            seen[row, hole + k] = cards[game[row], first + k]
