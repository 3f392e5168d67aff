"""What a player of the auction as a game sees, in columns; and the calls that it tells."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import BIDS, PASS

OBS_SEAT, OBS_DEALER, OBS_VULNERABLE, OBS_PASSES, OBS_OWN, OBS_CALLERS = range(6)
"""Columns, as `auction_game.Auction` says what they are."""

MAX_CALLS = 3 * BIDS * 4 + 3
"""No columns within their bounds tell more calls, though no auction that is lawful is as long."""


@njit(cache=True)
def write_calls(facts, calls):  # type: ignore[no-untyped-def]
    """Write the calls so far, at most MOST, by a row of facts (K,), and answer how many."""
    count = 0
    for bid in range(BIDS):
        for what in range(3):
            who = facts[OBS_CALLERS + what * BIDS + bid]
            if who < 0:
                continue
            for _ in range((who - facts[OBS_DEALER] - count) % 4):
                calls[count] = PASS
                count += 1
            calls[count] = bid if what == 0 else PASS + what
            count += 1
    for _ in range(facts[OBS_PASSES]):
        calls[count] = PASS
        count += 1
    return count


def calls_from_observation(facts: Array) -> list[int]:
    """The calls so far by a row of facts (K,)."""
    calls = np.empty(MAX_CALLS, np.int64)
    return list(calls[: write_calls(facts, calls)].tolist())
