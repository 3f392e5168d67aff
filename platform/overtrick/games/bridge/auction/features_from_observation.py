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
from overtrick.games.bridge.system.auction_simulation import knowledge_for
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.public_knowledge import open_auction, update_view
from overtrick.games.bridge.system.rule_matching import NO_CALL, hear_call, match_rules


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
    _call(np.ascontiguousarray(seen), ns.tables, ew.tables, knowledge_for(ns, ew), found)
    return found


def calls_made(seen: Array) -> Array:
    """(R,) how many calls have been made before these facts (R, K)."""
    found = np.empty(len(seen), np.int64)
    _count(np.ascontiguousarray(seen), found)
    return found


def _asked(seen: Array, row: Array, made: Array, ns: System, ew: System) -> Array:
    found = np.empty((len(row), WIDTH), np.float32)
    calls: Any = np.ascontiguousarray(made, np.int64)
    _write(
        np.ascontiguousarray(seen), row, calls, ns.tables, ew.tables, knowledge_for(ns, ew), found
    )
    return found


@njit(cache=True)
def _count(seen, found):  # type: ignore[no-untyped-def]
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for row in range(len(seen)):
        found[row] = write_calls(seen[row], calls)


@njit(cache=True)
def _hear_calls(calls, count, ns, ew, knowledge):  # type: ignore[no-untyped-def]
    """Interpret the first `count` calls of an auction that has just been opened."""
    for at in range(count):
        tables = ns if knowledge.auction[NEXT_SEAT] % 2 == 0 else ew
        hear_call(tables, knowledge, calls[at])


@njit(cache=True)
def _write(seen, row, made, ns, ew, knowledge, found):  # type: ignore[no-untyped-def]
    """Write features (D, 1284) of rows (D,) after one more call (D,), or none if negative."""
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for k in range(len(row)):
        facts = seen[row[k]]
        open_auction(knowledge, facts[OBS_DEALER], facts[OBS_VULNERABLE])
        count = write_calls(facts, calls)
        if made[k] >= 0:
            calls[count] = made[k]
            count += 1
        _hear_calls(calls, count, ns, ew, knowledge)
        write_features(knowledge, facts[OBS_OWN], facts[OBS_SEAT], facts[OBS_DEALER], found[k])


@njit(cache=True)
def _call(seen, ns, ew, knowledge, found):  # type: ignore[no-untyped-def]
    """Write the call of each row's system (R,)."""
    held = np.zeros((1, hand_evaluation.WIDTH), np.int16)
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for row in range(len(seen)):
        facts = seen[row]
        open_auction(knowledge, facts[OBS_DEALER], facts[OBS_VULNERABLE])
        _hear_calls(calls, write_calls(facts, calls), ns, ew, knowledge)
        hand_evaluation.evaluate(facts[OBS_OWN : OBS_OWN + 1], held)
        update_view(knowledge)
        tables = ns if facts[OBS_SEAT] % 2 == 0 else ew
        found[row], _, _ = match_rules(tables, knowledge, held[0], NO_CALL)
