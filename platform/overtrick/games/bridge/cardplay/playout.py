"""Play complete games of card play between rule-based or random players, in a compiled kernel."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.random import Generator

from overtrick.core import Array, Deals, ray_metrics
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.careful_player import careful_card
from overtrick.games.bridge.cardplay.rule_defenders import rule_card
from overtrick.games.bridge.cards import CARDS, draw_card
from overtrick.games.bridge.trick_rules import NO_CARD, playable_cards

PLAYERS = ("random", "rules", "careful")
RANDOM, RULES, CAREFUL = range(3)
"""Names of players: `random` plays uniformly among legal cards, `rules` by rule_defenders.RULES,
`careful` by careful_player."""


def play_out(deals: Deals, declarer: str, defenders: str, rng: Generator) -> tuple[Array, Array]:
    """Play G games of card play from the opening lead to the last card.

    Return the cards (G, C) int8 in the order played, and the tricks (G,) won by the declaring side.

    deals: (G, 54) the position that holds each of the 52 cards, the strain, and the number of
        tricks needed. C = 52 cards are in play, or fewer in endings: cards that are out of play
        have position -1. C must be equal in all deals.
    declarer, defenders: player of each side, by its name in PLAYERS.
    """
    players = np.array([PLAYERS.index(declarer), PLAYERS.index(defenders)], np.int64)
    cards = np.empty((len(deals), (deals[0, :CARDS] >= 0).sum()), np.int8)
    won = np.empty(len(deals), np.int64)
    _play_out(*kernels.initial_tables(deals), players, cards, won, rng)
    ray_metrics.count_games(len(deals))
    return cards, won


@njit(cache=True)
def choose_card(observation, led, player, rng):  # type: ignore[no-untyped-def]
    """Choose a legal card at one observation (K,), as a player does.

    player: RANDOM, RULES (which play at random if no rule applies) or CAREFUL. led: the card led to
    the trick, or NO_CARD.
    """
    if player == CAREFUL:
        return careful_card(observation)
    if player == RULES:
        card = rule_card(observation)
        if card != NO_CARD:
            return card
    return draw_card(playable_cards(observation[kernels.OBS_OWN], led), rng)


@njit(cache=True)
def _play_out(hand, played, trick, progress, players, cards, won, rng):  # type: ignore[no-untyped-def]
    observation = np.empty(kernels.OBSERVATION_WIDTH, np.int64)
    for game in range(len(hand)):
        now = progress[game]
        table = hand[game], played[game], trick[game], now
        for k in range(cards.shape[1]):
            kernels.write_observation(*table, observation)
            card = choose_card(observation, now[kernels.LED], players[now[kernels.TURN] % 2], rng)
            cards[game, k] = card
            kernels.play_card(card, *table)
        won[game] = now[kernels.TRICKS_WON]
