"""The auction: calls as numbers, which of them are lawful, and the contract that they reach.

Calls 0 to 34 are the bids 1C, 1D, 1H, 1S, 1N, 2C ... 7N, then pass, double and redouble. One
auction in progress is an int64 vector, `now`, with the columns named here, which the kernels read
and write; many side by side have one axis more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, UserError
from overtrick.games.bridge.cards import SEATS

STRAIN_LETTERS = "CDHSN"
BIDS = 35
PASS, DOUBLE, REDOUBLE = 35, 36, 37
CALLS = (
    *(f"{level}{strain}" for level in range(1, 8) for strain in STRAIN_LETTERS),
    "P",
    "X",
    "XX",
)
CALL_SYNONYMS = {
    "PASS": PASS, "DBL": DOUBLE, "DOUBLE": DOUBLE, "RDBL": REDOUBLE, "REDBL": REDOUBLE,
    "REDOUBLE": REDOUBLE,
}  # fmt: skip

LAST_BID, LAST_BIDDER, DOUBLED, PASSES, CALL_COUNT, NEXT_SEAT, FIRST_NAMED = range(7)
"""Columns of `now`: the last bid and who made it, -1 if nobody has bid; 1 if it is doubled, 2 if
redoubled; passes since the last other call; calls so far; who calls next; and from FIRST on, by
side (North-South first) and strain, who of it named the strain first, or -1."""
STATE_WIDTH = FIRST_NAMED + 10
NO_SEAT = -1
LONGEST_AUCTION = 319  # calls
PASSED_OUT = "Pass"  # as a contract in words


class Contracts(NamedTuple):
    """The contracts of G auctions."""

    declarer: Array  # (G,) seat; NOBODY where all passed
    level: Array  # (G,) 1 to 7; 0 where all passed
    strain: Array  # (G,) -1 where all passed
    doubled: Array  # (G,) 0, 1, or 2 for redoubled


@njit(cache=True)
def start_auction(now, dealer):  # type: ignore[no-untyped-def]
    """Write an auction (NOW,) before its first call."""
    now[:] = 0
    now[LAST_BID] = now[LAST_BIDDER] = -1
    now[FIRST_NAMED:] = NO_SEAT
    now[NEXT_SEAT] = dealer


@njit(cache=True)
def auction_over(now):  # type: ignore[no-untyped-def]
    """Has an auction ended: three passes after a bid, or four without one?"""
    return now[PASSES] >= (4 if now[LAST_BID] < 0 else 3)


@njit(cache=True)
def may_double(now):  # type: ignore[no-untyped-def]
    """May who is to call double, and redouble, an auction that goes on?"""
    theirs = (now[LAST_BIDDER] - now[NEXT_SEAT]) % 2 == 1
    some = now[LAST_BID] >= 0
    return some and theirs and now[DOUBLED] == 0, some and not theirs and now[DOUBLED] == 1


@njit(cache=True)
def is_legal_call(now, made):  # type: ignore[no-untyped-def]
    """May who is to call make this call? Nothing may be called once the auction is over."""
    if made < 0 or made > REDOUBLE or auction_over(now):
        return False
    if made <= PASS:
        return made > now[LAST_BID]
    return may_double(now)[made - DOUBLE]


@njit(cache=True)
def write_legal_calls(now, mask):  # type: ignore[no-untyped-def]
    """Write which calls (38,) are lawful; none once the auction is over."""
    goes_on = not auction_over(now)
    for made in range(PASS + 1):
        mask[made] = goes_on and made > now[LAST_BID]
    double, redouble = may_double(now)
    mask[DOUBLE], mask[REDOUBLE] = goes_on and double, goes_on and redouble


@njit(cache=True)
def make_call(now, made):  # type: ignore[no-untyped-def]
    """Make a lawful call."""
    seat = now[NEXT_SEAT]
    now[PASSES] = now[PASSES] + 1 if made == PASS else 0
    if made < BIDS:
        now[LAST_BID], now[LAST_BIDDER], now[DOUBLED] = made, seat, 0
        first = FIRST_NAMED + 5 * (seat % 2) + made % 5
        if now[first] == NO_SEAT:
            now[first] = seat
    elif made != PASS:
        now[DOUBLED] = 1 if made == DOUBLE else 2
    now[CALL_COUNT] += 1
    now[NEXT_SEAT] = (seat + 1) % 4


@njit(cache=True)
def declarer_of(now):  # type: ignore[no-untyped-def]
    """Who would declare the last bid: the first of its side to name the strain; or NOBODY."""
    if now[LAST_BID] < 0:
        return NO_SEAT
    return now[FIRST_NAMED + 5 * (now[LAST_BIDDER] % 2) + now[LAST_BID] % 5]


def current_contracts(now: Array) -> Contracts:
    """The contracts of auctions (G, NOW); of those that go on, if all passed from here."""
    bid, side = now[:, LAST_BID], now[:, LAST_BIDDER] % 2
    some = bid >= 0
    strain = np.where(some, bid % 5, -1)
    declarer = now[np.arange(len(now)), FIRST_NAMED + 5 * side + bid % 5]
    return Contracts(
        np.where(some, declarer, NO_SEAT), np.where(some, bid // 5 + 1, 0), strain, now[:, DOUBLED]
    )


def final_contracts(calls: Array, dealer: Array) -> Contracts:
    """The contracts of auctions (G, L) padded with -1, dealt by (G,): lawful ones, unchecked."""
    now = np.empty((len(calls), STATE_WIDTH), np.int64)
    _make_all(np.asarray(calls), np.asarray(dealer), now)
    return current_contracts(now)


@njit(cache=True)
def _make_all(calls, dealer, now):  # type: ignore[no-untyped-def]
    for game in range(len(calls)):
        start_auction(now[game], dealer[game])
        for made in calls[game]:
            if made < 0:
                break
            make_call(now[game], made)


def bidding_situations(calls: Array) -> Array:
    """(R, 3) int8 for each call of auctions (G, L) padded with -1, in their order: the last bid
    before it, -1 if there is none; by whom, 0 who calls now to 3 right-hand opponent, or -1; and
    0, 1 if it is doubled, 2 if redoubled."""
    found = np.empty((int((calls >= 0).sum()), 3), np.int8)
    _situations(np.asarray(calls), found)
    return found


def legal_in_situations(situations: Array) -> Array:
    """(R, 38) bool which calls are lawful in situations (R, 3)."""
    last, by, doubled = situations.T[:, :, None]
    bids = np.arange(PASS + 1) > last
    theirs, ours = (by % 2 == 1) & (doubled == 0), (by % 2 == 0) & (doubled == 1)
    return np.concatenate([bids, (by >= 0) & theirs, (by >= 0) & ours], axis=1)


@njit(cache=True)
def _situations(calls, found):  # type: ignore[no-untyped-def]
    row, now = 0, np.empty(STATE_WIDTH, np.int64)
    for game in range(len(calls)):
        start_auction(now, 0)
        for made in calls[game]:
            if made < 0:
                break
            by = (now[LAST_BIDDER] - now[NEXT_SEAT]) % 4 if now[LAST_BID] >= 0 else NO_SEAT
            found[row, 0], found[row, 1], found[row, 2] = now[LAST_BID], by, now[DOUBLED]
            row += 1
            make_call(now, made)


def parse_calls(text: str) -> list[int]:
    """The calls of an auction in words: "1N P 2D X", also 1NT, Pass or Dbl, in any letter case.
    Raises UserError."""
    return [_parse_call(word) for word in text.split()]


def format_calls(calls: Sequence[int]) -> str:
    """Calls in words."""
    return " ".join(CALLS[made] for made in calls)


def _parse_call(word: str) -> int:
    said = word.upper()
    if said in CALL_SYNONYMS:
        return CALL_SYNONYMS[said]
    said = said[:-1] if said.endswith("NT") else said
    if said not in CALLS:
        raise UserError(f"'{word}' is no call: write P, X, XX or a bid such as 1C or 3N")
    return CALLS.index(said)


def check_auction(calls: Sequence[int], done: bool = True) -> None:
    """Raise UserError, naming the call, unless all calls are lawful; and if done, unless they make
    a whole auction."""
    now = np.empty(STATE_WIDTH, np.int64)
    wrong = _first_wrong(np.array(calls, np.int64), now)
    if wrong < len(calls):
        said = CALLS[calls[wrong]] if 0 <= calls[wrong] < len(CALLS) else str(calls[wrong])
        raise UserError(f"call {wrong + 1} of the auction, {said}, {_reason(now, calls[wrong])}")
    if done and not auction_over(now):
        missing = int((4 if now[LAST_BID] < 0 else 3) - now[PASSES])
        passes = "a pass is" if missing == 1 else f"{missing} passes are"
        raise UserError(f"the auction '{format_calls(calls)}' does not end: {passes} missing")


@njit(cache=True)
def _first_wrong(calls, now):  # type: ignore[no-untyped-def]
    """Make calls up to the first one that may not be made, whose place is returned."""
    start_auction(now, 0)
    for place in range(len(calls)):
        if not is_legal_call(now, calls[place]):
            return place
        make_call(now, calls[place])
    return len(calls)


def _reason(now: Array, made: int) -> str:
    """What is wrong with a call that may not be made."""
    if auction_over(now):
        return "comes after its end"
    if not 0 <= made < len(CALLS):
        return f"is no number of a call: they go from 0 to {REDOUBLE}"
    if made < BIDS:
        return f"is not above {CALLS[now[LAST_BID]]}"
    if now[LAST_BID] < 0:
        return "comes before any bid"
    theirs = (now[LAST_BIDDER] - now[NEXT_SEAT]) % 2 == 1
    if made == DOUBLE:
        return "doubles what is doubled already" if theirs else "doubles a bid of its own side"
    why = ("what nobody has doubled", "a bid of the other side", "once more")
    return f"redoubles {why[now[DOUBLED]]}"


def describe_contract(calls: Sequence[int], dealer: str) -> tuple[str, str | None]:
    """What a lawful auction reaches: 4S, 3NX or 2HXX, and who declares; Pass and None if all pass.
    dealer: N, E, S or W."""
    found = final_contracts(np.array([[*calls, -1]]), np.array([SEATS.index(dealer)]))
    declarer, level, strain, doubled = (int(column[0]) for column in found)
    if not level:
        return PASSED_OUT, None
    return f"{level}{STRAIN_LETTERS[strain]}{'X' * doubled}", SEATS[declarer]
