"""Rule-based defenders of card play, with rules of thumb from Hadjur 2018, section 4.1.

A rule is a function from a defender's cards and the current trick to the card to play, or to
NO_CARD if the rule does not apply. The defender plays the card of the first rule in `RULES` that
applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit

from overtrick.core import Array, BehaviouralPolicy, Observations, select_rows
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS, SUIT_MASK, TRICKS, count_cards
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

Rule = Callable[..., int]
"""Function (hand, legal, place, led, best, dummy, strain) -> card. Arguments:

    hand, legal  bit masks of the held cards and of the legal cards
    place        place in the trick, from 0 (leader) to 3 (last to play)
    led, best    the card led, and the card that wins the trick so far, or NO_CARD
    dummy        dummy's cards if dummy has still to play to the trick, otherwise 0
    strain       strain of the contract
"""


@njit(cache=True)
def last_hand_takes_the_trick(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Return the lowest winning card if last to play, even if partner is winning the trick.

    Return NO_CARD if no card wins, or if the player is not the last. `Rule` explains the arguments.
    """
    return cheapest_winner(legal, best, strain) if place == 3 else NO_CARD


@njit(cache=True)
def beaten_hand_plays_low(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Return the lowest card of the suit led if no own card of this suit beats the trick so far.

    Return NO_CARD if an own card does, if the hand has no card of the suit led, or if the player
    leads. `Rule` explains the arguments.
    """
    if place == 0 or not legal & suit_cards(led // TRICKS):
        return NO_CARD
    return lowest_card(legal) if cheapest_winner(legal, best, strain) == NO_CARD else NO_CARD


@njit(cache=True)
def second_hand_plays_low(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Return the lowest card of the suit led if second to play.

    Return NO_CARD if the player is not the second, or if the hand has no card of the suit led.
    `Rule` explains the arguments.
    """
    return lowest_card(legal) if place == 1 and legal & suit_cards(led // TRICKS) else NO_CARD


@njit(cache=True)
def third_hand_plays_high(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Return the lowest card that beats the trick so far and dummy's best card, if third to play.

    If no card beats both, return the lowest card that beats the trick so far. Return NO_CARD if
    there is none, if the player is not the third, or if the hand has no card of the suit led.
    `Rule` explains the arguments.
    """
    if place != 2 or not legal & suit_cards(led // TRICKS):
        return NO_CARD
    highest = highest_card(dummy & suit_cards(led // TRICKS))
    if highest != NO_CARD and beats(highest, best, strain):
        card = cheapest_winner(legal, highest, strain)
        if card != NO_CARD:
            return card
    return cheapest_winner(legal, best, strain)


@njit(cache=True)
def leader_plays_the_top_of_a_sequence(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Return the higher card of the leader's highest pair of adjacent honours in one suit.

    Honours are the ten or higher. Of equally high pairs, choose the pair in the longer suit. Return
    NO_CARD if there is no such pair, or if the player does not lead. `Rule` explains the arguments.
    """
    if place != 0:
        return NO_CARD
    chosen, value = NO_CARD, 0
    for suit in range(4):
        held = hand >> (TRICKS * suit) & SUIT_MASK
        top = NO_CARD
        for rank in range(9, TRICKS):
            if held >> rank & held >> (rank - 1) & 1:
                top = rank
        suit_value = 100 * top + count_cards(held)
        if top != NO_CARD and suit_value > value:
            chosen, value = TRICKS * suit + top, suit_value
    return chosen


@njit(cache=True)
def leader_plays_fourth_best(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Return the fourth highest card of the longest suit if the player leads.

    If this suit has fewer than four cards, as in an ending, return its lowest card. Of equally long
    suits, choose the higher suit. Return NO_CARD if the player does not lead. `Rule` explains the
    arguments.
    """
    if place != 0:
        return NO_CARD
    longest = 0
    for suit in range(1, 4):
        if count_cards(hand & suit_cards(suit)) >= count_cards(hand & suit_cards(longest)):
            longest = suit
    held = hand & suit_cards(longest)
    for _ in range(3):
        if held & (held - 1):  # more than one card
            held ^= np.int64(1) << highest_card(held)
    return highest_card(held)


RULES: tuple[Rule, ...] = (
    last_hand_takes_the_trick,
    beaten_hand_plays_low,
    second_hand_plays_low,
    third_hand_plays_high,
    leader_plays_the_top_of_a_sequence,
    leader_plays_fourth_best,
)
"""The rules in order of precedence. No rule applies to a hand that cannot follow suit, unless it
plays last; the hand then discards or ruffs at random."""


def combine_rules(rules: tuple[Rule, ...]) -> Any:
    """Combine rules into one compiled rule, which returns the card of the first applicable rule.

    The result is not cached on disk: numba's cache confuses closures of one function.
    """
    first, *rest = rules
    if not rest:
        return first
    others = combine_rules(tuple(rest))

    @njit
    def decide(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
        card = first(hand, legal, place, led, best, dummy, strain)
        if card != NO_CARD:
            return card
        return others(hand, legal, place, led, best, dummy, strain)

    return decide


@njit(cache=True)
def first_applicable_card(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Return the card of the first of RULES that applies, or NO_CARD; see `Rule`."""
    card = last_hand_takes_the_trick(hand, legal, place, led, best, dummy, strain)
    if card == NO_CARD:
        card = beaten_hand_plays_low(hand, legal, place, led, best, dummy, strain)
    if card == NO_CARD:
        card = second_hand_plays_low(hand, legal, place, led, best, dummy, strain)
    if card == NO_CARD:
        card = third_hand_plays_high(hand, legal, place, led, best, dummy, strain)
    if card == NO_CARD:
        card = leader_plays_the_top_of_a_sequence(hand, legal, place, led, best, dummy, strain)
    if card == NO_CARD:
        card = leader_plays_fourth_best(hand, legal, place, led, best, dummy, strain)
    return card


@njit(cache=True)
def rule_card(observation):  # type: ignore[no-untyped-def]
    """Return the card of the first rule that applies at one observation (K,), or NO_CARD."""
    return first_applicable_card(*_situation(observation))


@njit(cache=True)
def _situation(observation):  # type: ignore[no-untyped-def]
    """Return the cards and the trick at one observation (K,), as the arguments of a `Rule`."""
    position, place = observation[kernels.OBS_POSITION], observation[kernels.OBS_COUNT] % 4
    led, best = kernels.led_card(observation), NO_CARD
    if place:
        best = observation[kernels.OBS_TRICK + kernels.winning_position(observation)]
    dummy_to_play = (2 - position + place) % 4 > place
    dummy = observation[kernels.OBS_SHOWN] if dummy_to_play else 0
    own, strain = observation[kernels.OBS_OWN], observation[kernels.OBS_STRAIN]
    return own, playable_cards(own, led), place, led, best, dummy, strain


def rule_agreement(observations: Observations, action: Array) -> dict[str, tuple[int, int]]:
    """Count, for each rule by name, how often it applied and how often its card was played.

    A rule applies if it returns a card, even if an earlier rule applies too. Decisions with only
    one legal card are not counted. Decisions of the declaring side are counted as if the player
    were a defender. action: (R,) the cards played.
    """
    counts = {rule.__name__: [0, 0] for rule in RULES}
    assert observations.legal is not None
    for row in np.flatnonzero(observations.legal.sum(axis=1) > 1):
        situation = _situation(observations.observation[row])
        for rule in RULES:
            card = rule(*situation)
            if card != NO_CARD:
                counts[rule.__name__][0] += 1
                counts[rule.__name__][1] += card == action[row]
    return {name: (applied, followed) for name, (applied, followed) in counts.items()}


@njit(cache=True)
def _write_probs(observation, probs):  # type: ignore[no-untyped-def]
    """Write the action probabilities of RuleDefender at observations (R, K) to `probs` (R, 52).

    `probs` must contain only zeros.
    """
    for row in range(len(observation)):
        situation = _situation(observation[row])
        card, legal = first_applicable_card(*situation), situation[1]
        if card != NO_CARD:
            probs[row, card] = 1
        else:
            kernels.write_cards(legal, probs[row])
            probs[row] /= count_cards(legal)


class RuleDefender(MemorylessPolicy):
    """Policy that plays the card of the first of RULES that applies, else a random legal card."""

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 52): 1 for the card of the first rule that applies.

        If no rule applies, they are uniform over the legal cards.
        """
        probs = np.zeros((len(observations), CARDS))
        _write_probs(observations.observation, probs)
        return probs


class PolicyByPosition(MemorylessPolicy):
    """Policy that delegates each decision to the policy of the hand to play.

    by_position: policy of each hand: 0 declarer, 1 left-hand defender, 2 dummy, 3 right-hand
    defender.
    """

    def __init__(self, by_position: Mapping[int, BehaviouralPolicy]) -> None:
        self.by_position = by_position

    def probs(self, observations: Observations) -> Array:
        """Return action probabilities (R, 52), each row from the policy of the hand to play."""
        probs = np.zeros((len(observations), CARDS))
        for position, policy in self.by_position.items():
            rows = np.flatnonzero(observations.observation[:, kernels.OBS_POSITION] == position)
            if len(rows):
                probs[rows] = policy.probs(select_rows(observations, rows))
        return probs
