"""Public knowledge in an auction: the calls so far, and what they show about each hand.

PublicKnowledge holds one auction in progress as small arrays for compiled code. Its array
`seat_view` describes the auction relative to the seat to call; VIEW maps the name of each number in
this array to its index. A condition of a bidding system tests whether such a number lies in a
range.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction_rules import BIDS, NEXT_SEAT, PASS
from overtrick.games.bridge.cards import SUITS
from overtrick.games.bridge.scoring import GAME_LEVEL
from overtrick.games.bridge.system import hand_evaluation as hand
from overtrick.games.bridge.system.hand_evaluation import ADJUSTED, HCP, LENGTH, SHAPE, TOTAL

PLAYERS = ("me", "lho", "partner", "rho")
"""Seats relative to the seat to call, in the order of play."""

SITUATION = (
    "opened by", "seat", "vulnerable", "they vulnerable", "level", "last", "last by", "doubled",
    "passes", "calls", "partner calls", "their calls", "forced", "game forced", "agreed", "passed",
    "partner passed", "last ours", "invited", "must bid",
)  # fmt: skip
"""First fields of VIEW:

    opened by        relative seat of the opener, 0 to 3; -1 before the opening bid
    seat             number of passes before the opening bid
    vulnerable       whether the own side is vulnerable; `they vulnerable`: the other side
    level, last      level and strain of the last bid; 0 and -1 before any bid
    last by          relative seat of the last bid, or -1
    doubled          0; 1 if the last bid is doubled, 2 if redoubled
    passes           number of passes since the last other call
    calls            number of own calls other than passes; likewise `partner calls`, `their calls`
    forced           whether partner's last call is forcing
    game forced      whether the own side must reach game
    agreed           agreed strain, or -1
    passed           whether the seat passed before the opening bid; likewise `partner passed`
    last ours        whether the own side made the last bid
    invited          whether partner made the last bid, as an invitation
    must bid         whether the system forbids a pass: partner's last call is forcing, or the own
                     side is forced to game and would let the auction end below game
"""

RANGED = ("hcp", "total", "adjusted", *(f"length {suit}" for suit in SUITS))
VIEW_FIELDS = (
    *SITUATION,
    *(f"{who} {end} {what}" for who in PLAYERS for end in ("lo", "hi") for what in RANGED),
    *(f"they lo length {suit}" for suit in SUITS),
)
VIEW = {name: index for index, name in enumerate(VIEW_FIELDS)}
FIRST_RANGED = len(SITUATION)
FIELD_OF_RANGED = np.array([HCP, TOTAL, ADJUSTED, *range(LENGTH, LENGTH + 4)])
"""Index in hand_evaluation.FIELDS of each name in RANGED."""

STATUSES = (
    "none", "passed", "sign-off", "non-forcing", "invitational", "forcing", "game-forcing",
    "asking", "answering", "preemptive",
)  # fmt: skip
TYPES = (
    "none", "pass", "natural", "raise", "notrump", "preempt", "transfer", "relay", "answer",
    "conventional", "cue bid", "takeout double", "negative double", "penalty double", "redouble",
)  # fmt: skip
INVITATIONAL = STATUSES.index("invitational")
SLAMS = ("none", "slam try", "small slam", "grand slam")
STATUS, TYPE, SLAM, SUIT, AGREED, TRUMPS, POWER = range(7)
MEANING_WIDTH = 7
"""Columns of the meaning of a call:

    STATUS, TYPE, SLAM  indices into STATUSES, TYPES, SLAMS
    SUIT                the suit that it shows; -1 for none, 4 for notrump
    AGREED              the agreed suit; -1 for none, 4 for notrump
    TRUMPS              the suit whose king is a key card; -1 for none, 4 for notrump
    POWER               1 for extra strength, 0 for a minimum, -1 if unknown
"""


def _limits() -> Array:
    """Return the lowest and the highest possible value of each hand feature, (2, H) int16."""
    limits = np.zeros((2, hand.WIDTH), np.int16)
    lowest, highest = limits
    highest[:] = 13
    highest[[HCP, TOTAL, ADJUSTED]] = 37, 40, 40
    highest[[hand.LOSERS, hand.QUICK, hand.CONTROLS]] = 12, 16, 12
    highest[[hand.ACES, hand.KINGS, SHAPE]] = 4, 4, 2
    lowest[hand.LONGEST] = 4
    highest[[hand.SECOND, hand.SHORTEST]] = 6, 3
    highest[hand.STRENGTH : hand.CONTROL] = 7
    lowest[hand.CONTROL : hand.KING] = 1
    highest[hand.CONTROL : hand.KING] = 4
    highest[hand.KING : hand.TOP3] = 1
    highest[hand.TOP3 : hand.TOP5] = 3
    highest[hand.TOP5 : hand.KEYCODE] = 5
    highest[hand.KEYCODE : hand.SUPPORT] = 2
    highest[hand.SUPPORT : hand.LONGER] = 45
    lowest[hand.LONGER :] = -13
    return limits


LIMITS = _limits()


def _likely_maxima() -> Array:
    """Return the 99th percentile of a hand's high-card points (38,), given a lower bound.

    The bounds are 0 to 37 points. The percentile is exact, from a count of all hands with at least
    these points. UNLIKELY (100) sets the percentile: fewer than one hand in 100 has more points.
    """
    hands = np.zeros((14, 38))  # number of holdings, by number of cards and points
    hands[0, 0] = 1
    for points, cards in ((4, 4), (3, 4), (2, 4), (1, 4), (0, 36)):
        more = np.zeros_like(hands)
        for taken in range(min(cards, 13) + 1):
            total = points * taken
            more[taken:, total:] += comb(cards, taken) * hands[: 14 - taken, : 38 - total]
        hands = more
    at_least = np.cumsum(hands[13, ::-1])[::-1]
    return np.array([(at_least * UNLIKELY >= at_least[least]).sum() - 1 for least in range(38)])


UNLIKELY = 100
LIKELY = _likely_maxima()  # by lowest high-card points: the likely maximum


SHORTNESS = 3
"""Most points for short suits that are assumed of a hand with a minimum of `support`. A void has
five, but is rare."""

PROMISED, SHOWN = range(2)
"""Two interpretations of the same calls (see `parser`):

    PROMISED  hands of all rules for a call except `heard` rules, which never make it; the rules
              for later calls use them
    SHOWN     hands of all rules for a call except `rare` rules, whose hands are too rare to expect;
              the features of bidding networks use them
"""


class PublicKnowledge(NamedTuple):
    """One auction in progress, and what its calls show about each hand; changed in place.

    It also contains buffers for matching rules. H is the number of hand features
    (hand_evaluation.FIELDS).
    """

    calls: Array  # (319,) int8 the calls so far
    auction: Array  # (STATE_WIDTH,) int64 state of the auction, as in auction_rules
    context: Array  # (CONTEXT_WIDTH,) int64, columns below
    lo: Array  # (2, 4, H) int16 lowest value of each field, by PROMISED or SHOWN and by seat
    hi: Array  # (2, 4, H) int16 highest value of each field
    meaning: Array  # (4, MEANING_WIDTH) int8 meaning of each seat's last call
    call_counts: Array  # (4, 2) int64 number of calls other than passes, and of bids, by seat
    passed: Array  # (4,) bool: the seat passed before the opening bid
    seat_view: Array  # (len(VIEW),) int64 the auction relative to the seat to call
    named: Array  # (38,) int32 buffer: number of the group of places that uses each call
    matched: Array  # (rules, 2) int32 buffer: row and call of each rule that applies
    call_lo: Array  # (2, H) int16 lowest value of each field that the last matched call allows
    call_hi: Array  # (2, H) int16 highest value of each field


VULNERABLE, OPENED, OPENER, FORCING, GAME = range(5)
CONTEXT_WIDTH = GAME + 2
"""Columns of PublicKnowledge.context:

    VULNERABLE  0 None, 1 NS, 2 EW, 3 All
    OPENED      number of calls before the opening bid; -1 before the opening bid
    OPENER      seat of the opener; -1 before the opening bid
    FORCING     the seat whose last call forces partner to bid, or -1
    GAME        first of two columns: whether North-South, East-West is forced to game
"""


def new_knowledge(rules: int) -> PublicKnowledge:
    """Allocate the PublicKnowledge of one auction; `open_auction` initialises it.

    rules: the largest number of rows of SystemTables.rule among the systems in use.
    """
    ranges, shapes = np.empty((2, 4, hand.WIDTH), np.int16), np.empty((2, hand.WIDTH), np.int16)
    return PublicKnowledge(
        calls=np.empty(auction_rules.LONGEST_AUCTION, np.int8),
        auction=np.empty(auction_rules.STATE_WIDTH, np.int64),
        context=np.empty(CONTEXT_WIDTH, np.int64),
        lo=ranges,
        hi=ranges.copy(),
        meaning=np.empty((4, MEANING_WIDTH), np.int8),
        call_counts=np.empty((4, 2), np.int64),
        passed=np.empty(4, np.bool_),
        seat_view=np.zeros(len(VIEW), np.int64),
        named=np.empty(len(auction_rules.CALLS), np.int32),
        matched=np.empty((rules, 2), np.int32),
        call_lo=shapes,
        call_hi=shapes.copy(),
    )


@njit(cache=True)
def open_auction(knowledge, dealer, vulnerable):  # type: ignore[no-untyped-def]
    """Reset public knowledge to the start of an auction, when nothing is known about any hand."""
    auction_rules.start_auction(knowledge.auction, dealer)
    context = knowledge.context
    context[:] = 0
    context[VULNERABLE] = vulnerable
    context[OPENED] = context[OPENER] = context[FORCING] = -1
    knowledge.call_counts[:] = 0
    knowledge.passed[:] = False
    knowledge.lo[:] = LIMITS[0]
    knowledge.hi[:] = LIMITS[1]
    knowledge.meaning[:, :SUIT] = 0
    knowledge.meaning[:, SUIT:] = -1


@njit(cache=True)
def record_call(knowledge, call):  # type: ignore[no-untyped-def]
    """Record a legal call in `knowledge` without its meaning, and advance the auction."""
    auction, context = knowledge.auction, knowledge.context
    seat = auction[NEXT_SEAT]
    knowledge.calls[auction[auction_rules.CALL_COUNT]] = call
    if call == PASS:
        knowledge.passed[seat] |= context[OPENED] < 0
    else:
        knowledge.call_counts[seat, 0] += 1
        if call < BIDS:
            knowledge.call_counts[seat, 1] += 1
            if context[OPENED] < 0:
                context[OPENED], context[OPENER] = auction[auction_rules.CALL_COUNT], seat
    auction_rules.make_call(auction, call)


@njit(cache=True)
def update_view(knowledge):  # type: ignore[no-untyped-def]
    """Update `knowledge.seat_view`, which describes the auction relative to the seat to call.

    VIEW lists the numbers in this array, such as the level of the last bid or the number of passes.

    knowledge: PublicKnowledge of the auction.
    """
    auction, context, view = knowledge.auction, knowledge.context, knowledge.seat_view
    meaning, counts = knowledge.meaning, knowledge.call_counts
    me = auction[NEXT_SEAT]
    partner, left, right = (me + 2) % 4, (me + 1) % 4, (me + 3) % 4
    last_bid, passes = auction[auction_rules.LAST_BID], auction[auction_rules.PASSES]
    opened, bid = context[OPENED] >= 0, last_bid >= 0
    view[0] = (context[OPENER] - me) % 4 if opened else -1
    view[1] = context[OPENED] if opened else auction[auction_rules.CALL_COUNT]
    view[2] = (context[VULNERABLE] >> (me % 2)) & 1
    view[3] = (context[VULNERABLE] >> (1 - me % 2)) & 1
    view[4] = last_bid // 5 + 1 if bid else 0
    view[5] = last_bid % 5 if bid else -1
    view[6] = (auction[auction_rules.LAST_BIDDER] - me) % 4 if bid else -1
    view[7] = auction[auction_rules.DOUBLED]
    view[8] = passes
    view[9], view[10] = counts[me, 0], counts[partner, 0]
    view[11] = counts[left, 0] + counts[right, 0]
    view[12] = context[FORCING] == partner and passes >= 1
    view[13] = context[GAME + me % 2]
    view[14] = max(meaning[me, AGREED], meaning[partner, AGREED])
    view[15], view[16] = knowledge.passed[me], knowledge.passed[partner]
    view[17] = bid and view[6] % 2 == 0
    view[18] = meaning[partner, STATUS] == INVITATIONAL and passes >= 1 and view[6] == 2
    view[19] = view[12] or (view[13] and _ends_below_game(view))
    at, width = FIRST_RANGED, len(FIELD_OF_RANGED)
    lo, hi = knowledge.lo[PROMISED], knowledge.hi[PROMISED]
    for who in range(4):
        seat = (me + who) % 4
        for k in range(width):
            view[at + k] = lo[seat, FIELD_OF_RANGED[k]]
            view[at + width + k] = hi[seat, FIELD_OF_RANGED[k]]
        at += 2 * width
    for suit in range(4):
        view[at + suit] = max(lo[left, LENGTH + suit], lo[right, LENGTH + suit])


@njit(cache=True)
def _ends_below_game(view):  # type: ignore[no-untyped-def]
    """Return whether a pass could end the auction undoubled and without a game for the own side.

    It could if the last bid is partner's and below game, or an opponent's after two passes: with
    one pass, partner would still have a call.

    view: PublicKnowledge.seat_view, up to date except for its entry "must bid".
    """
    level, strain, last_by, doubled, passes = view[4], view[5], view[6], view[7], view[8]
    if level == 0 or doubled > 0:
        return False
    if last_by % 2 == 1:
        return passes == 2
    return last_by == 2 and level < GAME_LEVEL[strain]


@njit(cache=True)
def tighten_ranges(lo, hi):  # type: ignore[no-untyped-def]
    """Tighten the ranges of one hand's features, lowest `lo` and highest `hi` (H,), in place.

    The features constrain each other: for example, the four suit lengths add up to 13, and a
    balanced hand has no singleton.
    """
    if lo[SHAPE] >= 1:
        for suit in range(LENGTH, LENGTH + 4):
            lo[suit] = max(lo[suit], 2)
            hi[suit] = min(hi[suit], 5 if lo[SHAPE] == 2 else 6)
    at = hand.LONGER
    for a in range(LENGTH + 3, LENGTH, -1):
        for b in range(a - 1, LENGTH - 1, -1):
            lo[a] = max(lo[a], lo[b] + lo[at])
            hi[b] = min(hi[b], hi[a] - lo[at])
            lo[b] = max(lo[b], lo[a] - hi[at])
            hi[a] = min(hi[a], hi[b] + hi[at])
            at += 1
    least, most, long_points = 0, 0, 0
    for suit in range(LENGTH, LENGTH + 4):
        least += lo[suit]
        most += hi[suit]
    for suit in range(LENGTH, LENGTH + 4):
        hi[suit] = max(min(hi[suit], 13 - least + lo[suit]), lo[suit])
        lo[suit] = min(max(lo[suit], 13 - most + hi[suit]), hi[suit])
        long_points += max(lo[suit] - 4, 0)
    for support in range(hand.SUPPORT, hand.SUPPORT + 4):
        hi[HCP] = min(hi[HCP], hi[support])
        if lo[support] > 0:
            lo[TOTAL] = max(lo[TOTAL], lo[support] - SHORTNESS)
    lo[TOTAL] = max(lo[TOTAL], lo[HCP] + long_points)
    hi[HCP] = min(hi[HCP], hi[TOTAL] - long_points)
    lo[HCP] = max(lo[HCP], lo[TOTAL] - max(long_points, 3))
    hi[TOTAL] = min(hi[TOTAL], hi[HCP] + 9)
    if lo[SHAPE] == 2:
        lo[HCP] = max(lo[HCP], lo[TOTAL] - 1)
        hi[TOTAL] = min(hi[TOTAL], hi[HCP] + 1)
    lo[ADJUSTED] = max(lo[ADJUSTED], lo[HCP])
    hi[HCP] = min(hi[HCP], hi[ADJUSTED])
    for field in (HCP, TOTAL, ADJUSTED):
        hi[field] = max(hi[field], lo[field])
