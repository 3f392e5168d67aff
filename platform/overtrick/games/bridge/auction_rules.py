"""Rules of the bridge auction: calls as integers, legal calls, and the final contract.

Calls 0 to 34 are the bids 1C, 1D, 1H, 1S, 1N, 2C ... 7N; calls 35 to 37 are pass, double and
redouble. The state of one auction is an int64 vector (STATE_WIDTH,) with columns LAST_BID to
FIRST_NAMED. The state of G auctions is an array (G, STATE_WIDTH).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, UserError

STRAIN_LETTERS = "CDHSN"
BIDS = 35
PASS, DOUBLE, REDOUBLE = 35, 36, 37
_BID_NAMES = tuple(f"{level}{strain}" for level in range(1, 8) for strain in STRAIN_LETTERS)
CALLS = (*_BID_NAMES, "P", "X", "XX")
CALL_SYNONYMS = {
    "PASS": PASS, "DBL": DOUBLE, "DOUBLE": DOUBLE, "RDBL": REDOUBLE, "REDBL": REDOUBLE,
    "REDOUBLE": REDOUBLE,
}  # fmt: skip

LAST_BID, LAST_BIDDER, DOUBLED, PASSES, CALL_COUNT, NEXT_SEAT, FIRST_NAMED = range(7)
"""Columns of the state of an auction:

    LAST_BID, LAST_BIDDER  the last bid and its seat; -1 before any bid
    DOUBLED                0; 1 if the last bid is doubled, 2 if redoubled
    PASSES                 number of passes since the last other call
    CALL_COUNT             number of calls
    NEXT_SEAT              the next seat to call
    FIRST_NAMED            first of ten columns, by side (North-South first) and strain: the seat
                           of the side that first bid the strain, or -1
"""
STATE_WIDTH = FIRST_NAMED + 10
NO_SEAT = -1
LONGEST_AUCTION = 319  # number of calls
CALLERS_WIDTH = 3 * BIDS  # seats that made, doubled and redoubled each bid
PASSED_OUT = "Pass"  # text of a passed-out contract


class Contracts(NamedTuple):
    """Contracts of G auctions: declarer, level, strain and doubling."""

    declarer: Array  # (G,) seat; NO_SEAT where all passed
    level: Array  # (G,) 1 to 7; 0 where all passed
    strain: Array  # (G,) index into STRAIN_LETTERS; -1 where all passed
    doubled: Array  # (G,) 0; 1 if doubled, 2 if redoubled


@njit(cache=True)
def start_auction(state, dealer):  # type: ignore[no-untyped-def]
    """Write the state of an auction before its first call into `state` (STATE_WIDTH,)."""
    state[:] = 0
    state[LAST_BID] = state[LAST_BIDDER] = -1
    state[FIRST_NAMED:] = NO_SEAT
    state[NEXT_SEAT] = dealer


@njit(cache=True)
def auction_over(state):  # type: ignore[no-untyped-def]
    """Return whether an auction has ended: three passes after a bid, or four without one."""
    return state[PASSES] >= (4 if state[LAST_BID] < 0 else 3)


@njit(cache=True)
def may_double(state):  # type: ignore[no-untyped-def]
    """Return whether the next seat may double, and whether it may redouble.

    state: (STATE_WIDTH,). The end of the auction is not checked.
    """
    theirs = (state[LAST_BIDDER] - state[NEXT_SEAT]) % 2 == 1
    some = state[LAST_BID] >= 0
    return some and theirs and state[DOUBLED] == 0, some and not theirs and state[DOUBLED] == 1


@njit(cache=True)
def is_legal_call(state, made):  # type: ignore[no-untyped-def]
    """Return whether the call `made` is legal for the next seat; false after the auction's end."""
    if made < 0 or made > REDOUBLE or auction_over(state):
        return False
    if made <= PASS:
        return made > state[LAST_BID]
    return may_double(state)[made - DOUBLE]


@njit(cache=True)
def write_legal_calls(state, mask):  # type: ignore[no-untyped-def]
    """Write the legal calls of the next seat to `mask` (38,); none after the auction's end."""
    goes_on = not auction_over(state)
    for made in range(PASS + 1):
        mask[made] = goes_on and made > state[LAST_BID]
    double, redouble = may_double(state)
    mask[DOUBLE], mask[REDOUBLE] = goes_on and double, goes_on and redouble


@njit(cache=True)
def make_call(state, made):  # type: ignore[no-untyped-def]
    """Advance the state of one auction, in place, by the legal call `made`."""
    seat = state[NEXT_SEAT]
    state[PASSES] = state[PASSES] + 1 if made == PASS else 0
    if made < BIDS:
        state[LAST_BID], state[LAST_BIDDER], state[DOUBLED] = made, seat, 0
        first = FIRST_NAMED + 5 * (seat % 2) + made % 5
        if state[first] == NO_SEAT:
            state[first] = seat
    elif made != PASS:
        state[DOUBLED] = 1 if made == DOUBLE else 2
    state[CALL_COUNT] += 1
    state[NEXT_SEAT] = (seat + 1) % 4


def current_contracts(state: Array) -> Contracts:
    """Return the contracts that G auctions reach if all seats pass from now on.

    state: (G, STATE_WIDTH) states of the auctions.
    """
    bid, side = state[:, LAST_BID], state[:, LAST_BIDDER] % 2
    some = bid >= 0
    strain = np.where(some, bid % 5, -1)
    declarer = state[np.arange(len(state)), FIRST_NAMED + 5 * side + bid % 5]
    return Contracts(
        np.where(some, declarer, NO_SEAT),
        np.where(some, bid // 5 + 1, 0),
        strain,
        state[:, DOUBLED],
    )


def final_contracts(calls: Array, dealer: Array) -> Contracts:
    """Return the final contracts of G auctions.

    calls: (G, L) the calls of each auction, padded with -1. They must be legal; this is not
    checked. dealer: (G,) seat.
    """
    return current_contracts(states_after(calls, dealer))


def states_after(calls: Array, dealer: Array) -> Array:
    """Return the states (G, STATE_WIDTH) of G auctions after the given calls.

    calls: (G, L) legal calls of each auction, padded with -1. dealer: (G,) seat.
    """
    state = np.empty((len(calls), STATE_WIDTH), np.int64)
    _make_all(np.asarray(calls), np.asarray(dealer), state)
    return state


@njit(cache=True)
def _make_all(calls, dealer, state):  # type: ignore[no-untyped-def]
    for game in range(len(calls)):
        start_auction(state[game], dealer[game])
        for made in calls[game]:
            if made < 0:
                break
            make_call(state[game], made)


def recorded_callers(calls: Array) -> Array:
    """Return the seats that made, doubled and redoubled each bid, before each recorded call.

    calls: (G, L) the calls of G auctions, R calls in all, padded with -1.

    Return callers (R, 105) int8: for each bid, the seat that made it, then the seat that doubled
    it, then the seat that redoubled it; -1 where nobody did. Seats are relative to the seat to
    call, from 0 (the seat to call) to 3 (its right-hand opponent).
    """
    found = np.empty((int((calls >= 0).sum()), CALLERS_WIDTH), np.int8)
    _write_callers(np.asarray(calls), found)
    return found


@njit(cache=True)
def caller_column(call, last_bid):  # type: ignore[no-untyped-def]
    """Return the column (0 to 104) of callers in which the seat of a call other than a pass is."""
    return call if call < BIDS else last_bid + (call - PASS) * BIDS


def legal_after_last_bids(last_bids: Array) -> Array:
    """Return the legal calls (R, 38) bool, given three numbers (R, 3) that describe the last bid.

    last_bids: (R, 3) the last bid, the seat that made it relative to the seat to call, and 0, 1 or
    2 if it is undoubled, doubled or redoubled; -1, -1 and 0 before any bid.
    """
    last, by, doubled = last_bids.T[:, :, None]
    bids = np.arange(PASS + 1) > last
    theirs, ours = (by % 2 == 1) & (doubled == 0), (by % 2 == 0) & (doubled == 1)
    return np.concatenate([bids, (by >= 0) & theirs, (by >= 0) & ours], axis=1)


@njit(cache=True)
def _write_callers(calls, found):  # type: ignore[no-untyped-def]
    row, state, seats = 0, np.empty(STATE_WIDTH, np.int64), np.empty(CALLERS_WIDTH, np.int64)
    for game in range(len(calls)):
        start_auction(state, 0)
        seats[:] = NO_SEAT
        for made in calls[game]:
            if made < 0:
                break
            to_call = state[NEXT_SEAT]
            for k in range(CALLERS_WIDTH):
                found[row, k] = (seats[k] - to_call) % 4 if seats[k] != NO_SEAT else NO_SEAT
            if made != PASS:
                seats[caller_column(made, state[LAST_BID])] = to_call
            row += 1
            make_call(state, made)


def parse_calls(text: str) -> list[int]:
    """Parse a text such as "1N P 2D X" as calls, integers from 0 to 37.

    Words such as 1NT, Pass and Dbl are accepted in any case. Raises UserError for an unknown call.
    """
    return [_parse_call(word) for word in text.split()]


def format_calls(calls: Sequence[int]) -> str:
    """Format calls as words, such as "1N P 2D X"."""
    return " ".join(CALLS[made] for made in calls)


def _parse_call(word: str) -> int:
    said = word.upper()
    if said in CALL_SYNONYMS:
        return CALL_SYNONYMS[said]
    said = said[:-1] if said.endswith("NT") else said
    if said not in CALLS:
        raise UserError(f"'{word}' is not a call: write P, X, XX or a bid such as 1C or 3N")
    return CALLS.index(said)


def check_auction(calls: Sequence[int], done: bool = True) -> None:
    """Raise UserError if an auction contains an illegal call; the error names the first one.

    done: if true, also raise UserError if the auction has not ended.
    """
    state = np.empty(STATE_WIDTH, np.int64)
    wrong = _first_illegal(np.array(calls, np.int64), state)
    if wrong < len(calls):
        said = CALLS[calls[wrong]] if 0 <= calls[wrong] < len(CALLS) else str(calls[wrong])
        raise UserError(f"call {wrong + 1} of the auction, {said}, {_reason(state, calls[wrong])}")
    if done and not auction_over(state):
        missing = int((4 if state[LAST_BID] < 0 else 3) - state[PASSES])
        passes = "a pass is" if missing == 1 else f"{missing} passes are"
        raise UserError(f"the auction '{format_calls(calls)}' does not end: {passes} missing")


def is_complete(calls: Sequence[int]) -> bool:
    """Return whether an auction has ended. calls: legal calls from its beginning."""
    return bool(auction_over(states_after(np.array([[*calls, -1]]), np.array([0]))[0]))


@njit(cache=True)
def _first_illegal(calls, state):  # type: ignore[no-untyped-def]
    """Make the calls of an auction up to the first illegal call, and return its index.

    Return len(calls) if all are legal. state: (STATE_WIDTH,) output, the state of the auction
    before the illegal call.
    """
    start_auction(state, 0)
    for place in range(len(calls)):
        if not is_legal_call(state, calls[place]):
            return place
        make_call(state, calls[place])
    return len(calls)


def _reason(state: Array, made: int) -> str:
    """Return the reason why the call `made` is illegal, as the end of an error message.

    state: (STATE_WIDTH,) state of the auction before the call.
    """
    if auction_over(state):
        return "comes after its end"
    if not 0 <= made < len(CALLS):
        return f"is not a call: calls are numbered 0 to {REDOUBLE}"
    if made < BIDS:
        return f"is not above {CALLS[state[LAST_BID]]}"
    if state[LAST_BID] < 0:
        return "comes before any bid"
    theirs = (state[LAST_BIDDER] - state[NEXT_SEAT]) % 2 == 1
    if made == DOUBLE:
        return "doubles a doubled bid" if theirs else "doubles a bid of its own side"
    why = ("a bid that is not doubled", "a bid of the other side", "once more")
    return f"redoubles {why[state[DOUBLED]]}"
