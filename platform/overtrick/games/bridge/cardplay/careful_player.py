"""Scripted card player `careful`: it follows rules of thumb, and never discards at random.

Unlike `rule_defenders`, it leaves tricks to its partner and ruffs. It keeps as many cards of a long
suit as the other visible hand, guards its honours, and discards aces and trumps last. It plays all
four hands.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, Observations
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS, NOTRUMP, SUIT_MASK, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import (
    NO_CARD,
    beats,
    cheapest_winner,
    highest_card,
    lowest_card,
    playable_cards,
    suit_cards,
)
from overtrick.policies.memoryless import MemorylessPolicy

NINE, TEN, JACK, QUEEN, KING, ACE = 7, 8, 9, 10, 11, 12  # ranks


@njit(cache=True)
def careful_card(observation):  # type: ignore[no-untyped-def]
    """Return the card that a careful player plays at one observation (K,) of MiniBridge."""
    own, shown = observation[kernels.OBS_OWN], observation[kernels.OBS_SHOWN]
    strain, position = observation[kernels.OBS_STRAIN], observation[kernels.OBS_POSITION]
    place, led = observation[kernels.OBS_COUNT] % 4, kernels.led_card(observation)
    unseen = ((np.int64(1) << CARDS) - 1) & ~kernels.seen_cards(observation)
    if place == 0:
        if observation[kernels.OBS_COUNT] == 0:
            return opening_lead(own, strain)
        return _later_lead(own, shown, unseen, strain, position)
    legal = playable_cards(own, led)
    winner = kernels.winning_position(observation)
    best = observation[kernels.OBS_TRICK + winner]
    partner_wins = winner % 2 == position % 2
    # dummy's cards if dummy plays later in this trick, and the player is a defender
    after = shown if (2 - position) % 4 < 4 - place and position % 2 else np.int64(0)
    if legal & suit_cards(led // TRICKS):
        return _follow(legal, place, led, best, partner_wins, after, unseen, strain)
    trumps = legal & suit_cards(strain) if strain != NOTRUMP else np.int64(0)
    if trumps and not (partner_wins and (place == 3 or best % TRICKS >= KING)):
        ruff = cheapest_winner(trumps, best, strain)
        if ruff != NO_CARD:
            return ruff
    return discard(own, shown, strain)


@njit(cache=True)
def opening_lead(own, strain):  # type: ignore[no-untyped-def]
    """Return the opening lead from a hand: a sequence, a singleton, or the fourth-best card.

    Each suit is scored: length and touching honours count for it, and in a trump contract also a
    singleton; an ace without the king counts against it there.
    """
    suit, value = 0, -1000
    for k in range(4):
        held = own >> (TRICKS * k) & SUIT_MASK
        length = count_cards(held)
        if length == 0 or k == strain:
            continue
        points = 4 * length + held % 2  # the parity of the deuce breaks ties
        touching = held & held >> 1
        if strain == NOTRUMP:
            points += 3 * (touching >> TEN != 0)
        else:
            points += 12 * (touching >> QUEEN != 0) + 6 * (touching >> TEN != 0)
            points += 15 * (length == 1) - 14 * (held >> ACE & 1 and not held >> KING & 1)
        if points > value:
            suit, value = k, points
    return lead_from(own & suit_cards(suit) if value > -1000 else own, strain)


@njit(cache=True)
def lead_from(held, strain):  # type: ignore[no-untyped-def]
    """Return the card to lead from one suit: the top of touching honours, else the fourth best.

    Of two or three small cards it is the highest, of three with an honour the lowest. An ace is
    never underled against a trump contract. held: bit mask of cards of one suit.
    """
    top = highest_card(held)
    ranks = held >> (top // TRICKS * TRICKS)
    length = count_cards(held)
    touching = ranks & ranks >> 1
    for rank in range(ACE - 1, TEN - 1, -1):
        if touching >> rank & 1 and (rank + 1 == top % TRICKS or length >= 3):
            return top // TRICKS * TRICKS + rank + 1
    if strain != NOTRUMP and top % TRICKS == ACE:
        return top
    if length <= 2 or (length == 3 and top % TRICKS < TEN):
        return top
    if length == 3:
        return lowest_card(held)
    for _ in range(3):
        held ^= np.int64(1) << highest_card(held)
    return highest_card(held)


@njit(cache=True)
def _later_lead(own, shown, unseen, strain, position):  # type: ignore[no-untyped-def]
    """Return the card to lead after the first trick.

    Lead a master from the suit in which the side holds the most masters; else lead from a long side
    suit, preferably without an ace. unseen: cards that the opponents may hold.
    """
    theirs = unseen | (shown if position % 2 else np.int64(0))
    ours = own | (np.int64(0) if position % 2 else shown)
    best, value = NO_CARD, -1000
    for suit in range(4):
        held = own >> (TRICKS * suit) & SUIT_MASK
        if held == 0:
            continue
        against = theirs >> (TRICKS * suit) & SUIT_MASK
        both = ours >> (TRICKS * suit) & SUIT_MASK
        masters = both & ~SUIT_MASK
        for rank in range(ACE, -1, -1):
            if against >> rank & 1:
                break
            masters |= both & (np.int64(1) << rank)
        length = count_cards(held)
        if masters & held:
            points = 100 + 10 * count_cards(masters) + length
            card = TRICKS * suit + _top(masters & held)
        else:
            points = 4 * length - 10 * (suit == strain) - 6 * (held >> ACE & 1)
            card = lead_from(own & suit_cards(suit), NOTRUMP)
        if points > value:
            best, value = card, points
    return best


@njit(cache=True)
def _follow(legal, place, led, best, partner_wins, after, unseen, strain):  # type: ignore[no-untyped-def]
    """Return the card to play in the suit led.

    Last hand wins as cheaply as it can, unless its partner wins. Third hand beats the trick and
    dummy, unless partner's card is as good. Second hand plays low, but covers an honour with the
    queen or a higher honour.

    after: dummy's cards if it plays after this hand. unseen: cards that this hand does not see.
    """
    low, cheapest = lowest_card(legal), cheapest_winner(legal, best, strain)
    if cheapest == NO_CARD or (place == 3 and partner_wins):
        return low
    if place == 3:
        return cheapest
    if place == 2:
        led_suit = suit_cards(led // TRICKS)
        return _third_hand(legal, best, partner_wins, after, unseen & led_suit, led_suit, strain)
    covers = TEN <= best % TRICKS < ACE and cheapest % TRICKS >= QUEEN
    return cheapest if covers else low


@njit(cache=True)
def _third_hand(legal, best, partner_wins, after, unseen, led_suit, strain):  # type: ignore[no-untyped-def]
    """Return the card to play as third hand, which can beat the trick so far.

    after: dummy's cards if it plays after this hand. unseen: cards of the suit led that this hand
    does not see. led_suit: bit mask of the suit led.
    """
    low, cheapest = lowest_card(legal), cheapest_winner(legal, best, strain)
    follows = after & led_suit if after else unseen
    to_beat = highest_card(follows) if follows else NO_CARD
    if partner_wins and (to_beat == NO_CARD or beats(best, to_beat, strain)):
        return low
    if not after:
        return lowest_of_sequence(legal, highest_card(legal))
    if to_beat != NO_CARD and beats(to_beat, best, strain):
        winner = cheapest_winner(legal, to_beat, strain)
        if winner != NO_CARD:
            return winner
    return low if partner_wins else cheapest


@njit(cache=True)
def lowest_of_sequence(cards, card):  # type: ignore[no-untyped-def]
    """Return the lowest card of the unbroken sequence in `cards` that goes down from `card`."""
    while card % TRICKS and cards >> (card - 1) & 1:
        card -= 1
    return card


@njit(cache=True)
def discard(own, shown, strain):  # type: ignore[no-untyped-def]
    """Return the card to throw away when the suit led cannot be followed.

    It is the lowest card of the suit with the most cards to spare: more than needed to guard an
    honour and to keep the length of the other visible hand. Aces and trumps are thrown last.
    """
    best, value = NO_CARD, -10_000
    for suit in range(4):
        held = own >> (TRICKS * suit) & SUIT_MASK
        if held == 0:
            continue
        length = count_cards(held)
        other = count_cards(shown >> (TRICKS * suit) & SUIT_MASK)
        guard = 0
        for below in range(1, 4):  # a king needs one card beside it, a queen two, a jack three
            if held >> (ACE - below) & 1:
                guard = max(guard, below + 1)
        spare = length - max(guard, other if other >= 4 else 0)
        low = lowest_card(own & suit_cards(suit))
        points = 20 * spare - 3 * (low % TRICKS)
        if suit == strain:
            points -= 2000
        if low % TRICKS == ACE:
            points -= 1000
        elif low % TRICKS >= QUEEN:
            points -= 100
        if points > value:
            best, value = low, points
    return best


@njit(cache=True)
def _top(ranks):  # type: ignore[no-untyped-def]
    """Return the highest rank of a non-empty bit mask of ranks."""
    rank = ACE
    while not ranks >> rank & 1:
        rank -= 1
    return rank


@njit(cache=True)
def _write_probs(observation, probs):  # type: ignore[no-untyped-def]
    for row in range(len(observation)):
        probs[row, careful_card(observation[row])] = 1


class CarefulPlayer(MemorylessPolicy):
    """Policy of MiniBridge that plays the card of `careful_card`, in any of the four hands."""

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 52): 1 for the card that a careful player plays."""
        probs = np.zeros((len(observations), CARDS))
        _write_probs(observations.observation, probs)
        return probs
