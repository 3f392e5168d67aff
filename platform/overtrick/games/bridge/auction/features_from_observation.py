"""Compute network features and the calls of bidding systems from observations of the auction game.

An observation contains all calls so far. The auction is replayed, and every call is interpreted by
the bidding system of the caller's side.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.features import WIDTH, write_features
from overtrick.games.bridge.auction_rules import LONGEST_AUCTION, NEXT_SEAT
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.auction_simulation import knowledge_for
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.public_knowledge import open_auction, update_view
from overtrick.games.bridge.system.rule_matching import NO_CALL, hear_call, match_rules


def features_before_call(observation: Array, ns: System, ew: System) -> Array:
    """Return the network features (R, 1284) float32 of the seats to call at observations (R, K).

    ns, ew: the bidding systems by which the calls of each side are interpreted.
    """
    rows = np.arange(len(observation))
    return features_after_call(observation, rows, np.full(len(rows), -1), ns, ew)


def features_after_call(
    observation: Array, row: Array, call: Array, ns: System, ew: System
) -> Array:
    """Return the network features (D, 1284) float32 after one more call in each of D auctions.

    The features are as seen by the seat that makes the call.

    observation: (R, K) observations before the calls.
    row: (D,) index of the observation at which each call is made.
    call: (D,) the calls; -1 adds no call and returns the features at the observation.
    ns, ew: the bidding systems by which the calls of each side are interpreted.
    """
    features = np.empty((len(row), WIDTH), np.float32)
    chosen = np.ascontiguousarray(observation[row]), np.ascontiguousarray(call, np.int64)
    _write_features(*chosen, ns.tables, ew.tables, knowledge_for(ns, ew), features)
    return features


def system_calls(observation: Array, ns: System, ew: System) -> Array:
    """Return the call (R,) of the caller's bidding system at each observation (R, K).

    ns, ew: the bidding systems of North-South and East-West.
    """
    calls = np.empty(len(observation), np.int64)
    rows = np.ascontiguousarray(observation)
    _choose_calls(rows, ns.tables, ew.tables, knowledge_for(ns, ew), calls)
    return calls


def calls_made(observation: Array) -> Array:
    """Return the number (R,) of calls in the auction before each observation (R, K)."""
    counts = np.empty(len(observation), np.int64)
    _count_calls(np.ascontiguousarray(observation), counts)
    return counts


@njit(cache=True)
def _count_calls(observation, counts):  # type: ignore[no-untyped-def]
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for row in range(len(observation)):
        counts[row] = obs.write_calls(observation[row], calls)


@njit(cache=True)
def _replay(observation, call, ns, ew, knowledge):  # type: ignore[no-untyped-def]
    """Replay the auction of one observation (K,), and write what its calls show to `knowledge`.

    call: one more call to replay, made by the seat to call; -1 for none. ns, ew: SystemTables, the
    compiled bidding system of each side. knowledge: PublicKnowledge to overwrite.
    """
    calls = np.empty(LONGEST_AUCTION, np.int64)
    open_auction(knowledge, observation[obs.DEALER], observation[obs.VULNERABLE])
    count = obs.write_calls(observation, calls)
    if call >= 0:
        calls[count] = call
        count += 1
    for each in calls[:count]:
        hear_call(ns if knowledge.auction[NEXT_SEAT] % 2 == 0 else ew, knowledge, each)


@njit(cache=True)
def _write_features(observation, call, ns, ew, knowledge, out):  # type: ignore[no-untyped-def]
    for row in range(len(observation)):
        seen = observation[row]
        _replay(seen, call[row], ns, ew, knowledge)
        write_features(knowledge, seen[obs.OWN], seen[obs.SEAT], seen[obs.DEALER], out[row])


@njit(cache=True)
def _choose_calls(observation, ns, ew, knowledge, out):  # type: ignore[no-untyped-def]
    held = np.zeros((1, hand_evaluation.WIDTH), np.int16)
    for row in range(len(observation)):
        seen = observation[row]
        _replay(seen, -1, ns, ew, knowledge)
        update_view(knowledge)
        hand_evaluation.evaluate(seen[obs.OWN : obs.OWN + 1], held)
        tables = ns if seen[obs.SEAT] % 2 == 0 else ew
        out[row], _, _ = match_rules(tables, knowledge, held[0], NO_CALL)
