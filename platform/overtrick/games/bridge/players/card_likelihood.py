"""Compute the probability of the cards that hidden hands have played, in many possible deals.

A player is assumed to play by the rules of `careful_player` with one probability, a card that is
best double dummy with another, and otherwise any legal card.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge import double_dummy
from overtrick.games.bridge.cardplay import kernels
from overtrick.games.bridge.cardplay.defence_signals import signalling_card
from overtrick.games.bridge.cards import CARDS, TRICKS, count_cards
from overtrick.games.bridge.trick_rules import NO_CARD, playable_cards


@njit(cache=True)
def rule_likelihood(hands, counted, cards, strain, signals):  # type: ignore[no-untyped-def]
    """Return two arrays (W, K) about K played cards in W deals, or -1 where a deal forbids a card.

    First the probability that a player plays the card by the rules of `careful_player` and its
    signals: the card that they name and the others of its unbroken sequence are equally likely.
    Then the number of legal cards. Both are 1 for cards of hands that do not count.

    hands: (W, 4) dealt hands by position, as bit masks. counted: (4,) bool, the positions that
    count. cards: (K,) in the order played. strain: 0 to 4. signals: (4, 2), see
    `signals_by_position`.
    """
    likely = np.ones((len(hands), len(cards)))
    choices = np.ones((len(hands), len(cards)))
    observation = np.empty(kernels.OBSERVATION_WIDTH, np.int64)
    hand, played, trick = np.empty(4, np.int64), np.empty(4, np.int64), np.empty(4, np.int64)
    progress = np.empty(kernels.PROGRESS_WIDTH, np.int64)
    for row in range(len(hands)):
        hand[:], played[:], trick[:], progress[:] = hands[row], 0, NO_CARD, 0
        progress[kernels.LED], progress[kernels.TURN] = NO_CARD, 1
        progress[kernels.STRAIN] = strain
        for k in range(len(cards)):
            card, turn = cards[k], progress[kernels.TURN]
            if counted[turn]:
                able = playable_cards(hand[turn], progress[kernels.LED])
                if not able >> card & 1:
                    likely[row, k:], choices[row, k:] = -1, -1
                    break
                choices[row, k] = count_cards(able)
                if choices[row, k] > 1:
                    kernels.write_observation(hand, played, trick, progress, observation)
                    equal = _touching(hand[turn], signalling_card(observation, signals))
                    likely[row, k] = 1 / count_cards(equal) if equal >> card & 1 else 0.0
            kernels.play_card(card, hand, played, trick, progress)
    return likely, choices


@njit(cache=True)
def _touching(hand, card):  # type: ignore[no-untyped-def]
    """Return the unbroken sequence of a hand that contains one of its cards, as a bit mask."""
    low, high = card, card
    while low % TRICKS and hand >> (low - 1) & 1:
        low -= 1
    while high % TRICKS < TRICKS - 1 and hand >> (high + 1) & 1:
        high += 1
    return (np.int64(1) << (high + 1)) - (np.int64(1) << low)


@njit(cache=True)
def playing_positions(cards, strain):  # type: ignore[no-untyped-def]
    """Return the positions (K,) that play the first K cards of a board.

    Positions are 0 declarer, 1 left-hand defender, 2 dummy, 3 right-hand defender. cards: (K,) in
    the order played, from the opening lead on. strain: 0 to 4, in the order C, D, H, S, NT.
    """
    turns = np.empty(len(cards), np.int64)
    hand, played, trick = np.zeros(4, np.int64), np.zeros(4, np.int64), np.full(4, NO_CARD)
    progress = np.zeros(kernels.PROGRESS_WIDTH, np.int64)
    progress[kernels.LED], progress[kernels.TURN] = NO_CARD, 1
    progress[kernels.STRAIN] = strain
    for k in range(len(cards)):
        turns[k] = progress[kernels.TURN]
        hand[turns[k]] |= np.int64(1) << cards[k]
        kernels.play_card(cards[k], hand, played, trick, progress)
    return turns


def best_likelihood(
    hands: Array, counted: Array, cards: Array, turns: Array, strain: int, first: int
) -> Array:
    """Return (W, K) the probability of each of K cards if players choose among their best cards.

    The best cards are those of most tricks, double dummy in the deal. The probability is 1 for
    cards of hands that do not count, and for the cards before index `first`.

    hands: (W, 4) dealt hands by position, as bit masks, in which all K cards are legal. counted:
    (4,) bool, the positions that count. cards, turns: (K,) in the order played, and the position
    that plays each. strain: 0 to 4.
    """
    likely = np.ones((len(hands), len(cards)))
    columns = [k for k in range(first, len(cards)) if counted[turns[k]]]
    if not columns or not len(hands):
        return likely
    held, leaders, tricks = [], [], []
    for k in columns:
        start = k - k % 4
        played = np.zeros(4, np.int64)
        np.bitwise_or.at(played, turns[:k], np.int64(1) << cards[:k].astype(np.int64))
        trick = np.full(4, NO_CARD)
        trick[turns[start:k]] = cards[start:k]
        held.append(hands & ~played)
        leaders.append(np.full(len(hands), turns[start]))
        tricks.append(np.tile(trick, (len(hands), 1)))
    found = double_dummy.card_tricks(
        np.concatenate(held), np.full(len(hands) * len(columns), strain),
        np.concatenate(leaders), np.concatenate(tricks),
    ).reshape(len(columns), len(hands), CARDS)  # fmt: skip
    for k, after in zip(columns, found, strict=True):
        best = after == after.max(axis=1, keepdims=True)
        likely[:, k] = best[:, cards[k]] / best.sum(axis=1)
    return likely
