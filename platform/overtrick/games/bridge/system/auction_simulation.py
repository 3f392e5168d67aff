"""Simulate auctions between bidding systems, replay recorded auctions, and explain calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, ray_metrics
from overtrick.games.bridge.auction_rules import CALL_COUNT, NEXT_SEAT, PASS, auction_over
from overtrick.games.bridge.system import hand_evaluation, rule_matching
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.compiler import RULE
from overtrick.games.bridge.system.explanation import Meaning, describe_meaning
from overtrick.games.bridge.system.hand_evaluation import HCP, LENGTH
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.rule_matching import NO_CALL, NO_RULE, hear_call, match_rules

MAX_CALLS = 64  # maximum number of calls in auctions of `bid_auctions`


class ReplayedAuctions(NamedTuple):
    """Comparison of G recorded auctions, of up to L calls, with the rules of bidding systems.

    Every array (G, L) has an entry for each recorded call:

    - `calls`: the call that the caller's system makes with the caller's hand
    - `rule`: the rule that makes the system's call, as an index in System.rules
    - `read`: the rule by which the other players interpret the recorded call, as an index
    - `true`: whether the caller's high-card points and suit lengths agree with the ranges that the
      caller's recorded calls show, up to this call
    - `width`: the number of possible values of the caller's high-card points after these calls
    """

    calls: Array  # (G, L) int8; -1 after the end of the auction
    rule: Array  # (G, L) int32; NO_RULE if no rule fits, and after the end of the auction
    read: Array  # (G, L) int32; NO_RULE if no rule fits, and after the end of the auction
    true: Array  # (G, L) bool; false after the end of the auction
    width: Array  # (G, L) int16; 0 after the end of the auction


def bid_auctions(hands: Array, dealer: Array, vulnerable: Array, ns: System, ew: System) -> Array:
    """Bid G deals by two bidding systems; return the calls (G, 64) int8, padded with -1.

    hands: (G, 4) card bit masks. dealer: (G,) seat, in the order NESW. vulnerable: (G,) 0 None, 1
    NS, 2 EW, 3 All. ns, ew: the bidding system of each side. From call 61 on, all players pass.
    """
    calls = np.full((len(hands), MAX_CALLS), -1, np.int8)
    _bid(*kernel_arguments(hands, dealer, vulnerable, ns, ew), calls)
    ray_metrics.count_games(len(hands))
    return calls


def replay_auctions(
    hands: Array, dealer: Array, vulnerable: Array, calls: Array, ns: System, ew: System
) -> ReplayedAuctions:
    """Compare each recorded call with the call that the caller's bidding system makes.

    The system chooses its call after the recorded earlier calls, not after its own. Each recorded
    call is interpreted by the system of its caller.

    calls: (G, L) legal calls, padded with -1. The other arguments are as in `bid_auctions`.
    """
    shape = calls.shape
    replayed = ReplayedAuctions(
        np.full(shape, -1, np.int8), np.full(shape, NO_RULE, np.int32),
        np.full(shape, NO_RULE, np.int32), np.zeros(shape, np.bool_), np.zeros(shape, np.int16),
    )  # fmt: skip
    _replay(*kernel_arguments(hands, dealer, vulnerable, ns, ew), np.asarray(calls), replayed)
    return replayed


def call_meanings(
    calls: Sequence[int], dealer: int, vulnerable: int, ns: System, ew: System
) -> list[Meaning]:
    """Return the meaning of each call of one legal auction, by the system of the caller's side.

    dealer: seat. vulnerable: 0 None, 1 NS, 2 EW, 3 All. ns, ew: the bidding system of each side.
    """
    knowledge = knowledge_for(ns, ew)
    public.open_auction(knowledge, dealer, vulnerable)
    meanings = []
    for call in calls:
        seat = int(knowledge.auction[NEXT_SEAT])
        system = (ns, ew)[seat % 2]
        row = hear_call(system.tables, knowledge, call)
        rule = None if row < 0 else system.rules[system.tables.rule[row, RULE]]
        lo, hi = (each[public.PROMISED].copy() for each in (knowledge.call_lo, knowledge.call_hi))
        meanings.append(Meaning(call, rule, lo, hi, knowledge.meaning[seat].copy()))
    return meanings


def explain_calls(
    calls: Sequence[int], dealer: int, vulnerable: int, ns: System, ew: System
) -> list[str]:
    """Explain each call of one legal auction in one line of words.

    The arguments are as in `call_meanings`.
    """
    return [describe_meaning(each) for each in call_meanings(calls, dealer, vulnerable, ns, ew)]


def knowledge_for(ns: System, ew: System) -> public.PublicKnowledge:
    """Allocate the PublicKnowledge (state of one auction) for auctions with two bidding systems.

    Its buffers are large enough for the rules of either system.
    """
    return public.new_knowledge(max(len(ns.tables.rule), len(ew.tables.rule)))


def kernel_arguments(
    hands: Array, dealer: Array, vulnerable: Array, ns: System, ew: System
) -> tuple[Any, ...]:
    """Return the leading arguments of the compiled functions that simulate or replay auctions.

    They are `hands`, `dealer` and `vulnerable` as int64, the SystemTables of both bidding systems,
    and a new PublicKnowledge.
    """
    arrays = (np.ascontiguousarray(each, np.int64) for each in (hands, dealer, vulnerable))
    return *arrays, ns.tables, ew.tables, knowledge_for(ns, ew)


@njit(cache=True)
def _bid(hands, dealer, vulnerable, ns, ew, knowledge, calls):  # type: ignore[no-untyped-def]
    held = np.zeros((4, hand_evaluation.WIDTH), np.int16)
    auction = knowledge.auction
    for game in range(len(hands)):
        public.open_auction(knowledge, dealer[game], vulnerable[game])
        hand_evaluation.evaluate(hands[game], held)
        while not auction_over(auction) and auction[CALL_COUNT] < calls.shape[1]:
            seat = auction[NEXT_SEAT]
            tables = ns if seat % 2 == 0 else ew
            public.update_view(knowledge)
            call, fit, row = match_rules(tables, knowledge, held[seat], NO_CALL)
            if auction[CALL_COUNT] >= calls.shape[1] - 4:
                call, fit = PASS, NO_RULE
            if fit < 0:  # a pass without a rule is interpreted like any other pass
                _, _, row = match_rules(tables, knowledge, held[seat], call)
            calls[game, auction[CALL_COUNT]] = call
            rule_matching.update_knowledge(tables, knowledge, call, row)


@njit(cache=True)
def _replay(hands, dealer, vulnerable, ns, ew, knowledge, calls, replayed):  # type: ignore[no-untyped-def]
    held = np.zeros((4, hand_evaluation.WIDTH), np.int16)
    for game in range(len(hands)):
        public.open_auction(knowledge, dealer[game], vulnerable[game])
        hand_evaluation.evaluate(hands[game], held)
        for at in range(calls.shape[1]):
            recorded = calls[game, at]
            if recorded < 0:
                break
            seat = knowledge.auction[NEXT_SEAT]
            hand, tables = held[seat], ns if seat % 2 == 0 else ew
            public.update_view(knowledge)
            call, fit, row = match_rules(tables, knowledge, hand, NO_CALL)
            replayed.calls[game, at] = call
            replayed.rule[game, at] = tables.rule[fit, RULE] if fit >= 0 else NO_RULE
            if call != recorded or fit < 0:
                _, _, row = match_rules(tables, knowledge, hand, recorded)
            replayed.read[game, at] = tables.rule[row, RULE] if row >= 0 else NO_RULE
            rule_matching.update_knowledge(tables, knowledge, recorded, row)
            lo, hi = knowledge.lo[public.SHOWN, seat], knowledge.hi[public.SHOWN, seat]
            replayed.width[game, at] = hi[HCP] - lo[HCP] + 1
            replayed.true[game, at] = lo[HCP] <= hand[HCP] <= hi[HCP]
            for field in range(LENGTH, LENGTH + 4):
                if not lo[field] <= hand[field] <= hi[field]:
                    replayed.true[game, at] = False
