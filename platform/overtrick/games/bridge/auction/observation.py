"""Columns of an observation of the auction game, and functions that rebuild the calls from it."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import BIDS, PASS

SEAT, DEALER, VULNERABLE, PASSES, OWN, CALLERS = range(6)
"""Columns of an observation (K,), explained in the docstring of `game.Auction`.

CALLERS is the first of 105 columns: for each bid, the seat that made it, then the seat that doubled
it, then the seat that redoubled it.
"""

MAX_CALLS = 3 * BIDS * 4 + 3
"""Upper bound on the calls in any observation whose columns are within their limits. Legal auctions
are shorter."""


@njit(cache=True)
def write_calls(observation, calls):  # type: ignore[no-untyped-def]
    """Write the calls made before one observation (K,) into `calls`, and return their number.

    An observation stores the seats of bids, doubles and redoubles. The passes between these calls
    follow from the order of the seats. calls: integer array of at least MAX_CALLS elements.
    """
    count = 0
    for bid in range(BIDS):
        for kind in range(3):  # the bid, its double, its redouble
            seat = observation[CALLERS + kind * BIDS + bid]
            if seat < 0:
                continue
            for _ in range((seat - observation[DEALER] - count) % 4):
                calls[count] = PASS
                count += 1
            calls[count] = bid if kind == 0 else PASS + kind
            count += 1
    for _ in range(observation[PASSES]):
        calls[count] = PASS
        count += 1
    return count


def calls_from_observation(observation: Array) -> list[int]:
    """Return the calls before one observation (K,) of the auction game, dealer's call first."""
    calls = np.empty(MAX_CALLS, np.int64)
    return list(calls[: write_calls(observation, calls)].tolist())
