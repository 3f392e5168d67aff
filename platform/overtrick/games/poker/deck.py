"""Sizes of the standard deck and of a hand.

They are not in `hand_ranking`, whose tables take a tenth of a second to build.
"""

from __future__ import annotations

RANKS, SUITS, MAX_CARDS = 13, 4, 7  # MAX_CARDS: most cards in a hand
