"""Count, for possible deals, the calls of an auction that the bidding systems would not make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import NEXT_SEAT
from overtrick.games.bridge.system import auction_simulation, hand_evaluation, rule_matching
from overtrick.games.bridge.system import public_knowledge as public
from overtrick.games.bridge.system.bidding_system import System


def count_contradicted_calls(
    hands: Array,
    seats: Sequence[int],
    calls: Sequence[int],
    dealer: int,
    vulnerable: int,
    ns: System,
    ew: System,
) -> Array:
    """Return (W,) for each deal, how many calls of the given seats their systems do not make.

    hands: (W, 4) hands of the four seats in W possible deals, as bit masks. seats: only the calls
    of these seats count. calls: one legal auction, from the dealer's call on. dealer: seat.
    vulnerable: 0 None, 1 NS, 2 EW, 3 All. ns, ew: the bidding system of each side.
    """
    knowledge = auction_simulation.knowledge_for(ns, ew)
    counted = np.isin(np.arange(4), seats)
    contradicted = np.zeros(len(hands), np.int64)
    _count(
        np.ascontiguousarray(hands), counted, np.asarray(calls, np.int64), dealer, vulnerable,
        ns.tables, ew.tables, knowledge, contradicted,
    )  # fmt: skip
    return contradicted


@njit(cache=True)
def _count(hands, counted, calls, dealer, vulnerable, ns, ew, knowledge, contradicted):  # type: ignore[no-untyped-def]
    features = np.empty((4, len(hands), hand_evaluation.WIDTH), np.int16)
    for seat in range(4):
        if counted[seat]:
            hand_evaluation.evaluate(hands[:, seat], features[seat])
    public.open_auction(knowledge, dealer, vulnerable)
    for call in calls:
        seat = knowledge.auction[NEXT_SEAT]
        tables = ns if seat % 2 == 0 else ew
        public.update_view(knowledge)
        if counted[seat]:
            rule_matching.add_contradictions(tables, knowledge, features[seat], call, contradicted)
        rule_matching.hear_call(tables, knowledge, call)
