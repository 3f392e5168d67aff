"""The bidder and the explainer of a bidding system: the same rules choose a call and read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, ray_metrics
from overtrick.games.bridge.auction_rules import CALL_COUNT, NEXT_SEAT, PASS, auction_over
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.compiler import RULE
from overtrick.games.bridge.system.explanation import Meaning, describe_meaning
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.public_knowledge import PROMISED, SHOWN, look, sit, table
from overtrick.games.bridge.system.rule_matching import NO_RULE, choose, learn, scratch, tools

MAX_CALLS = 64  # calls of an auction that are kept


class ReplayedAuctions(NamedTuple):
    """What two systems say of the calls of G auctions (G, L); NO_RULE and 0 after their ends."""

    calls: Array  # (G, L) int8 what the hand's own system calls there
    rule: Array  # (G, L) int32 by which rule of System.rules
    read: Array  # (G, L) int32 the rule by which the real call is read, NO_RULE if it is none
    true: Array  # (G, L) bool: the hand has the points and lengths that its calls so far show
    width: Array  # (G, L) int16 numbers of honour points that they leave


def bid_auctions(hands: Array, dealer: Array, vulnerable: Array, ns: System, ew: System) -> Array:
    """(G, 64) int8 the auctions that two systems bid, -1 after their ends.

    hands: (G, 4) sets of cards. dealer: (G,) as a number of NESW. vulnerable: (G,) of None NS EW
    All. An auction that has not ended after 64 calls is closed by passes.
    """
    calls = np.full((len(hands), MAX_CALLS), -1, np.int8)
    _bid(*asked(hands, dealer, vulnerable, ns, ew), *tools(), calls)
    ray_metrics.count_games(len(hands))
    return calls


def replay_auctions(
    hands: Array, dealer: Array, vulnerable: Array, calls: Array, ns: System, ew: System
) -> ReplayedAuctions:
    """What the systems of both sides say of lawful auctions (G, L), padded with -1."""
    shape = calls.shape
    found = ReplayedAuctions(
        np.full(shape, -1, np.int8), np.full(shape, NO_RULE, np.int32),
        np.full(shape, NO_RULE, np.int32), np.zeros(shape, np.bool_), np.zeros(shape, np.int16),
    )  # fmt: skip
    _follow(*asked(hands, dealer, vulnerable, ns, ew), *tools(), np.asarray(calls), found)
    return found


def call_meanings(
    calls: Sequence[int], dealer: int, vulnerable: int, ns: System, ew: System
) -> list[Meaning]:
    """What each call of a lawful auction promises, by the system of its side."""
    at, (fields, limits) = table(), tools()[1:]
    sit(at, dealer, vulnerable, limits)
    room = scratch(limits, max(len(each.tables.rule) for each in (ns, ew)))
    held = np.zeros(hand_evaluation.WIDTH, np.int16)
    found = []
    for made in calls:
        seat = int(at.now[NEXT_SEAT])
        system = (ns, ew)[seat % 2]
        look(at, fields, room[0])
        _, _, row = choose(system.tables, at, room[0], held, False, made, *room[1:], limits)
        rule = None if row < 0 else system.rules[system.tables.rule[row, RULE]]
        learn(system.tables, at, seat, made, row, *room[3:])
        lo, hi = room[3][PROMISED].copy(), room[4][PROMISED].copy()
        found.append(Meaning(made, rule, lo, hi, at.said[seat].copy()))
    return found


def explain_calls(
    calls: Sequence[int], dealer: int, vulnerable: int, ns: System, ew: System
) -> list[str]:
    """A line in words for each call of a lawful auction."""
    return [describe_meaning(each) for each in call_meanings(calls, dealer, vulnerable, ns, ew)]


def asked(hands: Array, dealer: Array, vulnerable: Array, ns: System, ew: System) -> Any:
    whole = (np.ascontiguousarray(each, np.int64) for each in (hands, dealer, vulnerable))
    return *whole, ns.tables, ew.tables


@njit(cache=True)
def _bid(hands, dealer, vulnerable, ns, ew, table, fields, limits, calls):  # type: ignore[no-untyped-def]
    held = np.zeros((4, limits.shape[1]), np.int16)
    rules = max(len(ns.rule), len(ew.rule))
    view, owner, matched, lo, hi = scratch(limits, rules)
    for game in range(len(hands)):
        sit(table, dealer[game], vulnerable[game], limits)
        hand_evaluation.evaluate(hands[game], held)
        while not auction_over(table.now) and table.now[CALL_COUNT] < calls.shape[1]:
            seat = table.now[NEXT_SEAT]
            tables = ns if seat % 2 == 0 else ew
            look(table, fields, view)
            made, fit, row = choose(
                tables, table, view, held[seat], True, -1, owner, matched, lo, hi, limits
            )
            if table.now[CALL_COUNT] >= calls.shape[1] - 4:
                made, fit = PASS, NO_RULE
            if fit < 0:  # a pass that no rule makes is read as any other
                _, _, row = choose(
                    tables, table, view, held[seat], False, made, owner, matched, lo, hi, limits
                )
            calls[game, table.now[CALL_COUNT]] = made
            learn(tables, table, seat, made, row, lo, hi)


@njit(cache=True)
def _follow(hands, dealer, vulnerable, ns, ew, table, fields, limits, calls, found):  # type: ignore[no-untyped-def]
    held = np.zeros((4, limits.shape[1]), np.int16)
    rules = max(len(ns.rule), len(ew.rule))
    view, owner, matched, lo, hi = scratch(limits, rules)
    for game in range(len(hands)):
        sit(table, dealer[game], vulnerable[game], limits)
        hand_evaluation.evaluate(hands[game], held)
        for at in range(calls.shape[1]):
            real = calls[game, at]
            if real < 0:
                break
            seat = table.now[NEXT_SEAT]
            tables = ns if seat % 2 == 0 else ew
            look(table, fields, view)
            mine = held[seat]
            made, fit, row = choose(
                tables, table, view, mine, True, -1, owner, matched, lo, hi, limits
            )
            found.calls[game, at] = made
            found.rule[game, at] = tables.rule[fit, RULE] if fit >= 0 else NO_RULE
            if made != real or fit < 0:
                _, _, row = choose(
                    tables, table, view, mine, False, real, owner, matched, lo, hi, limits
                )
            found.read[game, at] = tables.rule[row, RULE] if row >= 0 else NO_RULE
            learn(tables, table, seat, real, row, lo, hi)
            least, most = table.lo[SHOWN, seat], table.hi[SHOWN, seat]
            found.width[game, at] = most[hand_evaluation.HCP] - least[hand_evaluation.HCP] + 1
            found.true[game, at] = (
                least[hand_evaluation.HCP] <= mine[hand_evaluation.HCP] <= most[hand_evaluation.HCP]
            )
            for field in range(hand_evaluation.LENGTH, hand_evaluation.LENGTH + 4):
                if not least[field] <= mine[field] <= most[field]:
                    found.true[game, at] = False
