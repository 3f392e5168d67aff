"""Claims: end a bridge board early, once its remaining tricks are settled."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge import double_dummy
from overtrick.games.bridge.auction_rules import NO_SEAT
from overtrick.games.bridge.board_state import BridgeState
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import NOTRUMP, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import highest_card, lowest_card, suit_cards


def end_settled_boards(state: BridgeState, games: Array) -> None:
    """End the boards among `games` that are settled after a trick; changes the state in place.

    A board is settled if the hand to lead holds only cards that no other hand can beat, or if all
    players know all hands. The remaining tricks are then those of perfect play.
    """
    settled = games[_are_settled(games, state.declarer, state.hand, state.progress, state.over)]
    if not len(settled):
        return
    progress = state.progress[settled]
    leader, strain = progress[:, kernels.TURN], progress[:, kernels.STRAIN]
    won = double_dummy.remaining_tricks(state.hand[settled], strain, leader)
    state.progress[settled, kernels.TRICKS_WON] += won
    state.over[settled] = True


@njit(cache=True)
def _are_settled(games, declarer, hand, progress, over):  # type: ignore[no-untyped-def]
    """Return (R,) bool: whether each board is settled, after a trick that is not the last."""
    settled = np.zeros(len(games), np.bool_)
    for row in range(len(games)):
        game = games[row]
        count = progress[game, kernels.CARDS_PLAYED]
        if not over[game] and declarer[game] != NO_SEAT and count > 0 and count % 4 == 0:
            settled[row] = _leader_wins_all(hand[game], progress[game]) or _all_hands_known(
                hand[game], progress[game]
            )
    return settled


@njit(cache=True)
def _leader_wins_all(hand, progress):  # type: ignore[no-untyped-def]
    """Return whether no other hand, partner's included, can beat any card of the hand to lead.

    hand: (4,) cards of each position. progress: (8,) as in `kernels`.
    """
    leader, strain = progress[kernels.TURN], progress[kernels.STRAIN]
    own, others = hand[leader], np.int64(0)
    for k in range(1, 4):
        others |= hand[(leader + k) % 4]
    for suit in range(4):
        ours, against = own & suit_cards(suit), others & suit_cards(suit)
        if ours and against and lowest_card(ours) < highest_card(against):
            return False
    trumps = suit_cards(strain) if strain != NOTRUMP else np.int64(0)
    return others & trumps == 0 or own & ~trumps == 0


@njit(cache=True)
def _all_hands_known(hand, progress):  # type: ignore[no-untyped-def]
    """Return whether all players know all hands, after a trick.

    A player knows both hidden hands if every card of one is in a suit in which the other is known
    to be void. hand: (4,) cards of each position. progress: (8,) as in `kernels`.
    """
    voids, left = progress[kernels.VOIDS], TRICKS - progress[kernels.CARDS_PLAYED] // 4
    for pair in ((1, 3), (0, 3), (0, 1)):  # hidden from the declarer, and from each defender
        forced = [0, 0]  # number of cards that only this hand of the pair can hold
        for suit in range(4):
            for k in range(2):
                if voids >> (4 * pair[1 - k] + suit) & 1:
                    forced[k] += count_cards(hand[pair[k]] & suit_cards(suit))
        if forced[0] != left and forced[1] != left:
            return False
    return True
