"""Observations of a whole bridge board, and the state of card play that they determine.

An observation has the columns of an auction observation (`auction.observation`), then dummy's cards
and all cards played. `OWN` is the 13 cards that the player was dealt, during card play too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from overtrick.core import Array, Observations
from overtrick.games.bridge import auction_rules
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction.game import record_call
from overtrick.games.bridge.auction_rules import (
    BIDS,
    CALLS,
    FIRST_NAMED,
    LAST_BID,
    LAST_BIDDER,
    NO_SEAT,
)
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS
from overtrick.games.bridge.trick_rules import NO_CARD

DUMMY = obs.CALLERS + 3 * BIDS
"""Column of the 13 cards that dummy was dealt, as a bit mask; 0 before the opening lead."""
FIRST_CARD = DUMMY + 1
"""First of 52 columns: the cards played so far, in the order played, then NO_CARD."""
WIDTH = FIRST_CARD + CARDS
FIRST_PLAY = len(CALLS)
"""The first action that plays a card: action FIRST_PLAY + c plays card c, and the actions before it
are the calls."""


@njit(cache=True)
def declaring_seat(auction):  # type: ignore[no-untyped-def]
    """Return the declarer of a finished auction (STATE_WIDTH,), or NO_SEAT if all seats passed."""
    if auction[LAST_BID] < 0:
        return NO_SEAT
    return auction[FIRST_NAMED + 5 * (auction[LAST_BIDDER] % 2) + auction[LAST_BID] % 5]


@njit(cache=True)
def start_play(auction, dealt, hand, progress):  # type: ignore[no-untyped-def]
    """Write the state of card play before the opening lead, and return the declarer's seat.

    auction: (STATE_WIDTH,) state of a finished auction with a contract. dealt: (4,) hand of each
    seat, as bit masks. hand: (4,) output, the hand of each position relative to the declarer.
    progress: (8,) output, columns as in `kernels`.
    """
    declarer, bid = declaring_seat(auction), auction[LAST_BID]
    for position in range(4):
        hand[position] = dealt[(declarer + position) % 4]
    progress[:] = 0
    progress[kernels.LED], progress[kernels.TURN] = NO_CARD, 1
    progress[kernels.STRAIN], progress[kernels.NEEDED] = bid % 5, bid // 5 + 7
    return declarer


def declarer_from_position(seat: int, position: int) -> int:
    """Return the declarer's seat, given the seat that acts and the position of the hand to play."""
    return seat if position in (0, 2) else (seat - position) % 4


@njit(cache=True)
def acting_seat(declarer, position):  # type: ignore[no-untyped-def]
    """Return the seat that plays the card of a position: the declarer also plays dummy's cards.

    position: 0 declarer, 1 left-hand defender, 2 dummy, 3 right-hand defender.
    """
    return declarer if position == 2 else (declarer + position) % 4


@njit(cache=True)
def _card_play_rows(observation, out):  # type: ignore[no-untyped-def]
    """Write observations of MiniBridge (R, 16) for observations (R, WIDTH) made in card play."""
    calls = np.empty(obs.MAX_CALLS, np.int64)
    auction = np.empty(auction_rules.STATE_WIDTH, np.int64)
    dealt, hand, trick = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4, np.int64)
    played, progress = np.empty(4, np.int64), np.empty(kernels.PROGRESS_WIDTH, np.int64)
    for row in range(len(observation)):
        seen = observation[row]
        auction_rules.start_auction(auction, seen[obs.DEALER])
        for k in range(obs.write_calls(seen, calls)):
            auction_rules.make_call(auction, calls[k])
        dealt[:], trick[:], played[:] = 0, NO_CARD, 0
        dealt[(declaring_seat(auction) + 2) % 4] = seen[DUMMY]
        dealt[seen[obs.SEAT]] = seen[obs.OWN]
        start_play(auction, dealt, hand, progress)
        for k in range(CARDS):
            card = seen[FIRST_CARD + k]
            if card == NO_CARD:
                break
            # a hidden hand holds the card only now, so that playing it leaves the hand empty
            hand[progress[kernels.TURN]] |= np.int64(1) << card
            kernels.play_card(card, hand, played, trick, progress)
        kernels.write_observation(hand, played, trick, progress, out[row])


def card_play_observations(observations: Observations) -> Observations:
    """Convert observations made during card play to observations of the game MiniBridge.

    Each row becomes the observation of the hand to play: declarer's own, a defender's, or dummy's.
    The columns are those of `MiniBridge`, with positions relative to the declarer. `legal` is
    (R, 52). The seat and the index of the game stay those of the row.
    """
    found = np.empty((len(observations), kernels.OBSERVATION_WIDTH), np.int64)
    _card_play_rows(observations.observation, found)
    legal = kernels.legal_cards(found)
    return Observations(observations.game, observations.seat, found, legal, None)


def auction_observations(observations: Observations) -> Observations:
    """Convert observations made during the auction to observations of the game Auction.

    `legal` is (R, 38). The seat and the index of the game stay those of the row.
    """
    legal = observations.legal
    return Observations(
        observations.game,
        observations.seat,
        np.ascontiguousarray(observations.observation[:, :DUMMY]),
        None if legal is None else np.ascontiguousarray(legal[:, :FIRST_PLAY]),
        None,
    )


def in_card_play(observations: Observations) -> Array:
    """Return (R,) bool: whether each observation was made during card play."""
    seen = observations.observation
    named = (seen[:, obs.CALLERS : obs.CALLERS + BIDS] >= 0).any(axis=1)
    return named & (seen[:, obs.PASSES] == 3)


def encode_observation(
    seat: int,
    dealer: int,
    vulnerable: int,
    own: int,
    dummy: int,
    calls: Sequence[int],
    cards: Sequence[int],
) -> Array:
    """Return one observation (WIDTH,) of the game `bridge`, which is not validated.

    seat: the player that acts. vulnerable: 0 None, 1 NS, 2 EW, 3 All. own, dummy: 13 cards as bit
    masks; dummy is 0 before the opening lead. calls: legal calls so far, the dealer's first. cards:
    cards in the order played.
    """
    row = np.zeros(WIDTH, np.int64)
    row[[obs.SEAT, obs.DEALER, obs.VULNERABLE]] = seat, dealer, vulnerable
    row[[obs.OWN, DUMMY]] = own, dummy
    now = np.empty(auction_rules.STATE_WIDTH, np.int64)
    callers = np.full(3 * BIDS, NO_SEAT, np.int8)
    auction_rules.start_auction(now, dealer)
    for call in calls:
        record_call(now, callers, call)
    row[obs.PASSES] = now[auction_rules.PASSES]
    row[obs.CALLERS : DUMMY] = callers
    row[FIRST_CARD:] = NO_CARD
    row[FIRST_CARD : FIRST_CARD + len(cards)] = cards
    return row
