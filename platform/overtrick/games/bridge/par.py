"""Compute par scores: the results of perfect bidding and play with all four hands visible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge import scoring
from overtrick.games.bridge.auction_rules import BIDS, NO_SEAT, Contracts
from overtrick.games.bridge.cards import TRICKS

PASSED_OUT = (0, NO_SEAT, 0, -1, 0)  # score and contract of a board that all players pass
SIDE_VULNERABLE = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
"""Vulnerability (4, 2) of North-South and East-West, for None, NS, EW and All."""


class Par(NamedTuple):
    """Par scores of R boards, and for each board a contract that scores par."""

    score: Array  # (R,) points of North-South
    contracts: Contracts  # of R boards


def _bid_points() -> Array:
    """Return the declaring side's points (2, 35, 14) by vulnerability, bid and tricks won.

    The vulnerability is that of the declaring side: 0 no, 1 yes. Contracts that fail count as
    doubled, other contracts as undoubled.
    """
    vulnerable, bid, tricks = np.ix_(range(2), range(BIDS), range(TRICKS + 1))
    level, strain = bid // 5 + 1, bid % 5
    doubled = (tricks < level + 6).astype(np.int64)
    return scoring.duplicate_points(level, strain, doubled, vulnerable, tricks)


_BID_POINTS = _bid_points()


def par(tables: Array, dealer: Array, vulnerable: Array) -> Par:
    """Compute the par scores and par contracts of R boards from double-dummy tricks.

    After a par contract, neither side gains by a higher bid. A contract that fails is doubled. Of
    contracts with equal scores, return the highest. If two partners take equally many tricks, North
    or East declares.

    tables: (R, 4, 5) double-dummy tricks by declarer and strain.
    dealer: (R,) seat; it matters only if both sides can make the same contract.
    vulnerable: (R,) 0 None, 1 NS, 2 EW, 3 All.
    """
    found = np.tile(np.array(PASSED_OUT), (len(tables), 1))
    sides = SIDE_VULNERABLE[np.asarray(vulnerable)]
    _par(np.asarray(tables), np.asarray(dealer), sides, _BID_POINTS, found)
    return Par(found[:, 0], Contracts(*found[:, 1:].T))


@njit(cache=True)
def _par(tables, dealer, vulnerable, points, found):  # type: ignore[no-untyped-def]
    """Compute par by backward induction over bids, from 7NT down to 1C.

    After each bid, the opponents pass or make a higher bid. The value of a bid is in points of the
    side that bids. It is the smaller of two numbers:

    - the side's points in this contract, if the opponents pass
    - the negated value of the opponents' best higher bid, if they bid on

    tables: (R, 4, 5) double-dummy tricks.
    dealer: (R,).
    vulnerable: (R, 2) whether North-South and East-West are vulnerable.
    points: the result of `_bid_points`.
    found: (R, 5) in-out array, the score and the columns of Contracts. The caller fills each row
        with PASSED_OUT; rows of boards on which no bid gains points keep these values.
    """
    best = np.empty((2, BIDS + 1), np.int64)  # by side: highest points by this or a higher bid
    choice = np.empty((2, BIDS + 1), np.int64)  # the bid with these points
    for row in range(len(tables)):
        best[:, BIDS] = -100_000  # no bid is left: worse than any contract
        choice[:, BIDS] = BIDS
        table = tables[row]
        for bid in range(BIDS - 1, -1, -1):
            strain = bid % 5
            for side in range(2):
                tricks = max(table[side, strain], table[side + 2, strain])
                value = points[vulnerable[row, side], bid, tricks]
                value = min(value, -best[1 - side, bid + 1])
                best[side, bid] = best[side, bid + 1]
                choice[side, bid] = choice[side, bid + 1]
                if value > best[side, bid]:
                    best[side, bid], choice[side, bid] = value, bid
        side = dealer[row] % 2
        if best[side, 0] <= -max(0, best[1 - side, 0]):
            side = 1 - side  # the dealer's side gains nothing by a bid
            if best[side, 0] <= 0:
                continue  # nor does the other side: all pass
        north = best[side, 0] if side == 0 else -best[side, 0]
        bid = choice[side, 0]
        while True:
            strain, at = bid % 5, vulnerable[row, side]
            declarer = side if table[side, strain] >= table[side + 2, strain] else side + 2
            tricks = table[declarer, strain]
            if points[at, bid, tricks] == (north if side == 0 else -north):
                break  # the other side gains nothing by bidding on
            side = 1 - side
            bid = choice[side, bid + 1]
        found[row, 0], found[row, 1] = north, declarer
        found[row, 2], found[row, 3] = bid // 5 + 1, strain
        found[row, 4] = tricks < bid // 5 + 7
