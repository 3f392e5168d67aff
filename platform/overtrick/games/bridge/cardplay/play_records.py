"""Games kept as who held which card and the cards in order: what their players decided."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, Deals, Trajectories
from overtrick.games.bridge.cardplay.kernels import (
    LED,
    OBS_COUNT,
    OBS_OWN,
    OBSERVATION_WIDTH,
    TURN,
    initial_tables,
    play_card,
    write_observation,
)
from overtrick.games.bridge.cards import CARDS, hand_bits
from overtrick.games.bridge.trick_rules import playable_cards


def decision_trajectories(
    deals: Deals, cards: Array, positions: tuple[int, ...], worth: Array
) -> Trajectories:
    """What some positions decided in whole games, as one seat, each with the same reward.

    deals (G, 54); cards (G, 52) in the order played, all lawful, or fewer in all games; worth (G,)
    the reward of every decision of a game.
    """
    games, each = len(deals), cards.shape[1] // 4 * len(positions)
    held = hand_bits(deals[:, :CARDS])
    tables = initial_tables(
        held, deals[:, CARDS].astype(np.int64), deals[:, CARDS + 1].astype(np.int64)
    )
    watched = np.isin(np.arange(4), positions)
    seen = np.empty((games * each, OBSERVATION_WIDTH), np.int64)
    legal = np.empty((games * each, CARDS), np.bool_)
    action = np.empty(games * each, np.int64)
    _decisions(held, *tables, cards, watched, seen, legal, action)
    game = np.repeat(np.arange(games), each)
    last = np.arange(len(game)) % each == each - 1
    seat = np.full(len(game), positions[0])
    certain = np.zeros(len(game))
    return Trajectories(
        games, game, seat, seen, legal, None, action, certain, np.repeat(worth, each), last
    )


def cards_in_play_order(batch: Trajectories) -> Array:
    """(G, 52) int8 the cards in the order played, of games whose every decision was kept."""
    cards = np.empty((batch.games, CARDS), np.int8)
    cards[batch.game, batch.observation[:, OBS_COUNT]] = batch.action
    return cards


@njit(cache=True)
def _decisions(  # type: ignore[no-untyped-def]
    held, played, trick, now, cards, watched, seen, legal, action
):
    row = 0
    for game in range(len(held)):
        for k in range(cards.shape[1]):
            chosen = np.int64(cards[game, k])
            if watched[now[game, TURN]]:
                write_observation(held[game], played[game], trick[game], now[game], seen[row])
                may = playable_cards(seen[row, OBS_OWN], now[game, LED])
                for card in range(CARDS):
                    legal[row, card] = may >> card & 1
                action[row] = chosen
                row += 1
            play_card(chosen, held[game], played[game], trick[game], now[game])
