"""Facts of a poker game as numbers for a network, documented index by index.

Games whose hands are the best five of their cards (holdem), F = 72, as RLCard's limit-holdem:

    0..51   own cards and those turned on the board; 13 a suit (spades, hearts, diamonds, clubs),
            in each suit the ace, 2, 3, ..., the king
    52..71  raises so far, one-hot from 0 to 4 in each of the 4 rounds; 0 in a round not reached

The same with the option view=strength, F = 37:

    0..9    percentile of the own cards among all that the board allows, as a thermometer: column k
            is 1 above (k + 1) / 10, 0 below k / 10, and linear between
    10..12  own chips in the pot and the others', as a share of the most that go there; whether
            there is a bet to call
    13..16  round, one-hot
    17..36  raises so far, as above

Other games with a board (leduc, leduc_textbook), F = 36, as RLCard's leduc-holdem:

    0..2    hole card, one-hot by rank (J, Q, K)
    3..5    board card, one-hot by rank; all zero before it is turned
    6..20   own chips in the pot, one-hot from 0 to 14
    21..35  the other seat's chips in the pot, one-hot from 0 to 14

Games without a board (kuhn, one_card), F = ranks + betting nodes:

    0..ranks-1   hole card, one-hot by rank
    ranks..      node of the betting table, one-hot

A critic that judges finished games sees behind these, as `in_hindsight` gives them:

    0..3    the showdown, if it comes to one: won alone, lost; chips in the pot, as a share of the
            most that go there: the row's own and the others'
    4..     the best five cards: round, one-hot, and of the row's seat and then of each seat after
            it the percentile on the board before the flop, after it, and after the turn;
            else: the rank of each seat's hole card in this order, and then of the board, one-hot
"""

from __future__ import annotations

import numpy as np

from overtrick.core import Array
from overtrick.games.poker.betting_tree import BettingTree
from overtrick.games.poker.hand_ranking import RANKS, SUITS
from overtrick.games.poker.holdem.hand_percentile import SHOWN, percentiles
from overtrick.games.poker.rules import PokerRules

CHIPS = 15
TENTHS = 10  # columns of a thermometer
CARDS = np.arange(RANKS * SUITS)
PLACE = (SUITS - 1 - CARDS % SUITS) * RANKS + (CARDS // SUITS + 1) % RANKS
"""(52,) the index of each card: suits are c d h s and ranks 2 to A in its number."""


def card_feature_count(rules: PokerRules, view: str) -> int:
    """How many of the features hang on cards and nothing else: the first ones."""
    if rules.best_five:
        return len(PLACE) if view == "cards" else TENTHS
    return rules.ranks * (2 if sum(rules.board) else 1)


def rank_features(rules: PokerRules, nodes: int, ranked: Array) -> Array:
    """(R, F) float32 features of (R, K) facts, cards as ranks; nodes is B of the betting table."""
    rows = np.arange(len(ranked))
    hole, board, own, other, _, node = ranked.T
    ranks = rules.ranks
    if not sum(rules.board):
        out = np.zeros((len(ranked), ranks + nodes), np.float32)
        out[rows, ranks + node] = 1
    else:
        out = np.zeros((len(ranked), 2 * ranks + 2 * CHIPS), np.float32)
        turned = board >= 0
        out[rows[turned], ranks + board[turned]] = 1
        out[rows, 2 * ranks + own] = 1
        out[rows, 2 * ranks + CHIPS + other] = 1
    out[rows, hole] = 1
    return out


def card_features(rules: PokerRules, betting: BettingTree, seen: Array) -> Array:
    """(R, F) float32 features of (R, K) facts, suits told apart."""
    rows, counts = np.arange(len(seen)), np.cumsum([0] + [cap + 1 for cap in rules.caps])
    cards = seen[:, : rules.hole + sum(rules.board)]
    cards = np.where(cards < 0, cards[:, :1], cards)  # not turned yet: an own card once more
    out = np.zeros((len(seen), len(PLACE) + counts[-1]), np.float32)
    out[rows[:, None], PLACE[cards]] = 1
    out[rows[:, None], len(PLACE) + counts[:-1] + betting.raised[seen[:, -1]]] = 1
    return out


def strength_features(rules: PokerRules, betting: BettingTree, seen: Array) -> Array:
    """(R, F) float32 features of (R, K) facts that tell of the cards how strong they are."""
    strength = percentiles(seen[:, : rules.hole], seen[:, rules.hole : -4])
    own, other = seen[:, -4], seen[:, -3]
    told = [
        (TENTHS * strength[:, None] - np.arange(TENTHS)).clip(0, 1),
        np.stack([own / most_chips(rules), other / most_chips(rules), other > own], axis=1),
        np.eye(len(rules.board))[seen[:, -2]],
        card_features(rules, betting, seen)[:, len(PLACE) :],
    ]
    return np.hstack(told).astype(np.float32)


def most_chips(rules: PokerRules) -> int:
    """The most that one seat can have in the pot."""
    return max(rules.posts) + sum(r * cap for r, cap in zip(rules.raises, rules.caps, strict=True))


def privileged_features(
    rules: PokerRules, seat: Array, seen: Array, deals: Array, ranks: Array, hands: Array
) -> Array:
    """(R, F) float32 what whole deals (R, C) tell of rows of these seats and facts.

    ranks (R, C) are the cards' ranks, and hands (R, S) their strength at a showdown.
    """
    rows, seats = np.arange(len(seat)), len(rules.posts)
    best = hands.max(axis=1, keepdims=True)
    own = hands[rows, seat] == best[:, 0]
    alone = (hands == best).sum(axis=1) == 1
    most = most_chips(rules)
    known = [own & alone, ~own, seen[:, -4] / most, seen[:, -3] / most]
    order = (seat[:, None] + np.arange(seats)) % seats
    board = seats * rules.hole
    if rules.best_five:
        known += list(np.eye(len(rules.board))[seen[:, -2]].T)
        up = np.full((len(seat), deals.shape[1] - board), -1)
        for cards in SHOWN:
            up[:, :cards] = deals[:, board : board + cards]
            for other in order.T:
                first = other * rules.hole
                hole = np.stack([deals[rows, first], deals[rows, first + 1]], axis=1)
                known.append(percentiles(hole, up))
    else:
        shown = np.hstack([np.take_along_axis(ranks, order, axis=1), ranks[:, board:]])
        known += list(np.eye(rules.ranks)[shown].reshape(len(seat), -1).T)
    return np.stack(known, axis=1).astype(np.float32)
