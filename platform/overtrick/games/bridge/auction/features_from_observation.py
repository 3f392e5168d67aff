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
from overtrick.games.bridge.auction_rules import NEXT_SEAT
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
    """Return the arguments of `_write_features` and `_choose_calls`, all except the output array.

    They are, in this order: an order of the auctions, observations, calls, the rule tables of both
    sides, public knowledge, and buffers. observation: (R, K). call: (R,) one more call after each
    observation, made by the seat to call; -1 for none. ns, ew: the bidding system of each side.
    """
    rows = np.ascontiguousarray(observation)
    longest = int(calls_made(rows).max(initial=0)) + 1
    calls = np.full((len(rows), longest), -1, np.int64)
    _write_calls(rows, np.ascontiguousarray(call, np.int64), calls)
    knowledge = knowledge_for(ns, ew)
    order = _prefix_order(calls, rows)
    return order, rows, calls, ns.tables, ew.tables, knowledge, _new_replay(knowledge, longest)


@njit(cache=True)
def _count_calls(observation, counts):  # type: ignore[no-untyped-def]
    calls = np.empty(obs.MAX_CALLS, np.int64)
    for row in range(len(observation)):
        counts[row] = obs.write_calls(observation[row], calls)


class _ReplayedAuction(NamedTuple):
    """Public knowledge after 0, 1, ... calls of the auction that was replayed last.

    The next replay starts after the calls that both auctions share. `PublicKnowledge.calls` is not
    stored, because it still holds these calls. The other fields that are missing are buffers.
    """

    start: Array  # (2,) int64 dealer and vulnerability; -1 before the first auction
    length: Array  # (1,) int64 number of calls
    auction: Array  # (calls + 1, ...) as in PublicKnowledge, like the fields below
    context: Array
    lo: Array
    hi: Array
    meaning: Array
    call_counts: Array
    passed: Array


def _new_replay(knowledge: PublicKnowledge, longest: int) -> _ReplayedAuction:
    """Allocate room for auctions with at most `longest` calls; none is replayed yet."""
    fields = (getattr(knowledge, name) for name in _ReplayedAuction._fields[2:])
    stacks = (np.empty((longest + 1, *own.shape), own.dtype) for own in fields)
    return _ReplayedAuction(np.full(2, -1, np.int64), np.zeros(1, np.int64), *stacks)


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
def _replay(start, calls, ns, ew, knowledge, last):  # type: ignore[no-untyped-def]
    """Replay the calls (L,) of one auction, padded with -1; write what they show to `knowledge`.

    start: (2,) dealer and vulnerability. ns, ew: SystemTables, the compiled bidding system of each
    side. knowledge: PublicKnowledge to overwrite. last: _ReplayedAuction, replaced by this auction.
    """
    depth = 0
    if last.start[0] == start[0] and last.start[1] == start[1]:
        common = min(len(calls), last.length[0])
        while depth < common and calls[depth] == knowledge.calls[depth]:
            depth += 1
        knowledge.auction[:] = last.auction[depth]
        knowledge.context[:] = last.context[depth]
        knowledge.lo[:] = last.lo[depth]
        knowledge.hi[:] = last.hi[depth]
        knowledge.meaning[:] = last.meaning[depth]
        knowledge.call_counts[:] = last.call_counts[depth]
        knowledge.passed[:] = last.passed[depth]
    else:
        open_auction(knowledge, start[0], start[1])
        last.start[:] = start
        _store(knowledge, last, 0)
    while depth < len(calls) and calls[depth] >= 0:
        hear_call(ns if knowledge.auction[NEXT_SEAT] % 2 == 0 else ew, knowledge, calls[depth])
        depth += 1
        _store(knowledge, last, depth)
    last.length[0] = depth


@njit(cache=True)
def _store(knowledge, last, depth):  # type: ignore[no-untyped-def]
    """Store public knowledge in a _ReplayedAuction as that after `depth` calls."""
    last.auction[depth] = knowledge.auction
    last.context[depth] = knowledge.context
    last.lo[depth] = knowledge.lo
    last.hi[depth] = knowledge.hi
    last.meaning[depth] = knowledge.meaning
    last.call_counts[depth] = knowledge.call_counts
    last.passed[depth] = knowledge.passed


@njit(cache=True)
def _write_features(order, observation, calls, ns, ew, knowledge, last, out):  # type: ignore[no-untyped-def]
    for row in order:
        seen = observation[row]
        _replay(seen[obs.DEALER : obs.VULNERABLE + 1], calls[row], ns, ew, knowledge, last)
        write_features(knowledge, seen[obs.OWN], seen[obs.SEAT], seen[obs.DEALER], out[row])


@njit(cache=True)
def _choose_calls(order, observation, calls, ns, ew, knowledge, last, out):  # type: ignore[no-untyped-def]
    held = np.zeros((1, hand_evaluation.WIDTH), np.int16)
    for row in order:
        seen = observation[row]
        _replay(seen[obs.DEALER : obs.VULNERABLE + 1], calls[row], ns, ew, knowledge, last)
        update_view(knowledge)
        hand_evaluation.evaluate(seen[obs.OWN : obs.OWN + 1], held)
        tables = ns if seen[obs.SEAT] % 2 == 0 else ew
        out[row], _, _ = match_rules(tables, knowledge, held[0], NO_CALL)
