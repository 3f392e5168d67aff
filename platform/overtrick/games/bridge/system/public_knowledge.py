"""What everybody at the table knows of an auction: the calls, and what they have shown so far.

An auction in progress is a Table of small arrays. `view` tells it as the seat to call sees it: the
numbers that the places of a bidding system ask about, each at an index of VIEW.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import (  # fmt: skip
    BIDS,
    CALL_COUNT,
    DOUBLED,
    LAST_BID,
    LAST_BIDDER,
    LONGEST_AUCTION,
    NEXT_SEAT,
    PASS,
    PASSES,
    make_call,
    start_auction,
)
from overtrick.games.bridge.cards import SUITS
from overtrick.games.bridge.system import hand_evaluation

PLAYERS = ("me", "lho", "partner", "rho")
"""Seats as the one to call has them, in the order of play."""

SITUATION = (
    "opened by", "seat", "vulnerable", "they vulnerable", "level", "last", "last by", "doubled",
    "passes", "calls", "partner calls", "their calls", "forced", "game forced", "agreed", "passed",
    "partner passed", "last ours", "invited",
)  # fmt: skip
"""Who opened; how many passed before; vulnerability; the last bid's level (0 if none), strain, and
who made it; whether it is doubled; passes in a row; calls other than passes of each; does partner's
last call force; is this side forced to game; the agreed strain, or -1; who passed before the
opening bid; is the last bid of this side; did partner invite with it."""

RANGED = ("hcp", "total", "adjusted", *(f"length {suit}" for suit in SUITS))
VIEW = {
    name: index
    for index, name in enumerate(
        (
            *SITUATION,
            *(f"{who} {end} {what}" for who in PLAYERS for end in ("lo", "hi") for what in RANGED),
            *(f"they lo length {suit}" for suit in SUITS),
        )
    )
}
FIRST_RANGED = len(SITUATION)
FIELD_OF_RANGED = np.array(
    [
        hand_evaluation.HCP,
        hand_evaluation.TOTAL,
        hand_evaluation.ADJUSTED,
        *range(hand_evaluation.LENGTH, hand_evaluation.LENGTH + 4),
    ]
)

STATUSES = (
    "none", "passed", "sign-off", "non-forcing", "invitational", "forcing", "game-forcing",
    "asking", "answering", "preemptive",
)  # fmt: skip
TYPES = (
    "none", "pass", "natural", "raise", "notrump", "preempt", "transfer", "relay", "answer",
    "conventional", "cue bid", "takeout double", "negative double", "penalty double", "redouble",
)  # fmt: skip
INVITATIONAL = STATUSES.index("invitational")
SLAMS = ("none", "slam try", "small slam", "grand slam")
STATUS, TYPE, SLAM, SUIT, AGREED, TRUMPS, POWER = range(7)
SAID = 7
"""Of each player: the status, type and slam meaning of the last call, its suit (-1 none, 4
notrump), the suit agreed (-1 none), that of keycards (-1 none), extra power (-1 unknown)."""

LIMITS = np.zeros((2, hand_evaluation.WIDTH), np.int16)
"""The least and the most that any hand has of each field."""
LIMITS[1] = 13
LIMITS[1, [hand_evaluation.HCP, hand_evaluation.TOTAL, hand_evaluation.ADJUSTED]] = 37, 40, 40
LIMITS[1, hand_evaluation.LOSERS], LIMITS[1, hand_evaluation.QUICK] = 12, 16
LIMITS[1, hand_evaluation.CONTROLS] = 12
LIMITS[1, [hand_evaluation.ACES, hand_evaluation.KINGS]] = 4
LIMITS[1, hand_evaluation.SHAPE] = 2
LIMITS[0, hand_evaluation.LONGEST], LIMITS[0, hand_evaluation.SECOND] = 4, 0
LIMITS[1, hand_evaluation.SECOND], LIMITS[1, hand_evaluation.SHORTEST] = 6, 3
LIMITS[1, hand_evaluation.STRENGTH : hand_evaluation.STRENGTH + 4] = 7
LIMITS[0, hand_evaluation.CONTROL : hand_evaluation.CONTROL + 4] = 1
LIMITS[1, hand_evaluation.CONTROL : hand_evaluation.CONTROL + 4] = 4
LIMITS[1, hand_evaluation.KING : hand_evaluation.TOP3] = 1
LIMITS[1, hand_evaluation.TOP3 : hand_evaluation.TOP5] = 3
LIMITS[1, hand_evaluation.TOP5 : hand_evaluation.KEYCODE] = 5
LIMITS[1, hand_evaluation.KEYCODE : hand_evaluation.SUPPORT] = 2
LIMITS[1, hand_evaluation.SUPPORT : hand_evaluation.LONGER] = 45
LIMITS[0, hand_evaluation.LONGER :] = -13


def _likely() -> Array:
    """(38,) the most honour points of all but one in UNLIKELY of the hands that have at least so
    many. Hands are counted exactly, by how many cards of each honour they have."""
    ways = np.zeros((14, 38))  # of so many cards with so many points
    ways[0, 0] = 1
    for points, cards in ((4, 4), (3, 4), (2, 4), (1, 4), (0, 36)):
        more = np.zeros_like(ways)
        for taken in range(min(cards, 13) + 1):
            worth = points * taken
            more[taken:, worth:] += comb(cards, taken) * ways[: 14 - taken, : 38 - worth]
        ways = more
    above = np.cumsum(ways[13, ::-1])[::-1]  # hands with at least so many
    return np.array([(above * UNLIKELY >= above[least]).sum() - 1 for least in range(38)])


UNLIKELY = 100
LIKELY = _likely()


PROMISED, SHOWN = range(2)
"""Two readings of the same calls: what the rules that make them ask of a hand, on which partner
counts; and what players may have for them, with the rules that are heard and without rare ones."""


class Table(NamedTuple):
    """One auction in progress; edited in place."""

    calls: Array  # (319,) int8
    now: Array  # (NOW,) int64 as `auction` has it
    more: Array  # (MORE,) int64, by the numbers below
    lo: Array  # (2, 4, H) int16 the least of each field that each seat has PROMISED, and SHOWN
    hi: Array  # (2, 4, H) int16 the most
    said: Array  # (4, SAID) int8
    made: Array  # (4, 2) int64 calls other than passes, and bids, of each seat
    passed: Array  # (4,) bool: passed before anybody bid


VULNERABLE, OPENED, OPENER, FORCING, GAME = range(5)
MORE = GAME + 2
"""Columns of `more`: who is vulnerable; how many calls came before the opening bid, and who made
it, -1 before it; whose call forces partner, or -1; and whether each side is forced to game."""


def table() -> Table:
    """An empty table; `sit` opens an auction at it."""
    width = hand_evaluation.WIDTH
    return Table(
        np.empty(LONGEST_AUCTION, np.int8),
        np.empty(auction_rules.STATE_WIDTH, np.int64),
        np.empty(MORE, np.int64),
        np.empty((2, 4, width), np.int16),
        np.empty((2, 4, width), np.int16),
        np.empty((4, SAID), np.int8),
        np.empty((4, 2), np.int64),
        np.empty(4, np.bool_),
    )


@njit(cache=True)
def sit(table, dealer, vulnerable, limits):  # type: ignore[no-untyped-def]
    """Begin an auction."""
    start_auction(table.now, dealer)
    table.more[:] = 0
    table.more[VULNERABLE] = vulnerable
    table.more[OPENED] = table.more[OPENER] = table.more[FORCING] = -1
    table.made[:] = 0
    table.passed[:] = False
    table.lo[:] = limits[0]
    table.hi[:] = limits[1]
    table.said[:, :SUIT] = 0
    table.said[:, SUIT:] = -1


@njit(cache=True)
def called(table, made):  # type: ignore[no-untyped-def]
    """A bare lawful call is made; what it shows comes from a system."""
    now, more = table.now, table.more
    seat = now[NEXT_SEAT]
    table.calls[now[CALL_COUNT]] = made
    if made == PASS:
        table.passed[seat] |= more[OPENED] < 0
    else:
        table.made[seat, 0] += 1
        if made < BIDS:
            table.made[seat, 1] += 1
            if more[OPENED] < 0:
                more[OPENED], more[OPENER] = now[CALL_COUNT], seat
    make_call(now, made)


@njit(cache=True)
def look(table, fields, view):  # type: ignore[no-untyped-def]
    """Write the auction as the seat to call sees it: the numbers of VIEW."""
    now, more = table.now, table.more
    me = now[NEXT_SEAT]
    partner, left, right = (me + 2) % 4, (me + 1) % 4, (me + 3) % 4
    opened, bid = more[OPENED] >= 0, now[LAST_BID] >= 0
    view[0] = (more[OPENER] - me) % 4 if opened else -1
    view[1] = more[OPENED] if opened else now[CALL_COUNT]
    view[2] = (more[VULNERABLE] >> (me % 2)) & 1
    view[3] = (more[VULNERABLE] >> (1 - me % 2)) & 1
    view[4] = now[LAST_BID] // 5 + 1 if bid else 0
    view[5] = now[LAST_BID] % 5 if bid else -1
    view[6] = (now[LAST_BIDDER] - me) % 4 if bid else -1
    view[7] = now[DOUBLED]
    view[8] = now[PASSES]
    view[9], view[10] = table.made[me, 0], table.made[partner, 0]
    view[11] = table.made[left, 0] + table.made[right, 0]
    quiet = now[PASSES] >= 1
    view[12] = more[FORCING] == partner and quiet
    view[13] = more[GAME + me % 2]
    view[14] = max(table.said[me, AGREED], table.said[partner, AGREED])
    view[15], view[16] = table.passed[me], table.passed[partner]
    view[17] = bid and view[6] % 2 == 0
    view[18] = table.said[partner, STATUS] == INVITATIONAL and quiet and view[6] == 2
    at = FIRST_RANGED
    for who in range(4):
        seat = (me + who) % 4
        for k in range(len(fields)):
            view[at + k] = table.lo[PROMISED, seat, fields[k]]
            view[at + len(fields) + k] = table.hi[PROMISED, seat, fields[k]]
        at += 2 * len(fields)
    for suit in range(4):
        length = hand_evaluation.LENGTH + suit
        view[at + suit] = max(table.lo[PROMISED, left, length], table.lo[PROMISED, right, length])


@njit(cache=True)
def settle(lo, hi):  # type: ignore[no-untyped-def]
    """Draw the plain conclusions from what a seat has shown: lengths sum to 13, and so on."""
    first = hand_evaluation.LENGTH
    if lo[hand_evaluation.SHAPE] >= 1:
        for suit in range(first, first + 4):
            lo[suit] = max(lo[suit], 2)
            hi[suit] = min(hi[suit], 5 if lo[hand_evaluation.SHAPE] == 2 else 6)
    at = hand_evaluation.LONGER
    for a in range(3, 0, -1):
        for b in range(a - 1, -1, -1):
            lo[first + a] = max(lo[first + a], lo[first + b] + lo[at])
            hi[first + b] = min(hi[first + b], hi[first + a] - lo[at])
            lo[first + b] = max(lo[first + b], lo[first + a] - hi[at])
            hi[first + a] = min(hi[first + a], hi[first + b] + hi[at])
            at += 1
    least = lo[first] + lo[first + 1] + lo[first + 2] + lo[first + 3]
    most = hi[first] + hi[first + 1] + hi[first + 2] + hi[first + 3]
    for suit in range(first, first + 4):
        hi[suit] = max(min(hi[suit], 13 - least + lo[suit]), lo[suit])
        lo[suit] = min(max(lo[suit], 13 - most + hi[suit]), hi[suit])
    long_points = 0
    for suit in range(first, first + 4):
        long_points += max(lo[suit] - 4, 0)
    lo[hand_evaluation.TOTAL] = max(
        lo[hand_evaluation.TOTAL], lo[hand_evaluation.HCP] + long_points
    )
    hi[hand_evaluation.HCP] = min(hi[hand_evaluation.HCP], hi[hand_evaluation.TOTAL] - long_points)
    lo[hand_evaluation.HCP] = max(
        lo[hand_evaluation.HCP], lo[hand_evaluation.TOTAL] - max(long_points, 3)
    )
    hi[hand_evaluation.TOTAL] = min(hi[hand_evaluation.TOTAL], hi[hand_evaluation.HCP] + 9)
    if lo[hand_evaluation.SHAPE] == 2:
        lo[hand_evaluation.HCP] = max(lo[hand_evaluation.HCP], lo[hand_evaluation.TOTAL] - 1)
        hi[hand_evaluation.TOTAL] = min(hi[hand_evaluation.TOTAL], hi[hand_evaluation.HCP] + 1)
    lo[hand_evaluation.ADJUSTED] = max(lo[hand_evaluation.ADJUSTED], lo[hand_evaluation.HCP])
    hi[hand_evaluation.HCP] = min(hi[hand_evaluation.HCP], hi[hand_evaluation.ADJUSTED])
    for what in (hand_evaluation.HCP, hand_evaluation.TOTAL, hand_evaluation.ADJUSTED):
        hi[what] = max(hi[what], lo[what])
