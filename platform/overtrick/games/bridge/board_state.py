"""State of bridge boards in progress, from the auction to the last card."""

from __future__ import annotations

from dataclasses import dataclass

from overtrick.core import Array


@dataclass(slots=True)
class BridgeState:
    """State of G boards in progress: the auction, then card play.

    The arrays of card play are by position: 0 declarer, 1 left-hand defender, 2 dummy, 3 right-hand
    defender. They have no meaning before the end of the auction.
    """

    deal: Array  # (G, 74) with the columns in the docstring of Auction
    dealt: Array  # (G, 4) the 13 cards of each seat, as bit masks
    now: Array  # (G, STATE_WIDTH) states of the auctions, as in `auction_rules`
    callers: Array  # (G, 105) int8 seats that made, doubled and redoubled each bid, or -1
    declarer: Array  # (G,) the declarer's seat, or NO_SEAT
    hand: Array  # (G, 4) cards held by each position, as bit masks
    played: Array  # (G, 4) cards played by each position, as bit masks
    trick: Array  # (G, 4) card of each position in the current trick, or NO_CARD
    progress: Array  # (G, 8) columns LED to NEEDED of `kernels`
    cards: Array  # (G, 52) int8 cards in the order played, then NO_CARD
    over: Array  # (G,) bool
