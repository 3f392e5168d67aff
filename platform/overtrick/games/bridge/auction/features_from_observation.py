"""What the facts of a seat that is to call say to bidding systems: what these would call there, and
the numbers on which a network decides."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction.features import WIDTH, write_features
from overtrick.games.bridge.auction.observation import (
    OBS_DEALER,
    OBS_OWN,
    OBS_SEAT,
    OBS_VULNERABLE,
    write_calls,
)
from overtrick.games.bridge.auction_rules import LONGEST_AUCTION, NEXT_SEAT
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.public_knowledge import look, sit
from overtrick.games.bridge.system.rule_matching import choose, learn, scratch, tools


def features_before_call(seen: Array, ns: System, ew: System) -> Array:
    """(R, 1284) float32 the features of who is to call, by the facts of an auction (R, K)."""
    none = np.full(len(seen), -1, np.int64)
    return _asked(seen, np.arange(len(seen)), none, ns, ew)


def features_after_call(seen: Array, row: Array, made: Array, ns: System, ew: System) -> Array:
    """(D, 1284) float32 the same of some rows (D,) once their seats have made calls (D,)."""
    return _asked(seen, row, made, ns, ew)


def system_calls(seen: Array, ns: System, ew: System) -> Array:
    """(R,) the calls that the systems make there."""
    found = np.empty(len(seen), np.int64)
    _call(np.ascontiguousarray(seen), ns.tables, ew.tables, *tools(), found)
    return found


def calls_made(seen: Array) -> Array:
    """(R,) how many calls have been made before these facts (R, K)."""
    found = np.empty(len(seen), np.int64)
    _count(np.ascontiguousarray(seen), found)
    return found


def _asked(seen: Array, row: Array, made: Array, ns: System, ew: System) -> Array:
    found = np.empty((len(row), WIDTH), np.float32)
    calls: Any = np.ascontiguousarray(made, np.int64)
    _write(np.ascontiguousarray(seen), row, calls, ns.tables, ew.tables, *tools(), found)
    return found


@njit(cache=True)
def _count(seen, found):  # type: ignore[no-untyped-def]
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for row in range(len(seen)):
        found[row] = write_calls(seen[row], calls)


@njit(cache=True)
def _heard(tables, table, fields, made, held, view, owner, matched, lo, hi, limits):  # type: ignore[no-untyped-def]
    """A call is made, and everybody learns what it shows."""
    look(table, fields, view)
    _, _, rule = choose(tables, table, view, held, False, made, owner, matched, lo, hi, limits)
    learn(tables, table, table.now[NEXT_SEAT], made, rule, lo, hi)


@njit(cache=True)
def _write(seen, row, made, ns, ew, table, fields, limits, found):  # type: ignore[no-untyped-def]
    """Features (D, 1284) of rows (D,) after one more call (D,), or none if that is negative."""
    view, owner, matched, lo, hi = scratch(limits, max(len(ns.rule), len(ew.rule)))
    held = np.zeros(limits.shape[1], np.int16)
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for k in range(len(row)):
        facts = seen[row[k]]
        sit(table, facts[OBS_DEALER], facts[OBS_VULNERABLE], limits)
        count = write_calls(facts, calls)
        if made[k] >= 0:
            calls[count] = made[k]
            count += 1
        for at in range(count):
            tables = ns if table.now[NEXT_SEAT] % 2 == 0 else ew
            _heard(tables, table, fields, calls[at], held, view, owner, matched, lo, hi, limits)
        write_features(table, facts[OBS_OWN], facts[OBS_SEAT], facts[OBS_DEALER], found[k])


@njit(cache=True)
def _call(seen, ns, ew, table, fields, limits, found):  # type: ignore[no-untyped-def]
    view, owner, matched, lo, hi = scratch(limits, max(len(ns.rule), len(ew.rule)))
    held = np.zeros((1, limits.shape[1]), np.int16)
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for row in range(len(seen)):
        facts = seen[row]
        sit(table, facts[OBS_DEALER], facts[OBS_VULNERABLE], limits)
        for at in range(write_calls(facts, calls)):
            tables = ns if table.now[NEXT_SEAT] % 2 == 0 else ew
            _heard(tables, table, fields, calls[at], held[0], view, owner, matched, lo, hi, limits)
        hand_evaluation.evaluate(facts[OBS_OWN : OBS_OWN + 1], held)
        tables = ns if facts[OBS_SEAT] % 2 == 0 else ew
        look(table, fields, view)
        found[row], _, _ = choose(
            tables, table, view, held[0], True, -1, owner, matched, lo, hi, limits
        )
