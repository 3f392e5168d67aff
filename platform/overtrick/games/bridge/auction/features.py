"""Features of an auction and of the caller's hand, for any bidding system (Zhang et al. 2022,
Table 1). There are 1,284 features before each call:

    0  - 51    own hand, 13 numbers for each suit C D H S: the number of cards from two to nine,
               thermometer-coded in 8 numbers; then 1 for each of T J Q K A held
    52 - 55    vulnerability: None NS EW All
    56 - 59    dealer: N E S W
    60 - 63    the seat to call: N E S W
    64 - 1283  305 numbers for each player: the caller, left-hand opponent, partner, right-hand
               opponent

The 305 numbers of a player describe the hand that the player's calls have shown, in the order of
the paper's table. Each line is a group of features: its first number, its values, and the number of
features, one for each value. Suits are in the order S H D C.

    0   suit shown by the last call: NT S H D C                  5
    5   high-card points 0 to 40                                 41
    46  total points: high-card points plus points for length    41
    87  adjusted points: high-card points plus points for shortness   41
    128 length of each suit 0 to 13                              4 x 14
    184 strength of each suit: ace 4, king 2, queen 1            4 x 8
    216 control of each suit: unknown, first, second, third round   4 x 4
    232 king of each suit: unknown, yes, no                      4 x 3
    244 status of the last call (public_knowledge.STATUSES)      10
    254 type of the last call (public_knowledge.TYPES)           15
    269 slam meaning of the last call: none, slam try, small slam, grand slam   4
    273 agreed suit: unknown S H D C                             5
    278 aces: unknown, 0 to 4                                    6
    284 kings: unknown, 0 to 4                                   6
    290 key cards: unknown, 0 or 3, 1 or 4, 2 or 5               4
    294 first suit whose king is shown: unknown S H D C          5
    299 queen of trumps: unknown, yes, no                        3
    302 extra strength: unknown, yes, no (a minimum)             3

A group is a uniform distribution over the values that are still possible: 1 / n for each of these n
values, 0 for the other values. If nothing is known in a group with the value `unknown`, this value
is 1. The first group is all 0 if the last call shows no suit. The paper's table has no value for a
suit without any control. It is coded as `unknown`, and so is a suit that may be without control.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge.auction_rules import NEXT_SEAT
from overtrick.games.bridge.system import hand_evaluation as hand
from overtrick.games.bridge.system import public_knowledge as known
from overtrick.games.bridge.system.auction_simulation import kernel_arguments
from overtrick.games.bridge.system.loader import System
from overtrick.games.bridge.system.rule_matching import hear_call

PLAYER_WIDTH, WIDTH = 305, 1284
FIRST_PLAYER = WIDTH - 4 * PLAYER_WIDTH
FIRST_SITUATION = 52
STATUS_AT = 244
TYPE_AT = STATUS_AT + len(known.STATUSES)
SLAM_AT = TYPE_AT + len(known.TYPES)
NO_CONTROL = 4
FeatureGroup = Literal[
    "shown_suit", "points", "lengths", "strengths", "controls", "kings_of_suits", "status",
    "call_type", "slam", "agreed_suit", "aces", "kings", "key_cards", "first_king", "trump_queen",
    "extra_strength",
]  # fmt: skip
"""A group of a player's features; `points` are high-card, total and adjusted points."""

GROUPS: dict[FeatureGroup, int] = {
    "shown_suit": 0, "points": 5, "lengths": 128, "strengths": 184, "controls": 216,
    "kings_of_suits": 232, "status": STATUS_AT, "call_type": TYPE_AT, "slam": SLAM_AT,
    "agreed_suit": 273, "aces": 278, "kings": 284, "key_cards": 290, "first_king": 294,
    "trump_queen": 299, "extra_strength": 302,
}  # fmt: skip
"""First number of each group of a player's features. A group ends where the next begins."""


def group_columns(groups: Iterable[FeatureGroup]) -> Array:
    """Return the columns, of the 1284, that belong to these GROUPS, player by player."""
    ends = dict(zip(GROUPS, [*GROUPS.values(), PLAYER_WIDTH][1:], strict=True))
    own = [np.arange(GROUPS[name], ends[name]) for name in groups]
    players = FIRST_PLAYER + PLAYER_WIDTH * np.arange(4)[:, None]
    return (players + np.concatenate([np.empty(0, np.int64), *own])).ravel()


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
    """Return the network features (R, 1284) float32 before each of the R calls of G legal auctions.

    They describe the caller's hand, and what all earlier calls have shown about each hand; the
    module's docstring lists them.

    hands: (G, 4) hand of each seat, as card bit masks.
    dealer: (G,) seat.
    vulnerable: (G,) 0 None, 1 NS, 2 EW, 3 All.
    calls: (G, L) calls of each auction, padded with -1.
    ns, ew: the bidding systems by which the calls of each side are interpreted.
    out: array with at least R rows to write the features to; None allocates a new array.
    after: if true, return the features after each call, as seen by the seat that made it.

    Raises ValueError if `out` has too few rows or a wrong width.
    """
    count = int((np.asarray(calls) >= 0).sum())
    features = np.empty((count, WIDTH), np.float32) if out is None else out[:count]
    if features.shape != (count, WIDTH):
        raise ValueError(f"{count} rows of {WIDTH} numbers do not fit into {features.shape}")
    arguments = kernel_arguments(hands, dealer, vulnerable, ns, ew)
    _write_auctions(*arguments, np.asarray(calls), after, features)
    return features


@njit(cache=True)
def _write_auctions(hands, dealer, vulnerable, ns, ew, knowledge, calls, after, out):  # type: ignore[no-untyped-def]
    row = 0
    for game in range(len(hands)):
        known.open_auction(knowledge, dealer[game], vulnerable[game])
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
    """Write the network features of one auction, as seen by one seat, into `out` (1284,).

    knowledge: PublicKnowledge, the calls so far and what they show about each hand. cards: the
    seat's hand as a bit mask. dealer: seat of the dealer.
    """
    out[:] = 0
    for suit in range(4):
        held = (cards >> (13 * suit)) & 8191
        small = 0
        for rank in range(8):
            small += (held >> rank) & 1
        out[13 * suit : 13 * suit + small] = 1
        for rank in range(8, 13):
            out[13 * suit + rank] = (held >> rank) & 1
    out[FIRST_SITUATION + knowledge.context[known.VULNERABLE]] = 1
    out[FIRST_SITUATION + 4 + dealer] = 1
    out[FIRST_SITUATION + 8 + seat] = 1
    for k in range(4):
        first = FIRST_PLAYER + k * PLAYER_WIDTH
        _write_player(knowledge, (seat + k) % 4, out[first : first + PLAYER_WIDTH])


@njit(cache=True)
def _write_player(knowledge, seat, out):  # type: ignore[no-untyped-def]
    """Write the 305 features of what one player's calls have shown into `out` (305,).

    knowledge: PublicKnowledge, the calls so far and what they show. seat: the player's seat. `out`
    must contain only zeros.
    """
    lo, hi = knowledge.lo[known.SHOWN, seat], knowledge.hi[known.SHOWN, seat]
    meaning = knowledge.meaning[seat]
    if meaning[known.SUIT] >= 0:
        out[4 - meaning[known.SUIT]] = 1
    _write_range(lo[hand.HCP], hi[hand.HCP], out[5:46])
    _write_range(lo[hand.TOTAL], hi[hand.TOTAL], out[46:87])
    _write_range(lo[hand.ADJUSTED], hi[hand.ADJUSTED], out[87:128])
    king_at = 0
    for k in range(4):
        suit = 3 - k
        length, strength = hand.LENGTH + suit, hand.STRENGTH + suit
        control, king = hand.CONTROL + suit, hand.KING + suit
        _write_range(lo[length], hi[length], out[128 + 14 * k : 142 + 14 * k])
        _write_range(lo[strength], hi[strength], out[184 + 8 * k : 192 + 8 * k])
        if hi[control] < NO_CONTROL:
            _write_range(lo[control], hi[control], out[216 + 4 * k : 220 + 4 * k])
        else:
            out[216 + 4 * k] = 1
        _write_yes_no(lo[king], hi[king], out[232 + 3 * k : 235 + 3 * k])
        if lo[king] == 1 and king_at == 0:
            king_at = k + 1
    out[STATUS_AT + meaning[known.STATUS]] = 1
    out[TYPE_AT + meaning[known.TYPE]] = 1
    out[SLAM_AT + meaning[known.SLAM]] = 1
    agreed, trumps = meaning[known.AGREED], meaning[known.TRUMPS]
    out[273 + (4 - agreed if 0 <= agreed < 4 else 0)] = 1
    _write_count(lo[hand.ACES], hi[hand.ACES], out[278:284])
    _write_count(lo[hand.KINGS], hi[hand.KINGS], out[284:290])
    keycode = hand.KEYCODE + trumps
    out[290 + (1 + lo[keycode] if trumps >= 0 and lo[keycode] == hi[keycode] else 0)] = 1
    out[294 + king_at] = 1
    if 0 <= agreed < 4:
        _write_yes_no(lo[hand.QUEEN + agreed], hi[hand.QUEEN + agreed], out[299:302])
    else:
        out[299] = 1
    _write_yes_no(max(meaning[known.POWER], 0), abs(meaning[known.POWER]), out[302:305])


@njit(cache=True)
def _write_range(lo, hi, out):  # type: ignore[no-untyped-def]
    """Write 1 / n at each of the n indices `lo` to `hi` of `out`, for a range of possible values.

    `lo` and `hi`, which are included, are first clipped to the indices of `out`.
    """
    lo, hi = max(lo, 0), min(hi, len(out) - 1)
    out[lo : hi + 1] = np.float32(1 / (hi - lo + 1))


@njit(cache=True)
def _write_count(lo, hi, out):  # type: ignore[no-untyped-def]
    """Encode a number of aces or kings, known to lie from `lo` to `hi`, into `out` (6,).

    Index 0 is the flag for "unknown": it is 1 if all numbers from 0 to 4 are possible. Otherwise
    indices 1 to 5 hold a uniform distribution over the possible numbers among 0 to 4.
    """
    if lo <= 0 and hi >= 4:
        out[0] = 1
    else:
        _write_range(lo + 1, hi + 1, out)


@njit(cache=True)
def _write_yes_no(lo, hi, out):  # type: ignore[no-untyped-def]
    """Write a yes-or-no property into `out` (3,) as one-hot: unknown, yes, no.

    lo, hi: lowest and highest possible value, 0 (no) or 1 (yes). If they differ, the property is
    unknown.
    """
    out[0 if lo != hi else (1 if lo == 1 else 2)] = 1
