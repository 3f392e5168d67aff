"""Find a full deal that agrees with an observation of a bridge board.

A replay of the calls and cards on this deal then validates the observation.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.games.bridge import auction_rules
from overtrick.games.bridge import board_observation as board
from overtrick.games.bridge.auction import observation as obs
from overtrick.games.bridge.auction_rules import LAST_BID
from overtrick.games.bridge.board_observation import DUMMY, FIRST_CARD
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD


@njit(cache=True)
def complete_deals(observation, deals):  # type: ignore[no-untyped-def]
    """Write deals that agree with the visible cards of observations (R, K) into `deals` (R, 74).

    Return (R,) bool: whether there is such a deal. Columns from 52 on stay unchanged.
    """
    possible = np.zeros(len(observation), np.bool_)
    auction = np.empty(auction_rules.STATE_WIDTH, np.int64)
    hand, played, room = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4, np.int64)
    progress = np.empty(kernels.PROGRESS_WIDTH, np.int64)
    for row in range(len(observation)):
        seen = observation[row]
        if not _replay_calls(seen, auction):
            continue
        over = auction_rules.auction_over(auction)
        if over and auction[LAST_BID] < 0:
            continue
        hand[:], progress[:] = 0, 0
        declarer = board.start_play(auction, hand, hand, progress) if over else 0
        cards = _replay_cards(seen, played, progress)
        position = (seen[obs.SEAT] - declarer) % 4
        if cards < 0 or (cards > 0 and not over) or (cards > 0 and position == 2):
            continue
        if count_cards(seen[DUMMY]) != (TRICKS if cards else 0):
            continue
        if not _count_hidden(seen, position, cards > 0, played, room):
            continue
        known = seen[obs.OWN] | seen[DUMMY] | played[0] | played[1] | played[2] | played[3]
        possible[row] = _place_hidden(known, progress[kernels.VOIDS], room, hand)
        for card in range(CARDS):
            holder = 0
            for k in range(4):
                if (hand[k] | played[k]) >> card & 1:
                    holder = k
            if seen[obs.OWN] >> card & 1:
                holder = position
            elif seen[DUMMY] >> card & 1:
                holder = 2
            deals[row, card] = (holder + declarer) % 4
    return possible


@njit(cache=True)
def _replay_calls(seen, auction):  # type: ignore[no-untyped-def]
    """Make the calls of one observation (K,); return whether all were legal.

    auction: (STATE_WIDTH,) output, the state after these calls.
    """
    calls = np.empty(obs.MAX_CALLS, np.int64)
    auction_rules.start_auction(auction, seen[obs.DEALER])
    for k in range(obs.write_calls(seen, calls)):
        if not auction_rules.is_legal_call(auction, calls[k]):
            return False
        auction_rules.make_call(auction, calls[k])
    return True


@njit(cache=True)
def _replay_cards(seen, played, progress):  # type: ignore[no-untyped-def]
    """Play the cards of one observation (K,), and return their number.

    Return -1 if a card is played twice, if all 52 are played, or if a card follows a gap.

    played: (4,) output, the cards of each position. progress: (8,) the state before the opening
    lead, changed in place.
    """
    hand, trick = np.zeros(4, np.int64), np.full(4, NO_CARD)
    played[:] = 0
    count, seen_cards = 0, np.int64(0)
    while count < CARDS and seen[FIRST_CARD + count] != NO_CARD:
        card = seen[FIRST_CARD + count]
        if seen_cards >> card & 1:
            return -1
        seen_cards |= np.int64(1) << card
        hand[progress[kernels.TURN]] |= np.int64(1) << card  # play_card takes it out again
        kernels.play_card(card, hand, played, trick, progress)
        count += 1
    for k in range(count, CARDS):
        if seen[FIRST_CARD + k] != NO_CARD:
            return -1
    return count if count < CARDS else -1


@njit(cache=True)
def _count_hidden(seen, position, dummy_open, played, room):  # type: ignore[no-untyped-def]
    """Count the hidden cards of each position; return whether the visible hands are consistent.

    position: of the player that sees the observation. played: (4,) cards of each position. room:
    (4,) output, the number of hidden cards of each position.
    """
    own, dummy = seen[obs.OWN], seen[DUMMY]
    if own & dummy:
        return False
    for k in range(4):
        visible = k == position or (k == 2 and dummy_open)
        dealt = own if k == position else dummy
        if (visible and played[k] & ~dealt) or (not visible and played[k] & (own | dummy)):
            return False
        room[k] = 0 if visible else TRICKS - count_cards(played[k])
    return True


@njit(cache=True)
def _place_hidden(known, voids, room, hand):  # type: ignore[no-untyped-def]
    """Give each hidden card to a hand that can hold it; return whether every card has a place.

    Cards that only one hand can hold are placed first. This is exact for two hidden hands; there
    are three only before the opening lead, when no voids are known.

    known: bit mask of the cards that are not hidden. voids: as `kernels.VOIDS`. room: (4,) number
    of hidden cards of each position; 0 afterwards. hand: (4,) output, hidden cards by position.
    """
    hand[:] = 0
    hidden_hand = room > 0
    for forced in (True, False):
        for card in range(CARDS):
            if (known | hand[0] | hand[1] | hand[2] | hand[3]) >> card & 1:
                continue
            places, place = 0, -1
            for position in range(4):
                able = not voids >> (4 * position + card // TRICKS) & 1
                places += hidden_hand[position] and able
                if room[position] and able:
                    place = position
            if forced and places > 1:
                continue
            if place < 0:
                return False
            hand[place] |= np.int64(1) << card
            room[place] -= 1
    return True
