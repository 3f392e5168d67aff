"""Columns of an observation of the auction game, and the calls that an observation contains."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import BIDS, PASS

SEAT, DEALER, VULNERABLE, PASSES, OWN, CALLERS = range(6)
"""Columns of an observation (K,), as the docstring of `game.Auction` lists them.

CALLERS is the first of 105 columns: the seat that made each bid, then the seat that doubled
it, then the seat that redoubled it.
"""

MAX_CALLS = 3 * BIDS * 4 + 3
"""The most calls that columns within their bounds can contain; lawful auctions are shorter."""


@njit(cache=True)
def write_calls(observation, calls):  # type: ignore[no-untyped-def]
    """Write the calls made before one observation (K,) into `calls`, and return their number.

    `calls` is an integer array with room for MAX_CALLS calls. The passes between the other calls
    follow from the seats that made those.
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
    """Return the calls made before one observation (K,) of the auction game, from the dealer on."""
    calls = np.empty(MAX_CALLS, np.int64)
    return list(calls[: write_calls(observation, calls)].tolist())
