"""Simulate auctions between bidding systems, replay recorded auctions, and explain calls."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.random import default_rng

from overtrick.core import Array, ray_metrics
from overtrick.games.bridge.auction_rules import (
    BIDS,
    CALL_COUNT,
    CALLS,
    NEXT_SEAT,
    PASS,
    auction_over,
    is_legal_call,
)
from overtrick.games.bridge.cards import hand_bits, random_deals
from overtrick.games.bridge.system import hand_evaluation, rule_matching
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.bidding_system import System
from overtrick.games.bridge.system.compiler import (
    FIELD,
    HEARD,
    HIGHEST,
    MEANING,
    RARE,
    RULE,
    TESTS,
    TESTS_END,
)
from overtrick.games.bridge.system.explanation import HandType, Meaning, describe_meaning
from overtrick.games.bridge.system.hand_evaluation import HCP, LENGTH
from overtrick.games.bridge.system.hand_terms import UNBOUNDED
from overtrick.games.bridge.system.parser import Rule
from overtrick.games.bridge.system.rule_matching import (
    MUST_BID,
    NO_CALL,
    NO_RULE,
    hear_call,
    match_rules,
)

FORCED = public.VIEW["forced"]
GAME_FORCED, PARTNER_FORCES, DOUBLE_FORCES = 1, 2, 3
SAMPLED_DEALS, FEWEST_HANDS = 10_000, 50  # of `possible_calls`
MAX_CALLS = 64  # maximum number of calls in auctions of `bid_auctions`


class ReplayedAuctions(NamedTuple):
    """Comparison of G recorded auctions, of up to L calls, with the rules of bidding systems.

    Every array (G, L) has an entry for each recorded call:

    - `calls`: the call that the caller's system makes with the caller's hand
    - `rule`: the rule that makes the system's call, as an index in System.rules
    - `read`: the rule by which the other players interpret the recorded call, as an index
    - `true`: whether the caller's high-card points and suit lengths lie in the ranges that the
      recorded calls show, up to this call
    - `width`: the number of possible values of the caller's high-card points after these calls
    """

    calls: Array  # (G, L) int8; -1 after the end of the auction
    rule: Array  # (G, L) int32; NO_RULE if no rule fits, and after the end of the auction
    read: Array  # (G, L) int32; NO_RULE if no rule fits, and after the end of the auction
    true: Array  # (G, L) bool; false after the end of the auction
    width: Array  # (G, L) int16; 0 after the end of the auction


class TracedAuctions(NamedTuple):
    """G auctions of up to L calls that two bidding systems bid.

    - `calls`: the calls
    - `rule`: the rule that made the call, as an index in System.rules of the caller's system
    - `read`: the rule by which the other players interpret the call, as such an index
    - `forced`: why the caller must bid: PARTNER_FORCES or DOUBLE_FORCES after partner's forcing bid
      or double and a pass; else GAME_FORCED if the side is forced to game and a pass could end the
      auction without one; else 0
    """

    calls: Array  # (G, L) int8; -1 after the end of the auction
    rule: Array  # (G, L) int32; NO_RULE if no rule fits, and after the end of the auction
    read: Array  # (G, L) int32; NO_RULE if no rule fits, and after the end of the auction
    forced: Array  # (G, L) int8; 0 after the end of the auction


def bid_auctions(hands: Array, dealer: Array, vulnerable: Array, ns: System, ew: System) -> Array:
    """Bid G deals by two bidding systems; return the calls (G, 64) int8, padded with -1.

    hands: (G, 4) card bit masks. dealer: (G,) seat, in the order NESW. vulnerable: (G,) 0 None, 1
    NS, 2 EW, 3 All. ns, ew: the bidding system of each side. From call 61 on, all players pass.
    """
    return trace_auctions(hands, dealer, vulnerable, ns, ew).calls


def trace_auctions(
    hands: Array, dealer: Array, vulnerable: Array, ns: System, ew: System
) -> TracedAuctions:
    """Bid deals as `bid_auctions` does, and return the rule and the force of each call."""
    shape = len(hands), MAX_CALLS
    traced = TracedAuctions(
        np.full(shape, -1, np.int8), np.full(shape, NO_RULE, np.int32),
        np.full(shape, NO_RULE, np.int32), np.zeros(shape, np.int8),
    )  # fmt: skip
    _bid(*kernel_arguments(hands, dealer, vulnerable, ns, ew), traced)
    ray_metrics.count_games(len(hands))
    return traced


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
    calls: Sequence[int],
    dealer: int,
    vulnerable: int,
    ns: System,
    ew: System,
    places: Container[int] | None = None,
) -> list[Meaning]:
    """Return the meaning of each call of one legal auction, by the system of the caller's side.

    dealer: seat. vulnerable: 0 None, 1 NS, 2 EW, 3 All. ns, ew: the bidding system of each side.
    places: indices of the calls whose kinds of hands are needed; other calls get none. None: all.
    """
    knowledge = knowledge_for(ns, ew)
    public.open_auction(knowledge, dealer, vulnerable)
    meanings = []
    most_points = np.full(4, public.LIMITS[1, HCP])  # by seat, of its own calls so far
    for at, call in enumerate(calls):
        seat = int(knowledge.auction[NEXT_SEAT])
        system = (ns, ew)[seat % 2]
        lowest = knowledge.lo[public.PROMISED, seat].copy()
        highest = knowledge.hi[public.PROMISED, seat].copy()
        highest[HCP] = most_points[seat]  # not what follows from the points of the other hands
        widest = knowledge.lo[public.SHOWN, seat].copy(), knowledge.hi[public.SHOWN, seat].copy()
        knowledge.matched[:] = NO_RULE
        row = hear_call(system.tables, knowledge, call)
        rule = None if row < 0 else system.rules[system.tables.rule[row, RULE]]
        lo, hi = (each[public.PROMISED].copy() for each in (knowledge.call_lo, knowledge.call_hi))
        hands, stretched = tuple[HandType, ...](), tuple[HandType, ...]()
        if places is None or at in places:
            hands, stretched = _hand_types(system, knowledge, (lowest, highest), widest, call)
        said = knowledge.meaning[seat].copy()
        meanings.append(Meaning(call, rule, lo, hi, said, hands, stretched))
        most_points[seat] = min(most_points[seat], hi[HCP])
    return meanings


def _hand_types(
    system: System,
    knowledge: public.PublicKnowledge,
    known: tuple[Array, Array],
    widest: tuple[Array, Array],
    call: int,
) -> tuple[tuple[HandType, ...], tuple[HandType, ...]]:
    """Return the kinds of hands of the rules that make a call, and those of players who stretch it.

    The latter are of the rules of kind `heard`, then of all others. Rules of kind `rare` are left
    out, and rules whose points contradict the caller's earlier calls, unless there is no other.

    known: lowest and highest values (H,) of the hand features that the caller promised before.
    widest: likewise those that the caller showed, which include stretched calls. knowledge: state
    after `hear_call` of the call.
    """
    tables = system.tables
    rows = knowledge.matched[knowledge.matched[:, 1] == call, 0]
    rows = rows[rows != NO_RULE]
    heard, rare = tables.rule[rows, HEARD] == 1, tables.rule[rows, RARE] == 1
    usual = rows[~heard & ~rare]
    usual = usual if len(usual) else rows[~heard]
    types = []
    for part, earlier in ((usual, known), (np.concatenate([rows[heard], usual]), widest)):
        found = [_hand_type(system, knowledge, earlier, row) for row in part]
        least, most = earlier[0][HCP], earlier[1][HCP]
        possible = [each for each in found if each.lo[HCP] <= most and each.hi[HCP] >= least]
        types.append(tuple(possible or found))
    return types[0], types[1]


def _hand_type(
    system: System, knowledge: public.PublicKnowledge, known: tuple[Array, Array], row: int
) -> HandType:
    """Return the ranges of one rule, limited by what the caller promised before.

    A range that contradicts the earlier calls is not limited. The arguments are as in
    `_hand_types`, and a row of SystemTables.rule.
    """
    tables = system.tables
    ranges = rule_matching.rule_ranges(tables, row, knowledge)
    lo, hi = np.maximum(ranges[0], known[0]), np.minimum(ranges[1], known[1])
    contradicted = lo > hi
    lo[contradicted], hi[contradicted] = ranges[0][contradicted], ranges[1][contradicted]
    public.tighten_ranges(lo, hi)
    named, capped = np.zeros((2, hand_evaluation.WIDTH), np.bool_)
    tests = tables.test[tables.rule[row, TESTS] : tables.rule[row, TESTS_END]]
    named[tests[:, FIELD]] = True
    capped[tests[tests[:, HIGHEST] < UNBOUNDED, FIELD]] = True
    said = tables.rule[row, MEANING : MEANING + public.MEANING_WIDTH].copy()
    return HandType(system.rules[tables.rule[row, RULE]], lo, hi, named, capped, said)


def possible_calls(
    calls: Sequence[int], dealer: int, vulnerable: int, ns: System, ew: System
) -> list[int]:
    """Return the calls that the system of the seat to call makes after an auction, in call order.

    Random hands of SAMPLED_DEALS deals are tried that make the seat's earlier calls. If fewer than
    FEWEST_HANDS do, every legal call counts that a rule makes.

    The arguments are as in `call_meanings`.
    """
    knowledge = knowledge_for(ns, ew)
    public.open_auction(knowledge, dealer, vulnerable)
    seat = (dealer + len(calls)) % 4
    tables = (ns, ew)[seat % 2].tables
    fields = _sample_fields()
    contradictions = np.zeros(len(fields), np.int64)
    for call in calls:
        caller = int(knowledge.auction[NEXT_SEAT])
        public.update_view(knowledge)
        if caller == seat:
            rule_matching.add_contradictions(tables, knowledge, fields, call, contradictions)
        hear_call((ns, ew)[caller % 2].tables, knowledge, call)
    public.update_view(knowledge)
    made = np.zeros(len(CALLS), np.int64)
    rule_matching.count_calls(tables, knowledge, fields[contradictions == 0], made)
    if (contradictions == 0).sum() >= FEWEST_HANDS:
        return np.flatnonzero(made).tolist()
    legal = [call for call in range(len(CALLS)) if is_legal_call(knowledge.auction, call)]
    pair = dealer, vulnerable, ns, ew
    return [call for call in legal if call_meanings([*calls, call], *pair)[-1].hands]


@cache
def _sample_fields() -> Array:
    """Return the features (N, H) of the hands of random deals."""
    hands = hand_bits(random_deals(SAMPLED_DEALS, default_rng(0))).reshape(-1)
    return hand_evaluation.hand_fields(hands)


def rule_for_hand(
    cards: int, calls: Sequence[int], dealer: int, vulnerable: int, ns: System, ew: System
) -> Rule | None:
    """Return the rule by which a hand makes its next call; None if it fits no rule.

    cards: the hand as a bit mask. The other arguments are as in `call_meanings`.
    """
    knowledge = knowledge_for(ns, ew)
    public.open_auction(knowledge, dealer, vulnerable)
    for call in calls:
        hear_call((ns, ew)[int(knowledge.auction[NEXT_SEAT]) % 2].tables, knowledge, call)
    system = (ns, ew)[int(knowledge.auction[NEXT_SEAT]) % 2]
    public.update_view(knowledge)
    (fields,) = hand_evaluation.hand_fields(np.array([cards], np.int64))
    _, row, _ = match_rules(system.tables, knowledge, fields, NO_CALL)
    return None if row < 0 else system.rules[system.tables.rule[row, RULE]]


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
def _bid(hands, dealer, vulnerable, ns, ew, knowledge, traced):  # type: ignore[no-untyped-def]
    held = np.zeros((4, hand_evaluation.WIDTH), np.int16)
    auction = knowledge.auction
    for game in range(len(hands)):
        public.open_auction(knowledge, dealer[game], vulnerable[game])
        hand_evaluation.evaluate(hands[game], held)
        while not auction_over(auction) and auction[CALL_COUNT] < traced.calls.shape[1]:
            at, seat = auction[CALL_COUNT], auction[NEXT_SEAT]
            tables = ns if seat % 2 == 0 else ew
            public.update_view(knowledge)
            call, fit, row = match_rules(tables, knowledge, held[seat], NO_CALL)
            if at >= traced.calls.shape[1] - 4:
                call, fit = PASS, NO_RULE
            if fit < 0:  # a pass without a rule is interpreted like any other pass
                _, _, row = match_rules(tables, knowledge, held[seat], call)
            traced.calls[game, at] = call
            traced.rule[game, at] = tables.rule[fit, RULE] if fit >= 0 else NO_RULE
            traced.read[game, at] = tables.rule[row, RULE] if row >= 0 else NO_RULE
            if knowledge.seat_view[FORCED]:
                bid = knowledge.calls[at - 2] < BIDS
                traced.forced[game, at] = PARTNER_FORCES if bid else DOUBLE_FORCES
            elif knowledge.seat_view[MUST_BID]:
                traced.forced[game, at] = GAME_FORCED
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
