"""Rule-based defenders of card play, by rules of thumb (Hadjur 2018, section 4.1).

A rule maps the situation of a defender to a card, or to NO_CARD if it does not apply. The first
rule of `RULES` that applies decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit

from overtrick.core import Array, BehaviouralPolicy, Observations, select_rows
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS, SUIT_MASK, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD, beats, playable_cards
from overtrick.policies.memoryless import MemorylessPolicy

Rule = Callable[..., int]
"""(hand, legal, place, led, best, dummy, strain) -> card. hand, legal: the sets of held cards and
of legal ones. place: 0 for the leader of the trick to 3 for the last to play. led: the card led;
best: the card that wins the trick so far. dummy: its cards if it has yet to play, else 0."""


@njit(cache=True)
def last_hand_takes_the_trick(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Last to play: play the cheapest card that wins the trick, even from partner."""
    return _cheapest(legal, best, strain) if place == 3 else NO_CARD


@njit(cache=True)
def beaten_hand_plays_low(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """If no card of the suit led wins the trick, play the lowest one."""
    if place == 0 or not legal & _suit(led // TRICKS):
        return NO_CARD
    return _lowest(legal) if _cheapest(legal, best, strain) == NO_CARD else NO_CARD


@njit(cache=True)
def second_hand_plays_low(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Second to play: play the lowest card of the suit led."""
    return _lowest(legal) if place == 1 and legal & _suit(led // TRICKS) else NO_CARD


@njit(cache=True)
def third_hand_plays_high(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Third to play: play the cheapest card above the best so far and all of dummy's cards.

    If there is none, play the cheapest card that wins the trick so far.
    """
    if place != 2 or not legal & _suit(led // TRICKS):
        return NO_CARD
    highest = _highest(dummy & _suit(led // TRICKS))
    if highest != NO_CARD and beats(highest, best, strain):
        card = _cheapest(legal, highest, strain)
        if card != NO_CARD:
            return card
    return _cheapest(legal, best, strain)


@njit(cache=True)
def leader_plays_the_top_of_a_sequence(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Leader: play the top of the best two honours in a row (ten or higher).

    Of equal sequences choose the one in the longer suit.
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
    """Leader: play the fourth highest card of the longest suit, or its lowest if it has fewer."""
    if place != 0:
        return NO_CARD
    longest = 0
    for suit in range(1, 4):
        if count_cards(hand & _suit(suit)) >= count_cards(hand & _suit(longest)):
            longest = suit
    held = hand & _suit(longest)
    for _ in range(3):
        if held & (held - 1):  # more than one card
            held ^= np.int64(1) << _highest(held)
    return _highest(held)


RULES: tuple[Rule, ...] = (
    last_hand_takes_the_trick,
    beaten_hand_plays_low,
    second_hand_plays_low,
    third_hand_plays_high,
    leader_plays_the_top_of_a_sequence,
    leader_plays_fourth_best,
)
"""The rules in order of precedence. None applies to a hand that cannot follow suit, unless it plays
last; it discards or ruffs at random."""


@njit(cache=True)
def _suit(suit):  # type: ignore[no-untyped-def]
    return np.int64(SUIT_MASK) << (TRICKS * suit)


@njit(cache=True)
def _lowest(cards):  # type: ignore[no-untyped-def]
    """Return the card of lowest rank in a set; of equal ranks, the card of the lower suit."""
    best = NO_CARD
    for card in range(CARDS):
        if cards >> card & 1 and (best == NO_CARD or card % TRICKS < best % TRICKS):
            best = card
    return best


@njit(cache=True)
def _highest(cards):  # type: ignore[no-untyped-def]
    """Return the card of the highest number in a set, or NO_CARD if it is empty."""
    for card in range(CARDS - 1, -1, -1):
        if cards >> card & 1:
            return card
    return NO_CARD


@njit(cache=True)
def _cheapest(cards, best, strain):  # type: ignore[no-untyped-def]
    """Return the card of lowest rank in a set that beats the best card so far, or NO_CARD."""
    able = np.int64(0)
    for card in range(CARDS):
        if cards >> card & 1 and beats(card, best, strain):
            able |= np.int64(1) << card
    return _lowest(able)


def combine_rules(rules: tuple[Rule, ...]) -> Any:
    """Return one compiled rule that answers as the first of the rules that applies."""
    first, *rest = rules
    if not rest:
        return first
    others = combine_rules(tuple(rest))

    @njit(cache=True)
    def decide(hand, legal, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
        card = first(hand, legal, place, led, best, dummy, strain)
        if card != NO_CARD:
            return card
        return others(hand, legal, place, led, best, dummy, strain)

    return decide


ALL_RULES = combine_rules(RULES)


@njit(cache=True)
def rule_card(observation):  # type: ignore[no-untyped-def]
    """Return the card that RULES choose at one observation (K,) of MiniBridge, or NO_CARD."""
    return ALL_RULES(*_situation(observation))


@njit(cache=True)
def _situation(observation):  # type: ignore[no-untyped-def]
    """Return the arguments of a rule for one observation (K,)."""
    position, place = observation[kernels.OBS_POSITION], observation[kernels.OBS_COUNT] % 4
    led, best = kernels.led_card(observation), NO_CARD
    if place:
        best = observation[kernels.OBS_TRICK + kernels.winning_position(observation)]
    dummy_to_play = (2 - position + place) % 4 > place
    dummy = observation[kernels.OBS_SHOWN] if dummy_to_play else 0
    own, strain = observation[kernels.OBS_OWN], observation[kernels.OBS_STRAIN]
    return own, playable_cards(own, led), place, led, best, dummy, strain


def rule_agreement(observations: Observations, action: Array) -> dict[str, tuple[int, int]]:
    """Count by rule how often it applied to a real choice, and how often its card was played.

    The player of each row may be of either side; the rules treat it as a defender. action: (R,).
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
    """Write (R, 52) card probabilities: 1 for a rule's card, else uniform over legal cards."""
    for row in range(len(observation)):
        situation = _situation(observation[row])
        card, legal = ALL_RULES(*situation), situation[1]
        if card != NO_CARD:
            probs[row, card] = 1
        else:
            kernels.write_cards(legal, probs[row])
            probs[row] /= count_cards(legal)


class RuleDefender(MemorylessPolicy):
    """Policy of a defender that plays by RULES, and uniformly at random where none applies."""

    def probs(self, observations: Observations) -> Array:
        """Return (R, 52) probabilities of the cards."""
        probs = np.zeros((len(observations), CARDS))
        _write_probs(observations.observation, probs)
        return probs


class PolicyByPosition(MemorylessPolicy):
    """Policy of a side whose two hands are played by two policies, chosen by position."""

    def __init__(self, by_position: Mapping[int, BehaviouralPolicy]) -> None:
        self.by_position = by_position

    def probs(self, observations: Observations) -> Array:
        """Return (R, 52) probabilities of the cards, from the policy of each row's position."""
        probs = np.zeros((len(observations), CARDS))
        for position, policy in self.by_position.items():
            rows = np.flatnonzero(observations.observation[:, kernels.OBS_POSITION] == position)
            if len(rows):
                probs[rows] = policy.probs(select_rows(observations, rows))
        return probs
