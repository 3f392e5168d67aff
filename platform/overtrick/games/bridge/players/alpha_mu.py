"""Alpha-mu search for the declarer: a cure for strategy fusion in searches over sampled deals.

Perfect-information Monte Carlo takes the best continuation in each sampled deal, as if the declarer
could tell the deals apart. Alpha-mu chooses the same card in all deals that look alike during the
next M moves of the declaring side, and solves double dummy only after them. The opponents are
assumed to see all cards.

A vector has the utility of one strategy in each deal. A position has a Pareto front of vectors,
none of which is at least as good as another in every deal.

Source: Cazenave and Ventos 2020, "The alpha-mu search algorithm for the game of bridge".
Differences: utilities are numbers instead of contracts made or not; fronts are cut to the MAX_FRONT
vectors of highest mean, which can only lower a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from overtrick.core import Array
from overtrick.games.bridge import double_dummy
from overtrick.games.bridge.cards import CARDS, SUIT_MASK, TRICKS
from overtrick.games.bridge.trick_rules import NO_CARD, beats

MAX_FRONT = 12  # vectors of a front
TIED = 1e-9  # means that differ by less are equal


@dataclass(frozen=True)
class Position:
    """A position of card play in W possible deals that look alike to the declarer."""

    hand: Array  # (W, 4) cards held by each position, relative to the declarer, as bit masks
    trick: Array  # (4,) card of each position in the current trick, or NO_CARD
    leader: int  # position that leads to the trick
    won: int  # tricks won by the declaring side
    strain: int  # 0 to 4

    @property
    def turn(self) -> int:
        """Return the position to play."""
        return (self.leader + int((self.trick != NO_CARD).sum())) % 4

    @property
    def over(self) -> bool:
        """Return whether all cards have been played."""
        return not self.hand[0].any()

    def legal(self) -> Array:
        """Return the legal cards (W,) of the hand to play, as bit masks."""
        held, led = self.hand[:, self.turn], self.trick[self.leader]
        if led == NO_CARD:
            return held
        same = held & np.int64(SUIT_MASK << (TRICKS * (led // TRICKS)))
        return np.where(same != 0, same, held)

    def after(self, card: int, rows: Array) -> Position:
        """Return the position after a card, in the deals `rows` in which it is legal."""
        turn, trick = self.turn, self.trick.copy()
        hand = self.hand[rows].copy()
        hand[:, turn] &= ~np.int64(1 << card)
        trick[turn] = card
        if (trick == NO_CARD).any():
            return Position(hand, trick, self.leader, self.won, self.strain)
        winner = self.leader
        for k in range(1, 4):
            if beats(trick[(self.leader + k) % 4], trick[winner], self.strain):
                winner = (self.leader + k) % 4
        empty = np.full(4, NO_CARD)
        return Position(hand, empty, winner, self.won + (winner % 2 == 0), self.strain)

    def outcomes(self, utility: Array) -> Array:
        """Return (W, 52) the utility of each legal card, double dummy after it; others -inf."""
        size = len(self.hand)
        tricks = double_dummy.card_tricks(
            self.hand, np.full(size, self.strain), np.full(size, self.leader),
            np.tile(self.trick, (size, 1)),
        ).astype(np.int64)  # fmt: skip
        left = int(np.bitwise_count(self.hand[0, self.leader])) + int(self.trick[self.leader] >= 0)
        declaring = self.won + (tricks if self.turn % 2 == 0 else left - tricks)
        return np.where(tricks >= 0, utility[np.clip(declaring, 0, TRICKS)], -np.inf)


def alpha_mu(position: Position, utility: Array, weight: Array, moves: int) -> Array:
    """Return (52,) the value of each card for the declaring side, which is to play.

    The value is the weighted mean utility if cards are chosen alike in all deals that look alike
    for `moves` moves of the declaring side, this one included. Cards that are not best have -inf,
    and of cards without an outstanding card between them only the lowest has a value.

    utility: (14,) of the tricks of the declaring side. weight: (W,) probability of each deal.
    """
    outcomes = position.outcomes(utility)
    bound = weight @ np.where(np.isfinite(outcomes), outcomes, -1e9)
    cards = [card for card in _choices(position) if np.isfinite(outcomes[0, card])]
    values, best = np.full(CARDS, -np.inf), -np.inf
    for card in sorted(cards, key=lambda each: -bound[each]):
        if bound[card] < best - TIED:
            break
        if moves == 1:
            values[card] = bound[card]
        else:
            start = outcomes[None, :, card].copy()
            front = _front(
                position.after(card, np.arange(len(weight))),
                utility,
                weight,
                moves - 1,
                start,
                best,
            )
            values[card] = (front @ weight).max()
        best = max(best, values[card])
    return np.where(values < best - TIED, -np.inf, values)


def _choices(position: Position) -> Iterator[int]:
    """Yield the cards of the hand to play, of neighbours only the lowest, if its hand is visible.

    Neighbours have no card of another hand or of the current trick between them.
    """
    own = int(position.hand[0, position.turn])
    others = int(np.bitwise_or.reduce(position.hand[0])) & ~own
    for card in position.trick:
        others |= 0 if card == NO_CARD else 1 << int(card)
    for suit in range(4):
        below = False  # whether the next lower card in play is own
        for rank in range(TRICKS):
            bit = 1 << (TRICKS * suit + rank)
            if own & bit and not below:
                yield TRICKS * suit + rank
            if (own | others) & bit:
                below = bool(own & bit)


def _front(
    position: Position, utility: Array, weight: Array, moves: int, bound: Array, enough: float
) -> Array:
    """Return the front (F, W) of a position: the utility of each strategy in each deal.

    moves: moves of the declaring side before the deals are solved double dummy. bound: (1, W)
    utilities that no strategy exceeds. enough: the search may stop once no strategy has a higher
    mean; its result is then a bound.
    """
    if position.over:
        return np.minimum(bound, utility[position.won])
    if position.turn % 2 == 0:
        if moves == 1:
            outcomes = position.outcomes(utility)
            cards = np.flatnonzero(np.isfinite(outcomes[0]))
            return _undominated(np.minimum(outcomes[:, cards].T, bound), weight, MAX_FRONT)
        rows = np.arange(len(weight))
        fronts = [
            _front(position.after(card, rows), utility, weight, moves - 1, bound, enough)
            for card in _choices(position)
            if position.legal()[0] >> card & 1
        ]
        return _undominated(np.concatenate(fronts), weight, MAX_FRONT)
    legal, joined = position.legal(), bound
    for card in range(CARDS):
        rows = np.flatnonzero(legal >> card & 1)
        if not len(rows):
            continue
        within = joined.max(axis=0)[None, rows]
        child = _front(position.after(card, rows), utility, weight[rows], moves, within, -np.inf)
        joined = _join(joined, child, rows, weight)
        if (joined @ weight).max() < enough - TIED:
            break
    return joined


@njit(cache=True)
def _join(front, child, rows, weight):  # type: ignore[no-untyped-def]
    """Return the front of an opponent's choice, who takes the worse for the declarer in each deal.

    front: (F, W) of the cards so far. child: (C, R) of one more card, legal in the deals `rows`.
    """
    found = np.empty((len(front) * len(child), front.shape[1]))
    for a in range(len(front)):
        for b in range(len(child)):
            vector = found[a * len(child) + b]
            vector[:] = front[a]
            for k in range(len(rows)):
                vector[rows[k]] = min(vector[rows[k]], child[b, k])
    return _undominated(found, weight, MAX_FRONT)


@njit(cache=True)
def _undominated(vectors, weight, most):  # type: ignore[no-untyped-def]
    """Return the vectors that no other one equals or exceeds in every deal, at most `most`.

    vectors: (F, W). weight: (W,); vectors of the highest means are kept.
    """
    means = np.zeros(len(vectors))
    for k in range(len(vectors)):
        for w in range(len(weight)):
            means[k] += weight[w] * vectors[k, w]
    kept = np.empty(most, np.int64)
    count = 0
    for k in np.argsort(-means):
        dominated = False
        for j in range(count):
            if (vectors[kept[j]] >= vectors[k]).all():
                dominated = True
                break
        if not dominated:
            kept[count] = k
            count += 1
            if count == most:
                break
    return vectors[kept[:count]]
