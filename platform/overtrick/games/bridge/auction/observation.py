"""What a player of the auction as a game sees, in columns; and the calls that it tells."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import BIDS, PASS

WHO, DEALER, VULNERABLE, PASSES, OWN, MADE = range(6)
"""Columns, as `auction_game.Auction` says what they are."""

MOST = 3 * BIDS * 4 + 3
"""No columns within their bounds tell more calls, though no auction that is lawful is as long."""


@njit(cache=True)
def calls_of(facts, calls):  # type: ignore[no-untyped-def]
    """Write the calls so far, at most MOST, by a row of facts (K,), and answer how many."""
    count = 0
    for bid in range(BIDS):
        for what in range(3):
            who = facts[MADE + what * BIDS + bid]
            if who < 0:
                continue
            for _ in range((who - facts[DEALER] - count) % 4):
                calls[count] = PASS
                count += 1
            calls[count] = bid if what == 0 else PASS + what
            count += 1
    for _ in range(facts[PASSES]):
        calls[count] = PASS
        count += 1
    return count


def told(facts: Array) -> list[int]:
    """The calls so far by a row of facts (K,)."""
    calls = np.empty(MOST, np.int64)
    return list(calls[: calls_of(facts, calls)].tolist())
