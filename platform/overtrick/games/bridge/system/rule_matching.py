"""Which call a system makes, and what it shows: the rules that hold at one point of an auction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overtrick.games.bridge.auction_rules import CALL_COUNT, LAST_BID, PASS, is_legal_call
from overtrick.games.bridge.system.compiler import (  # fmt: skip
    ADDED,
    AGO,
    ASKED,
    CALL,
    CALLS_THEN,
    FORCES,
    GREATEST,
    HEARD,
    HOLDS,
    HOLDS_END,
    IF,
    IF_END,
    LEAST,
    LENGTH,
    LENGTHS,
    LEVEL,
    ONLY,
    PATTERNS,
    PATTERNS_END,
    RARE,
    RELATIVE_TO,
    RULES,
    RULES_END,
    SAYS,
    TESTS,
    TESTS_END,
    TO_GAME,
)
from overtrick.games.bridge.system.hand_evaluation import HCP
from overtrick.games.bridge.system.hand_terms import MOST
from overtrick.games.bridge.system.public_knowledge import (  # fmt: skip
    AGREED,
    FIELD_OF_RANGED,
    FORCING,
    GAME,
    LIKELY,
    LIMITS,
    OPENED,
    PROMISED,
    SAID,
    SHOWN,
    VIEW,
    called,
    settle,
    table,
)

NO_RULE = -1
VIEWED = len(VIEW)


def tools() -> Any:
    """The table at which auctions are held, and the numbers that they need."""
    return table(), FIELD_OF_RANGED, LIMITS


@njit(cache=True)
def scratch(limits, rules):  # type: ignore[no-untyped-def]
    """Room for one decision by a system of so many rows of rules: the view (VIEWED,), the level
    that names each call (38,), the rules that hold with their calls (rules, 2), and the hulls of
    what they promise and show, the least and the most of each field (2, H)."""
    width = limits.shape[1]
    return (
        np.zeros(VIEWED, np.int64),
        np.empty(38, np.int32),
        np.empty((rules, 2), np.int32),
        np.empty((2, width), np.int16),
        np.empty((2, width), np.int16),
    )


@njit(cache=True)
def choose(tables, table, view, held, by_hand, wanted, owner, matched, lo, hi, limits):  # type: ignore[no-untyped-def]
    """The call that a hand makes, or the meaning of one: the call; the row of the rule that the
    hand fits, or -1; and the row by which everybody reads the call, the first of its rules. In lo
    and hi are the hulls of what its rules promise, heard ones left out if there are others, and of
    what they show, rare ones left out if there are others."""
    now, more = table.now, table.more
    opening = 35 if more[OPENED] < 0 else table.calls[more[OPENED]]
    length = 0 if more[OPENED] < 0 else min(now[CALL_COUNT] - more[OPENED], LENGTHS - 1)
    at = opening * LENGTHS + length
    owner[:] = -1
    found, first, level, count, closed = -1, NO_RULE, -1, 0, False
    for k in range(tables.starts[at], tables.starts[at + 1]):
        block = tables.listed[k]
        if tables.block[block, LEVEL] != level:
            if found >= 0 or closed:
                break
            level, count = tables.block[block, LEVEL], 0
        if not holds(tables, block, table, view):
            continue
        closed = closed or tables.block[block, ONLY] == 1
        for row in range(tables.block[block, RULES], tables.block[block, RULES_END]):
            call = _call_of(tables, row, now[LAST_BID])
            if call < 0 or (not by_hand and call != wanted) or owner[call] not in (-1, level):
                continue
            first_condition, last_condition = tables.rule[row, IF], tables.rule[row, IF_END]
            if not is_legal_call(now, call) or not true(
                tables, first_condition, last_condition, view
            ):
                continue
            owner[call] = level
            matched[count, 0], matched[count, 1] = row, call
            count += 1
            if found < 0:
                mine = by_hand and not tables.rule[row, HEARD] and fits(tables, row, held, view)
                if mine or not by_hand:
                    found, first = call, row
    if found < 0:
        lo[:], hi[:] = limits[0], limits[1]  # of both readings
        return PASS if by_hand else wanted, NO_RULE, NO_RULE
    read = _hulls(tables, matched[:count], found, view, lo, hi, limits)
    return found, first, read


@njit(cache=True)
def _hulls(tables, matched, made, view, lo, hi, limits):  # type: ignore[no-untyped-def]
    """What a call promises and shows by the rules that hold; and the first that it promises."""
    lo[:], hi[:] = limits[1], limits[0]
    some_heard_not = some_rare_not = False
    for row, call in matched:
        if call == made:
            some_heard_not = some_heard_not or tables.rule[row, HEARD] == 0
            some_rare_not = some_rare_not or tables.rule[row, RARE] == 0
    read = NO_RULE
    for row, call in matched:
        if call == made:
            promised = tables.rule[row, HEARD] == 0 or not some_heard_not
            shown = tables.rule[row, RARE] == 0 or not some_rare_not
            if promised and read == NO_RULE:
                read = row
            widen(tables, row, view, lo, hi, promised, shown, limits)
    return read


@njit(cache=True)
def _call_of(tables, row, last):  # type: ignore[no-untyped-def]
    """The call of a rule after the last bid: as it stands, or the lowest or a jump in a strain; -1
    if there is none so high."""
    call, relative = tables.rule[row, CALL], tables.rule[row, RELATIVE_TO]
    if relative == 0:
        return call
    call = last + 1 + (call - last - 1) % 5 + 5 * (relative - 1)
    return call if call < PASS else -1


@njit(cache=True)
def holds(tables, block, table, view):  # type: ignore[no-untyped-def]
    """Does a place apply now?"""
    count, opened, length = table.now[CALL_COUNT], table.more[OPENED], tables.block[block, LENGTH]
    if length >= 0 and opened >= 0 and count - opened != length:
        return False
    for k in range(tables.block[block, PATTERNS], tables.block[block, PATTERNS_END]):
        back = tables.pattern[k, AGO]
        if back > count or not (tables.pattern[k, CALLS_THEN] >> table.calls[count - back]) & 1:
            return False
    return true(tables, tables.block[block, HOLDS], tables.block[block, HOLDS_END], view)


@njit(cache=True)
def true(tables, first, last, view):  # type: ignore[no-untyped-def]
    """Do conditions hold?"""
    for k in range(first, last):
        value = view[tables.condition[k, ASKED]]
        if value < tables.condition[k, LEAST] or value > tables.condition[k, GREATEST]:
            return False
    return True


@njit(cache=True)
def fits(tables, row, held, view):  # type: ignore[no-untyped-def]
    """Does a hand have what a rule shows?"""
    for k in range(tables.rule[row, TESTS], tables.rule[row, TESTS_END]):
        value = held[tables.test[k, ASKED]]
        if tables.test[k, ADDED] >= 0:
            value += view[tables.test[k, ADDED]]
        if value < tables.test[k, LEAST] or value > tables.test[k, GREATEST]:
            return False
    return True


@njit(cache=True)
def widen(tables, row, view, lo, hi, promised, shown, limits):  # type: ignore[no-untyped-def]
    """Take a rule's ranges into the hulls of what is promised and shown."""
    mine = np.empty((2, lo.shape[1]), np.int16)
    mine[0], mine[1] = limits[0], limits[1]
    for k in range(tables.rule[row, TESTS], tables.rule[row, TESTS_END]):
        field, ref = tables.test[k, ASKED], tables.test[k, ADDED]
        least, most = tables.test[k, LEAST], tables.test[k, GREATEST]
        shift = view[ref] if ref >= 0 else 0
        mine[0, field] = max(mine[0, field], least - shift)
        if most < MOST:
            mine[1, field] = min(mine[1, field], most - shift)
    settle(mine[0], mine[1])
    for reading in range(2):
        if promised if reading == PROMISED else shown:
            for field in range(lo.shape[1]):
                lo[reading, field] = min(lo[reading, field], mine[0, field])
                hi[reading, field] = max(hi[reading, field], mine[1, field])


@njit(cache=True)
def learn(tables, table, seat, made, row, lo, hi):  # type: ignore[no-untyped-def]
    """A call is made: everybody takes note of what it shows."""
    called(table, made)
    more = table.more
    for reading in range(2):
        _narrow(table.lo[reading], table.hi[reading], seat, lo[reading], hi[reading])
    known = table.lo[SHOWN, seat, HCP]
    table.hi[SHOWN, seat, HCP] = min(table.hi[SHOWN, seat, HCP], LIKELY[known])
    if made != PASS:
        more[FORCING] = -1
    said = table.said[seat]
    if row < 0:
        said[:3] = 0
        return
    rule = tables.rule[row]
    for k in range(SAID):
        if k != AGREED:
            said[k] = rule[SAYS + k]
    if rule[SAYS + AGREED] >= 0:
        said[AGREED] = table.said[(seat + 2) % 4, AGREED] = rule[SAYS + AGREED]
    if rule[FORCES]:
        more[FORCING] = seat
    if rule[TO_GAME]:
        more[GAME + seat % 2] = 1


@njit(cache=True)
def _narrow(known_lo, known_hi, seat, lo, hi):  # type: ignore[no-untyped-def]
    """Take a hull into what is known of all seats."""
    mine_lo, mine_hi = known_lo[seat], known_hi[seat]
    for field in range(len(lo)):
        least, most = max(mine_lo[field], lo[field]), min(mine_hi[field], hi[field])
        if least > most:  # what a player says later counts for more
            least, most = lo[field], hi[field]
        mine_lo[field], mine_hi[field] = least, most
    settle(mine_lo, mine_hi)
    least = known_lo[0, HCP] + known_lo[1, HCP] + known_lo[2, HCP] + known_lo[3, HCP]
    for each in range(4):  # the pack has 40 honour points
        left = 40 - least + known_lo[each, HCP]
        known_hi[each, HCP] = min(known_hi[each, HCP], max(left, known_lo[each, HCP]))
