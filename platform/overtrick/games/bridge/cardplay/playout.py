"""Whole games in one kernel: for those who play by rules or at random, with nobody to ask."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, Deals, ray_metrics
from overtrick.games.bridge.cardplay.kernels import (
    LED,
    OBS_OWN,
    OBSERVATION_WIDTH,
    TRICKS_WON,
    TURN,
    initial_tables,
    play_card,
    write_observation,
)
from overtrick.games.bridge.cardplay.rule_defenders import rule_card
from overtrick.games.bridge.cards import CARDS, draw_card, hand_bits
from overtrick.games.bridge.trick_rules import NO_CARD, playable_cards

PLAYERS = ("random", "rules")
"""Who can play here: any lawful card, or by defenders.RULES."""


def play_out(deals: Deals, declarer: str, defenders: str, rng: Generator) -> tuple[Array, Array]:
    """Games played from the opening lead to the last card.

    deals (G, 54) as MiniBridge has them, or all with the same fewer cards, -1 where nobody holds
    one; each side one of PLAYERS. Returns the cards (G, 52), or fewer, int8 in the order played,
    and (G,) the tricks of the declaring side.
    """
    held = hand_bits(deals[:, :CARDS])
    by_rule = np.array([PLAYERS.index(declarer), PLAYERS.index(defenders)], np.int64)
    cards = np.empty((len(deals), (deals[0, :CARDS] >= 0).sum()), np.int8)
    won = np.empty(len(deals), np.int64)
    strain, needed = deals[:, CARDS].astype(np.int64), deals[:, CARDS + 1].astype(np.int64)
    _play_out(held, strain, needed, by_rule, cards, won, rng)
    ray_metrics.count_games(len(deals))
    return cards, won


@njit(cache=True)
def choose_card(facts, led, by_rule, rng):  # type: ignore[no-untyped-def]
    """The card of one who plays by rules, or else at random."""
    if by_rule:
        card = rule_card(facts)
        if card != NO_CARD:
            return card
    return draw_card(playable_cards(facts[OBS_OWN], led), rng)


@njit(cache=True)
def _play_out(held, strain, needed, by_rule, cards, won, rng):  # type: ignore[no-untyped-def]
    facts = np.empty(OBSERVATION_WIDTH, np.int64)
    played, trick, now = initial_tables(held, strain, needed)
    for game in range(len(held)):
        table = now[game]
        for k in range(cards.shape[1]):
            write_observation(held[game], played[game], trick[game], table, facts)
            card = choose_card(facts, table[LED], by_rule[table[TURN] % 2], rng)
            cards[game, k] = card
            play_card(card, held[game], played[game], trick[game], table)
        won[game] = table[TRICKS_WON]
