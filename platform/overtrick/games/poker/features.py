"""Network inputs (features) of the poker games, listed by index.

Hold'em, F = 72, as in RLCard's limit-holdem:

    0..51   1 for hole cards and visible board cards; 13 for each suit (spades, hearts, diamonds,
            clubs): ace, 2, 3, ..., king
    52..71  raises in each of the 4 rounds, one-hot from 0 to 4; 0 raises in later rounds

Hold'em with the option view=strength, F = 37:

    0..9    percentile of the hole cards among all hole cards on this board, thermometer-coded:
            column k is 1 above (k + 1) / 10, 0 below k / 10, and linear between
    10..12  own chips and the other seat's chips in the pot, as a fraction of the maximum; whether
            there is a bet to call
    13..16  round, one-hot
    17..36  raises in each of the 4 rounds, one-hot from 0 to 4

Leduc (leduc, leduc_textbook), F = 36, as in RLCard's leduc-holdem:

    0..2    hole card, one-hot by rank (J, Q, K)
    3..5    board card, one-hot by rank; all zero before it is dealt
    6..20   own chips in the pot, one-hot from 0 to 14
    21..35  the other seat's chips in the pot, one-hot from 0 to 14

Leduc with the option view=history, F = 36 (leduc), 29 (leduc_textbook):

    0..5    hole card and board card as above
    6..7    seat, one-hot
    8..     each of up to 7 actions so far, one-hot: 4 columns each in leduc, 3 in leduc_textbook;
            0 where there was no action yet

Games without a board (kuhn, one_card), F = ranks + betting nodes:

    0..ranks-1   hole card, one-hot by rank
    ranks..      node of the betting tree, one-hot

A privileged critic, which sees all cards, has these features in addition:

    0       1 if the seat to act would win a showdown without a tie
    1       1 if the seat to act would lose a showdown
    2..3    own chips and the other seats' chips in the pot, as a fraction of the maximum

In hold'em these features follow:

    4..7    round, one-hot
    8..9    before the flop: percentile of the hole cards of the seat to act, and of the other seat
    10..11  the same on the flop
    12..13  the same on the turn

In the other games these features follow:

    4..     rank of the hole card of each seat, one-hot, beginning with the seat to act
    ..      rank of the board card, one-hot, in a game with a board
"""

from __future__ import annotations

from functools import cache

import numpy as np

from overtrick.core import Array, Observations
from overtrick.games.poker.betting_tree import BettingTree
from overtrick.games.poker.deck import RANKS, SUITS
from overtrick.games.poker.rules import CHIP_COLUMNS, PokerRules

TENTHS = 10  # columns of the thermometer-coded percentile
CARDS = np.arange(RANKS * SUITS)
PLACE = (SUITS - 1 - CARDS % SUITS) * RANKS + (CARDS // SUITS + 1) % RANKS
"""Feature index (52,) of each card; cards are numbered 2c, 2d, 2h, 2s, 3c, ..., As."""


def card_feature_count(rules: PokerRules, view: str) -> int:
    """Return the number of features that depend only on cards; they precede all other features.

    `view`: how hold'em's features represent cards: as cards (`cards`) or by the percentile of the
        hole cards (`strength`). Other games have `cards` only.
    """
    if rules.best_five:
        return len(PLACE) if view == "cards" else TENTHS
    return rules.ranks * (2 if sum(rules.board) else 1)


def rank_features(rules: PokerRules, nodes: int, ranked: Array) -> Array:
    """Return the features (R, F) float32 of games with one hole card for each seat.

    nodes: B, the number of nodes of the betting tree. ranked: (R, K) observations with ranks
    instead of cards.
    """
    rows = np.arange(len(ranked))
    hole, board, own, other, _, node = ranked.T
    ranks = rules.ranks
    if not sum(rules.board):
        out = np.zeros((len(ranked), ranks + nodes), np.float32)
        out[rows, ranks + node] = 1
    else:
        out = np.zeros((len(ranked), 2 * ranks + 2 * CHIP_COLUMNS), np.float32)
        turned = board >= 0
        out[rows[turned], ranks + board[turned]] = 1
        out[rows, 2 * ranks + own] = 1
        out[rows, 2 * ranks + CHIP_COLUMNS + other] = 1
    out[rows, hole] = 1
    return out


def history_features(rules: PokerRules, betting: BettingTree, ranked: Array) -> Array:
    """Return the features (R, F) float32 of Leduc with the option view=history.

    The features are the ranks of both cards, the seat, and all actions so far. ranked: (R, K)
    observations with ranks instead of cards.
    """
    rows = np.arange(len(ranked))
    hole, board, node = ranked[:, 0], ranked[:, 1], ranked[:, -1]
    cards = np.zeros((len(ranked), 2 * rules.ranks), np.float32)
    cards[rows, hole] = 1
    cards[rows[board >= 0], rules.ranks + board[board >= 0]] = 1
    seat = np.eye(len(rules.posts), dtype=np.float32)[betting.seat[node]]
    return np.hstack([cards, seat, _actions_so_far(betting)[node]])


@cache
def _actions_so_far(betting: BettingTree) -> Array:
    """Return the actions from the root to each of B nodes, one-hot: (B, longest path x A).

    The rows of terminal nodes are 0.
    """
    decisions = np.flatnonzero(betting.seat >= 0)
    longest = max(len(betting.history[node]) for node in decisions)
    out = np.zeros((len(betting.history), longest, betting.after.shape[1]), np.float32)
    for node in decisions:
        path = betting.history[node]
        out[node, np.arange(len(path)), list(path)] = 1
    return out.reshape(len(out), -1)


def card_features(rules: PokerRules, betting: BettingTree, seen: Array) -> Array:
    """Return the features (R, F) float32 of hold'em with the option view=cards.

    The features are the visible cards and the raises in each round. seen: (R, K) observations.
    """
    rows, counts = np.arange(len(seen)), np.cumsum([0] + [cap + 1 for cap in rules.caps])
    cards = seen[:, : rules.hole + sum(rules.board)]
    cards = np.where(cards < 0, cards[:, :1], cards)  # repeat a hole card for hidden board cards
    out = np.zeros((len(seen), len(PLACE) + counts[-1]), np.float32)
    out[rows[:, None], PLACE[cards]] = 1
    out[rows[:, None], len(PLACE) + counts[:-1] + betting.raised[seen[:, -1]]] = 1
    return out


def strength_features(rules: PokerRules, betting: BettingTree, seen: Array) -> Array:
    """Return the features (R, F) float32 of hold'em with the option view=strength.

    The features are the percentile of the hole cards on this board instead of the cards themselves,
    the chips in the pot, the round, and the raises in each round. seen: (R, K) observations.
    """
    from overtrick.games.poker.holdem.hand_percentile import percentiles  # builds tables

    strength = percentiles(seen[:, : rules.hole], seen[:, rules.hole : -4])
    own, other = seen[:, -4], seen[:, -3]
    columns = [
        (TENTHS * strength[:, None] - np.arange(TENTHS)).clip(0, 1),
        np.stack([own / rules.most_chips, other / rules.most_chips, other > own], axis=1),
        np.eye(len(rules.board))[seen[:, -2]],
        card_features(rules, betting, seen)[:, len(PLACE) :],
    ]
    return np.hstack(columns).astype(np.float32)


def privileged_features(
    rules: PokerRules, observations: Observations, deals: Array, ranks: Array, hands: Array
) -> Array:
    """Return the features (R, F) float32 that a privileged critic has in addition to a policy.

    deals: (R, C) all cards of each row's game. ranks: (R, C) the ranks of these cards.
    hands: (R, S) strength of each seat's hand at a showdown, below 0 if the seat has folded.
    """
    seat, seen = observations.seat, observations.observation
    rows, seats = np.arange(len(seat)), len(rules.posts)
    best = hands.max(axis=1, keepdims=True)
    own = hands[rows, seat] == best[:, 0]
    alone = (hands == best).sum(axis=1) == 1
    most = rules.most_chips
    known = [own & alone, ~own, seen[:, -4] / most, seen[:, -3] / most]
    order = (seat[:, None] + np.arange(seats)) % seats
    board = seats * rules.hole
    if rules.best_five:
        from overtrick.games.poker.holdem.hand_percentile import SHOWN, percentiles

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
        known += list(np.eye(rules.ranks)[shown].reshape(len(seat), shown.shape[1] * rules.ranks).T)
    return np.stack(known, axis=1).astype(np.float32)
