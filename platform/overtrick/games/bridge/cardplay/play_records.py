"""Convert recorded card play (deals, and cards in the order played) to Trajectories, and back."""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array, Deals, Trajectories
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cards import CARDS
from overtrick.games.bridge.trick_rules import playable_cards


def decision_trajectories(
    deals: Deals, cards: Array, positions: tuple[int, ...], reward: Array
) -> Trajectories:
    """Convert G recorded games to Trajectories: one trajectory per game.

    A trajectory contains all decisions of the given positions in the order played. All of them get
    the seat `positions[0]`: the decisions of declarer and dummy, for example, get the declarer's.

    deals: (G, 54) the position that holds each of the 52 cards, the strain, and the number of
        tricks needed.
    cards: (G, 52), or fewer columns, legal cards in the order played.
    positions: hands whose decisions are returned: 0 declarer, 1 left-hand defender, 2 dummy, 3
        right-hand defender.
    reward: (G,) one number per game. `Trajectories.reward` has it at each decision of the game, as
        Hadjur 2018, Algorithm 1 does, and not only at the last one.
    """
    games, each = len(deals), cards.shape[1] // 4 * len(positions)
    chosen = np.isin(np.arange(4), positions)
    observation = np.empty((games * each, kernels.OBSERVATION_WIDTH), np.int64)
    legal = np.empty((games * each, CARDS), np.bool_)
    action = np.empty(games * each, np.int64)
    _write_decisions(*kernels.initial_tables(deals), cards, chosen, observation, legal, action)
    game = np.repeat(np.arange(games), each)
    last = np.arange(len(game)) % each == each - 1
    seat, logp = np.full(len(game), positions[0]), np.zeros(len(game))
    reward = np.repeat(reward, each)
    return Trajectories(games, game, seat, observation, legal, None, action, logp, reward, last)


def cards_in_play_order(batch: Trajectories) -> Array:
    """Return the cards (G, 52) int8 of G games in the order played.

    batch: trajectories that contain the decisions of all four hands.
    """
    cards = np.empty((batch.games, CARDS), np.int8)
    cards[batch.game, batch.observation[:, kernels.OBS_COUNT]] = batch.action
    return cards


@njit(cache=True)
def _write_decisions(  # type: ignore[no-untyped-def]
    hand, played, trick, progress, cards, chosen, observation, legal, action
):
    row = 0
    for game in range(len(hand)):
        table = hand[game], played[game], trick[game], progress[game]
        for k in range(cards.shape[1]):
            card = np.int64(cards[game, k])
            if chosen[progress[game, kernels.TURN]]:
                kernels.write_observation(*table, observation[row])
                own, led = observation[row, kernels.OBS_OWN], progress[game, kernels.LED]
                kernels.write_cards(playable_cards(own, led), legal[row])
                action[row] = card
                row += 1
            kernels.play_card(card, *table)
