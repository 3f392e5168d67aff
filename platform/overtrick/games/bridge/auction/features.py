"""The general features of an auction: what each player has shown, whatever the system (Zhang et al.
2022, Table 1), and the 1,284 numbers on which a call is decided.

    0  - 51    own hand: by suit C D H S 13 positions: as many of the first 8 as it has cards from
               two to nine, then T J Q K A
    52 - 55    vulnerability: None NS EW All
    56 - 59    dealer, by N E S W
    60 - 63    the seat to call, by N E S W
    64 - 1283  305 numbers a player: the one to call, left-hand opponent, partner, right-hand one

Of one player, in the order of the table (suits S H D C, as there):

    0   cue suit: the suit of the last call, NT S H D C          5
    5   honour points 0 to 40                                    41
    46  total points: with length                                41
    87  adjusted points: with shortness                          41
    128 length of each suit 0 to 13                              4 x 14
    184 strength of each suit: 4 the ace, 2 the king, 1 the queen   4 x 8
    216 control of each suit: unknown, first, second, third round   4 x 4
    232 king of each suit: unknown, yes, no                      4 x 3
    244 status of the bidding, by known.STATUSES                 10
    254 type of the last call, by known.TYPES                    15
    269 slam, by known.SLAMS                                     4
    273 agreed suit: unknown S H D C                             5
    278 aces: unknown, 0 to 4                                    6
    284 kings: unknown, 0 to 4                                   6
    290 key cards: unknown, 0 or 3, 1 or 4, 2 or 5               4
    294 the suit of a king: unknown S H D C                      5
    299 queen of trumps: unknown, yes, no                        3
    302 extra power: unknown, yes, no                            3

A range is coded as 1 / (its numbers) on each of them; "unknown" as a range is every number.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import NEXT_SEAT
from overtrick.games.bridge.system import hand_evaluation
from overtrick.games.bridge.system.auction_simulation import kernel_arguments
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.public_knowledge import (  # fmt: skip
    AGREED,
    POWER,
    SHOWN,
    SLAM,
    STATUS,
    STATUSES,
    SUIT,
    TRUMPS,
    TYPE,
    TYPES,
    VULNERABLE,
    open_auction,
)
from overtrick.games.bridge.system.rule_matching import hear_call

PLAYER_WIDTH, WIDTH = 305, 1284
FIRST_PLAYER = WIDTH - 4 * PLAYER_WIDTH
FIRST_SITUATION = 52
STATUS_AT = 244
TYPE_AT = STATUS_AT + len(STATUSES)
SLAM_AT = TYPE_AT + len(TYPES)
NO_CONTROL = 4


def auction_features(
    hands: Array,
    dealer: Array,
    vulnerable: Array,
    calls: Array,
    ns: System,
    ew: System,
    out: Array | None = None,
    after: bool = False,
) -> Array:
    """(R, 1284) float32 the features before each call of lawful auctions (G, L) padded with -1, in
    their order; R is the number of calls. With after, as who called has them when the call is made.
    out: an array to write them to.

    hands: (G, 4) sets of cards. dealer, vulnerable: (G,) numbers of NESW and None NS EW All. Raises
    ValueError if out has too few rows or another width.
    """
    count = int((np.asarray(calls) >= 0).sum())
    found = np.empty((count, WIDTH), np.float32) if out is None else out[:count]
    if found.shape != (count, WIDTH):
        raise ValueError(f"{count} rows of {WIDTH} numbers do not fit into {found.shape}")
    _rows(*kernel_arguments(hands, dealer, vulnerable, ns, ew), np.asarray(calls), after, found)
    return found


@njit(cache=True)
def _rows(hands, dealer, vulnerable, ns, ew, knowledge, calls, after, out):  # type: ignore[no-untyped-def]
    row = 0
    for game in range(len(hands)):
        open_auction(knowledge, dealer[game], vulnerable[game])
        for call in calls[game]:
            if call < 0:
                break
            seat = knowledge.auction[NEXT_SEAT]
            if not after:
                write_features(knowledge, hands[game, seat], seat, dealer[game], out[row])
            hear_call(ns if seat % 2 == 0 else ew, knowledge, call)
            if after:
                write_features(knowledge, hands[game, seat], seat, dealer[game], out[row])
            row += 1


@njit(cache=True)
def write_features(knowledge, cards, seat, dealer, out):  # type: ignore[no-untyped-def]
    """Write what a seat decides by."""
    out[:] = 0
    for suit in range(4):
        held = (cards >> (13 * suit)) & 8191
        small = 0
        for rank in range(8):
            small += (held >> rank) & 1
        out[13 * suit : 13 * suit + small] = 1
        for rank in range(8, 13):
            out[13 * suit + rank] = (held >> rank) & 1
    out[FIRST_SITUATION + knowledge.context[VULNERABLE]] = 1
    out[FIRST_SITUATION + 4 + dealer] = 1
    out[FIRST_SITUATION + 8 + seat] = 1
    for who in range(4):
        first = FIRST_PLAYER + who * PLAYER_WIDTH
        _player(knowledge, (seat + who) % 4, out[first : first + PLAYER_WIDTH])


@njit(cache=True)
def _player(knowledge, seat, out):  # type: ignore[no-untyped-def]
    """Write what a player has shown."""
    lo, hi, said = knowledge.lo[SHOWN, seat], knowledge.hi[SHOWN, seat], knowledge.meaning[seat]
    if said[SUIT] >= 0:
        out[4 - said[SUIT]] = 1
    _range(lo[hand_evaluation.HCP], hi[hand_evaluation.HCP], out[5:46])
    _range(lo[hand_evaluation.TOTAL], hi[hand_evaluation.TOTAL], out[46:87])
    _range(lo[hand_evaluation.ADJUSTED], hi[hand_evaluation.ADJUSTED], out[87:128])
    a_king = 0
    for k in range(4):
        suit = 3 - k
        length, strength = hand_evaluation.LENGTH + suit, hand_evaluation.STRENGTH + suit
        _range(lo[length], hi[length], out[128 + 14 * k : 142 + 14 * k])
        _range(lo[strength], hi[strength], out[184 + 8 * k : 192 + 8 * k])
        control = hand_evaluation.CONTROL + suit
        if hi[control] < NO_CONTROL:
            _range(lo[control], hi[control], out[216 + 4 * k : 220 + 4 * k])
        else:
            out[216 + 4 * k] = 1
        _yes_no(
            lo[hand_evaluation.KING + suit],
            hi[hand_evaluation.KING + suit],
            out[232 + 3 * k : 235 + 3 * k],
        )
        if lo[hand_evaluation.KING + suit] == 1 and a_king == 0:
            a_king = k + 1
    out[STATUS_AT + said[STATUS]] = 1
    out[TYPE_AT + said[TYPE]] = 1
    out[SLAM_AT + said[SLAM]] = 1
    agreed, trumps = said[AGREED], said[TRUMPS]
    out[273 + (4 - agreed if 0 <= agreed < 4 else 0)] = 1
    _count(lo[hand_evaluation.ACES], hi[hand_evaluation.ACES], out[278:284])
    _count(lo[hand_evaluation.KINGS], hi[hand_evaluation.KINGS], out[284:290])
    known = (
        trumps >= 0 and lo[hand_evaluation.KEYCODE + trumps] == hi[hand_evaluation.KEYCODE + trumps]
    )
    out[290 + (1 + lo[hand_evaluation.KEYCODE + trumps] if known else 0)] = 1
    out[294 + a_king] = 1
    if 0 <= agreed < 4:
        _yes_no(
            lo[hand_evaluation.QUEEN + agreed], hi[hand_evaluation.QUEEN + agreed], out[299:302]
        )
    else:
        out[299] = 1
    _yes_no(max(said[POWER], 0), abs(said[POWER]), out[302:305])


@njit(cache=True)
def _range(lo, hi, out):  # type: ignore[no-untyped-def]
    """A range as 1 / (its numbers) on each of them."""
    lo, hi = max(lo, 0), min(hi, len(out) - 1)
    out[lo : hi + 1] = np.float32(1 / (hi - lo + 1))


@njit(cache=True)
def _count(lo, hi, out):  # type: ignore[no-untyped-def]
    """A number of cards from 0 to 4 after "unknown"."""
    if lo <= 0 and hi >= 4:
        out[0] = 1
    else:
        _range(lo + 1, hi + 1, out)


@njit(cache=True)
def _yes_no(lo, hi, out):  # type: ignore[no-untyped-def]
    """Unknown, yes, no."""
    out[0 if lo != hi else (1 if lo == 1 else 2)] = 1
