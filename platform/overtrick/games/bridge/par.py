"""Par: what a deal is worth if all four see every card, in the auction as in the play."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge import scoring
from overtrick.games.bridge.cards import TRICKS

BIDS, STRAINS = 35, 5
PASSED_OUT = (0, 0, -1, -1, 0)  # a row of Par
SIDE_VULNERABLE = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
"""North-South and East-West, by None, NS, EW and All."""


class Par(NamedTuple):
    """The score at par of R boards and a contract that has it."""

    score: Array  # (R,) points of North-South
    level: Array  # (R,) 0 where all pass
    strain: Array  # (R,) -1 where all pass
    declarer: Array  # (R,) seat; -1 where all pass
    doubled: Array  # (R,) 0 or 1


def _worths() -> Array:
    """(2, 35, 14) points of a bid by vulnerability and tricks, doubled if it fails."""
    vulnerable, bid, tricks = np.ix_(range(2), range(BIDS), range(TRICKS + 1))
    level, strain = bid // STRAINS + 1, bid % STRAINS
    doubled = (tricks < level + 6).astype(np.int64)
    return scoring.duplicate_points(level, strain, doubled, vulnerable, tricks)


_WORTHS = _worths()


def par(tables: Array, dealer: Array, vulnerable: Array) -> Par:
    """What perfect bidding comes to: a contract is doubled exactly if it fails, and no side can
    gain by bidding on.

    tables (R, 4, 5) double-dummy tricks by seat and strain; dealer (R,) seat; vulnerable (R,) 0
    None, 1 NS, 2 EW, 3 All. The dealer matters where both sides can make the same contract. Of
    contracts with the same score the highest is named, and of two declarers with the same tricks
    North or East.
    """
    found = np.tile(np.array(PASSED_OUT), (len(tables), 1))
    sides = SIDE_VULNERABLE[np.asarray(vulnerable)]
    _par(np.asarray(tables), np.asarray(dealer), sides, _WORTHS, found)
    return Par(*found.T)


@njit(cache=True)
def _par(tables, dealer, vulnerable, worths, found):  # type: ignore[no-untyped-def]
    """Backward induction from 7NT down, the two sides in turns: a side that has bid gets what the
    bid is worth if the other one passes, or the opposite of what the other gets by bidding on."""
    bidding = np.empty((2, BIDS + 1), np.int64)  # the most by a bid of this number or higher
    choice = np.empty((2, BIDS + 1), np.int64)  # that bid
    for row in range(len(tables)):
        bidding[:, BIDS] = -100_000  # nothing is left to bid: worse than any contract
        choice[:, BIDS] = BIDS
        table = tables[row]
        for bid in range(BIDS - 1, -1, -1):
            strain = bid % STRAINS
            for side in range(2):
                tricks = max(table[side, strain], table[side + 2, strain])
                worth = worths[vulnerable[row, side], bid, tricks]
                gets = min(worth, -bidding[1 - side, bid + 1])
                bidding[side, bid] = bidding[side, bid + 1]
                choice[side, bid] = choice[side, bid + 1]
                if gets > bidding[side, bid]:
                    bidding[side, bid], choice[side, bid] = gets, bid
        side = dealer[row] % 2
        if bidding[side, 0] <= -max(0, bidding[1 - side, 0]):
            side = 1 - side  # the dealer's side has nothing to gain by a bid
        if bidding[side, 0] <= 0:
            continue
        north = bidding[side, 0] if side == 0 else -bidding[side, 0]
        bid = choice[side, 0]
        while True:
            strain, at = bid % STRAINS, vulnerable[row, side]
            declarer = side if table[side, strain] >= table[side + 2, strain] else side + 2
            tricks = table[declarer, strain]
            if worths[at, bid, tricks] == (north if side == 0 else -north):
                break  # the others gain nothing by bidding on
            side = 1 - side
            bid = choice[side, bid + 1]
        found[row, 0], found[row, 1] = north, bid // STRAINS + 1
        found[row, 2], found[row, 3] = strain, declarer
        found[row, 4] = tricks < bid // STRAINS + 7
