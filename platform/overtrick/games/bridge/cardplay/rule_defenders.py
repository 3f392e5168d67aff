"""Defenders that play by rules of thumb (Hadjur 2018, section 4.1).

`RULES` is the order in which they are asked: the first that has an opinion decides. A rule is
given what a defender knows of the trick and answers with a card, or NOTHING.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit

from overtrick.core import Array, BehaviouralPolicy, Observations, select_rows
from overtrick.games.bridge.cardplay.kernels import (
    OBS_COUNT,
    OBS_OWN,
    OBS_POSITION,
    OBS_SHOWN,
    OBS_STRAIN,
    OBS_TRICK,
    winning_position,
)
from overtrick.games.bridge.cards import CARDS, SUIT_MASK, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD, beats, playable_cards
from overtrick.policies.memoryless import MemorylessPolicy

Rule = Callable[..., int]
"""(hand, may, place, led, best, dummy, strain) -> card. hand and may: the cards held, and those of
them that may be played. place: 0 for who leads to the trick, to 3 for who plays last. led: the
card led; best: the one that takes the trick so far. dummy: its cards if it has yet to play."""


@njit(cache=True)
def last_hand_takes_the_trick(hand, may, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Last to play: the cheapest card that takes the trick, whoever has it now."""
    return _cheapest(may, best, strain) if place == 3 else NO_CARD


@njit(cache=True)
def beaten_hand_plays_low(hand, may, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """No card of the suit led takes the trick: the lowest one."""
    if place == 0 or not may & _suit(led // TRICKS):
        return NO_CARD
    return _lowest(may) if _cheapest(may, best, strain) == NO_CARD else NO_CARD


@njit(cache=True)
def second_hand_plays_low(hand, may, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Second to play: the lowest card of the suit led."""
    return _lowest(may) if place == 1 and may & _suit(led // TRICKS) else NO_CARD


@njit(cache=True)
def third_hand_plays_high(hand, may, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """Third to play: the cheapest card above the best so far and all that dummy has; if there is
    none, the cheapest that takes the trick for now."""
    if place != 2 or not may & _suit(led // TRICKS):
        return NO_CARD
    there = dummy & _suit(led // TRICKS)
    above = best
    if there and beats(_highest(there), best, strain):
        above = _highest(there)
    card = _cheapest(may, above, strain)
    return card if card != NO_CARD else _cheapest(may, best, strain)


@njit(cache=True)
def leader_plays_the_top_of_a_sequence(hand, may, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """To lead: the top of the best two honours in a row (ten or higher), of equals in the longer
    suit."""
    if place != 0:
        return NO_CARD
    chosen, value = NO_CARD, 0
    for suit in range(4):
        held = hand >> (TRICKS * suit) & SUIT_MASK
        top = NO_CARD
        for rank in range(9, TRICKS):
            if held >> rank & held >> (rank - 1) & 1:
                top = rank
        worth = 100 * top + count_cards(held)
        if top != NO_CARD and worth > value:
            chosen, value = TRICKS * suit + top, worth
    return chosen


@njit(cache=True)
def leader_plays_fourth_best(hand, may, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
    """To lead: the fourth highest card of the longest suit, its lowest if it has fewer."""
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
"""Where none decides, who cannot follow suit plays any card."""


@njit(cache=True)
def _suit(suit):  # type: ignore[no-untyped-def]
    return np.int64(SUIT_MASK) << (TRICKS * suit)


@njit(cache=True)
def _lowest(cards):  # type: ignore[no-untyped-def]
    """The card of lowest rank; of equals, the lower suit."""
    best = NO_CARD
    for card in range(CARDS):
        if cards >> card & 1 and (best == NO_CARD or card % TRICKS < best % TRICKS):
            best = card
    return best


@njit(cache=True)
def _highest(cards):  # type: ignore[no-untyped-def]
    """The card of the highest number: of one suit, the highest."""
    for card in range(CARDS - 1, -1, -1):
        if cards >> card & 1:
            return card
    return NO_CARD


@njit(cache=True)
def _cheapest(cards, best, strain):  # type: ignore[no-untyped-def]
    """The card of lowest rank that takes the trick from the best so far, or NOTHING."""
    able = np.int64(0)
    for card in range(CARDS):
        if cards >> card & 1 and beats(card, best, strain):
            able |= np.int64(1) << card
    return _lowest(able) if able else NO_CARD


def combine_rules(rules: tuple[Rule, ...]) -> Any:
    """One compiled rule: what the first of some rules says that has an opinion."""
    first, *rest = rules
    if not rest:
        return first
    others = combine_rules(tuple(rest))

    @njit(cache=True)
    def decide(hand, may, place, led, best, dummy, strain):  # type: ignore[no-untyped-def]
        card = first(hand, may, place, led, best, dummy, strain)
        if card != NO_CARD:
            return card
        return others(hand, may, place, led, best, dummy, strain)

    return decide


BY_RULES = combine_rules(RULES)


@njit(cache=True)
def rule_card(facts):  # type: ignore[no-untyped-def]
    """What RULES say to one row of facts (K,) as MiniBridge has them: a card, or NOTHING."""
    return BY_RULES(*_situation(facts))


@njit(cache=True)
def _situation(facts):  # type: ignore[no-untyped-def]
    """One row of facts (K,) as what a rule is given."""
    who, place = facts[OBS_POSITION], facts[OBS_COUNT] % 4
    leader = (who - place) % 4
    led = facts[OBS_TRICK + leader] if place else NO_CARD
    best = facts[OBS_TRICK + winning_position(facts)] if place else NO_CARD
    dummy = facts[OBS_SHOWN] if (2 - leader) % 4 > place else 0  # of no use once it has played
    may = playable_cards(facts[OBS_OWN], led)
    return facts[OBS_OWN], may, place, led, best, dummy, facts[OBS_STRAIN]


def rule_agreement(observations: Observations, action: Array) -> dict[str, tuple[int, int]]:
    """How often each rule had an opinion where there was a choice, and how often its card was
    played: by anybody, as if they defended."""
    found = {rule.__name__: [0, 0] for rule in RULES}
    assert observations.legal is not None
    for row in np.flatnonzero(observations.legal.sum(axis=1) > 1):
        situation = _situation(observations.observation[row])
        for rule in RULES:
            card = rule(*situation)
            if card != NO_CARD:
                found[rule.__name__][0] += 1
                found[rule.__name__][1] += card == action[row]
    return {name: (asked, followed) for name, (asked, followed) in found.items()}


@njit(cache=True)
def _chances(seen, probs):  # type: ignore[no-untyped-def]
    """Write how likely each card (R, 52) is by the rules, from facts (R, K): certain where a rule
    decides, else all lawful cards alike."""
    for row in range(len(seen)):
        situation = _situation(seen[row])
        chosen, may = BY_RULES(*situation), situation[1]
        if chosen != NO_CARD:
            probs[row, chosen] = 1
            continue
        for card in range(CARDS):
            if may >> card & 1:
                probs[row, card] = 1 / count_cards(may)


class RuleDefender(MemorylessPolicy):
    """A defender who plays by RULES, and where none decides any card."""

    def probs(self, observations: Observations) -> Array:
        """(R, 52)."""
        probs = np.zeros((len(observations), CARDS))
        _chances(observations.observation, probs)
        return probs


class PolicyByPosition(MemorylessPolicy):
    """A side whose two hands are played by two policies: those of the positions of this turn."""

    def __init__(self, by_position: Mapping[int, BehaviouralPolicy]) -> None:
        self.by_position = by_position

    def probs(self, observations: Observations) -> Array:
        """(R, 52)."""
        probs = np.zeros((len(observations), CARDS))
        for position, policy in self.by_position.items():
            rows = np.flatnonzero(observations.observation[:, OBS_POSITION] == position)
            if len(rows):
                probs[rows] = policy.probs(select_rows(observations, rows))
        return probs
