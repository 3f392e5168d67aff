"""Compute network features and the calls of bidding systems from observations of the auction game.

An observation contains all calls so far. The auction is replayed, and every call is interpreted by
the bidding system of the caller's side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.features import WIDTH, write_features
from overtrick.games.bridge.auction_rules import LONGEST_AUCTION, NEXT_SEAT
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.auction_simulation import knowledge_for
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.public_knowledge import (
    PublicKnowledge,
    open_auction,
    update_view,
)
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
    _write_features(*_replay_arguments(observation[row], call, ns, ew), features)
    return features


def system_calls(observation: Array, ns: System, ew: System) -> Array:
    """Return the call (R,) of the caller's bidding system at each observation (R, K).

    ns, ew: the bidding systems of North-South and East-West.
    """
    chosen, none = np.empty(len(observation), np.int64), np.full(len(observation), -1)
    _choose_calls(*_replay_arguments(observation, none, ns, ew), chosen)
    return chosen


def calls_made(observation: Array) -> Array:
    """Return the number (R,) of calls in the auction before each observation (R, K)."""
    counts = np.empty(len(observation), np.int64)
    _count_calls(np.ascontiguousarray(observation), counts)
    return counts


def _replay_arguments(observation: Array, call: Array, ns: System, ew: System) -> tuple[Any, ...]:
    """Return the arguments of the compiled functions that replay auctions.

    observation: (R, K). call: (R,) one more call after each observation, made by the seat to call;
    -1 for none.
    """
    rows = np.ascontiguousarray(observation)
    longest = int(calls_made(rows).max(initial=0)) + 1
    calls = np.full((len(rows), longest), -1, np.int64)
    _write_calls(rows, np.ascontiguousarray(call, np.int64), calls)
    knowledge = knowledge_for(ns, ew)
    order = _prefix_order(calls, rows)
    return order, rows, calls, ns.tables, ew.tables, knowledge, _replays(knowledge, longest)


@njit(cache=True)
def _count_calls(observation, counts):  # type: ignore[no-untyped-def]
    calls = np.empty(LONGEST_AUCTION, np.int64)
    for row in range(len(observation)):
        counts[row] = obs.write_calls(observation[row], calls)


class _Replays(NamedTuple):
    """Public knowledge after each call of the auction that was replayed last.

    The next auction goes on from the last call that both have in common. Depth d of an array (D,
    ...) is the knowledge after d calls.
    """

    start: Array  # (2,) int64 dealer and vulnerability; -1 before the first auction
    length: Array  # (1,) int64 number of calls
    calls: Array  # (319,) int64
    auction: Array  # (D, ...), and so on: the fields of PublicKnowledge with these names
    context: Array
    lo: Array
    hi: Array
    meaning: Array
    call_counts: Array
    passed: Array


def _replays(knowledge: PublicKnowledge, longest: int) -> _Replays:
    """Allocate the replays of auctions with at most `longest` calls."""
    fields = (getattr(knowledge, name) for name in _Replays._fields[3:])
    stacks = (np.empty((longest + 1, *own.shape), own.dtype) for own in fields)
    calls = np.empty(LONGEST_AUCTION, np.int64)
    return _Replays(np.full(2, -1, np.int64), np.zeros(1, np.int64), calls, *stacks)


def _prefix_order(calls: Array, observation: Array) -> Array:
    """Return an order (R,) of auctions in which those with equal first calls are adjacent.

    calls: (R, L) padded with -1. observation: (R, K).
    """
    starts = observation[:, [obs.DEALER, obs.VULNERABLE]]
    text = np.ascontiguousarray(np.concatenate([starts, calls], axis=1) + 1, np.uint8)
    return text.view(f"S{text.shape[1]}").ravel().argsort(kind="stable")


@njit(cache=True)
def _write_calls(observation, call, out):  # type: ignore[no-untyped-def]
    buffer = np.empty(obs.MAX_CALLS, np.int64)
    for row in range(len(observation)):
        count = obs.write_calls(observation[row], buffer)
        if call[row] >= 0:
            buffer[count] = call[row]
            count += 1
        out[row, :count] = buffer[:count]


@njit(cache=True)
def _replay(start, calls, ns, ew, knowledge, replays):  # type: ignore[no-untyped-def]
    """Replay the calls (L,) of one auction, padded with -1; write what they show to `knowledge`.

    start: (2,) dealer and vulnerability. ns, ew: SystemTables, the compiled bidding system of each
    side. knowledge: PublicKnowledge to overwrite. replays: _Replays of the auction before.
    """
    depth = 0
    if replays.start[0] == start[0] and replays.start[1] == start[1]:
        while (
            depth < min(len(calls), replays.length[0]) and calls[depth] == replays.calls[depth]
        ):  # fmt: skip
            depth += 1
        knowledge.auction[:] = replays.auction[depth]
        knowledge.context[:] = replays.context[depth]
        knowledge.lo[:] = replays.lo[depth]
        knowledge.hi[:] = replays.hi[depth]
        knowledge.meaning[:] = replays.meaning[depth]
        knowledge.call_counts[:] = replays.call_counts[depth]
        knowledge.passed[:] = replays.passed[depth]
    else:
        open_auction(knowledge, start[0], start[1])
        replays.start[:] = start
        _save(knowledge, replays, 0)
    while depth < len(calls) and calls[depth] >= 0:
        hear_call(ns if knowledge.auction[NEXT_SEAT] % 2 == 0 else ew, knowledge, calls[depth])
        replays.calls[depth] = calls[depth]
        depth += 1
        _save(knowledge, replays, depth)
    replays.length[0] = depth


@njit(cache=True)
def _save(knowledge, replays, depth):  # type: ignore[no-untyped-def]
    replays.auction[depth] = knowledge.auction
    replays.context[depth] = knowledge.context
    replays.lo[depth] = knowledge.lo
    replays.hi[depth] = knowledge.hi
    replays.meaning[depth] = knowledge.meaning
    replays.call_counts[depth] = knowledge.call_counts
    replays.passed[depth] = knowledge.passed


@njit(cache=True)
def _write_features(order, observation, calls, ns, ew, knowledge, replays, out):  # type: ignore[no-untyped-def]
    for row in order:
        seen = observation[row]
        _replay(seen[obs.DEALER : obs.VULNERABLE + 1], calls[row], ns, ew, knowledge, replays)
        write_features(knowledge, seen[obs.OWN], seen[obs.SEAT], seen[obs.DEALER], out[row])


@njit(cache=True)
def _choose_calls(order, observation, calls, ns, ew, knowledge, replays, out):  # type: ignore[no-untyped-def]
    held = np.zeros((1, hand_evaluation.WIDTH), np.int16)
    for row in order:
        seen = observation[row]
        _replay(seen[obs.DEALER : obs.VULNERABLE + 1], calls[row], ns, ew, knowledge, replays)
        update_view(knowledge)
        hand_evaluation.evaluate(seen[obs.OWN : obs.OWN + 1], held)
        tables = ns if seen[obs.SEAT] % 2 == 0 else ew
        out[row], _, _ = match_rules(tables, knowledge, held[0], NO_CALL)
