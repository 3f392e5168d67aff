"""Walk over a game of hidden bids, such as Goofspiel with imperfect information.

The possible bids and results of a seat are the same for all prizes shown. A view is therefore a
pair: the prizes shown, and a bid history, which is the seat's own bids and results. The pairs of
both seats' last decisions are listed once. The walk goes over the orders of the prizes, and for
each over this list.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import factorial
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, HiddenBidGame, Observations, UserError
from overtrick.solvers.walks.game_walk import GameWalk, Pair, Views

VERSION = 1  # increase it when the order of the views of an unchanged game changes
MAX_CARDS = 7
MAX_ENDS = 2**31  # then a seat has at most 2^26 sequences
MAX_PARTS = 32
RESULTS = 3  # a round is lost, tied or won


class BidHistories(NamedTuple):
    """The M bid histories of a round: a seat's bids and results in the k rounds before it."""

    key: Array  # (M,) int64 number of each history, ascending; see _extended_key
    bids: Array  # (M, k) cards
    results: Array  # (M, k) 1 won, 0 tied, -1 lost
    parent: Array  # (M,) sequence that leads there, counted from the first with the same prizes


class LastDecisions(NamedTuple):
    """The E pairs of both seats' last decisions, and the results of all rounds of seat 0."""

    sequences: Pair  # (E,) int32 for each seat, counted from the first with the same prizes
    results: Array  # (E,) int16 row of _all_results


def check_size(game: HiddenBidGame) -> None:
    """Raise UserError for a game that is too large for a walk."""
    named = f"{game.name} with {game.cards} cards"
    if game.cards > MAX_CARDS:
        raise UserError(f"{named}: exact evaluation allows at most {MAX_CARDS}")
    ends = len(game.prize_orders()) * factorial(game.cards) ** 2
    if ends > MAX_ENDS:
        raise UserError(
            f"{named} has {ends:,} terminal histories, more than the {MAX_ENDS:,} of exact "
            "evaluation"
        )


class HiddenBidWalk(GameWalk):
    """Walk over a game of hidden bids with N cards, and its views.

    Views are ordered by round, by the prizes shown, and by bid history. Both seats have the same
    views.
    """

    game: HiddenBidGame

    def __init__(self, game: HiddenBidGame) -> None:
        """Number the views. Raises UserError for a game that is too large."""
        check_size(game)
        self.game = game
        self.rounds = range(game.cards - 1)  # the last prize needs no decision
        self.orders = np.unique(game.prize_orders(), axis=0)
        self.shown = [np.unique(self.orders[:, : t + 1], axis=0) for t in self.rounds]
        self.histories, self.last = _list_histories(game.cards)
        views = np.array([len(self.shown[t]) * len(self.histories[t].key) for t in self.rounds])
        cards = game.cards - np.arange(game.cards - 1)  # of a seat in each round
        self.first_view = np.concatenate([[0], np.cumsum(views)])
        self.first_sequence = np.concatenate([[0], np.cumsum(views * cards)])
        start = np.concatenate([[0], np.cumsum(np.repeat(cards, views))])
        parent = np.concatenate([self._parents(t) for t in self.rounds])
        self.views = (Views(start.astype(np.int32), parent.astype(np.int32)),) * 2
        self.ends = len(self.orders) * len(self.last.results)
        self.parts = min(len(self.orders), MAX_PARTS)
        self.rules = hashlib.sha256(f"{VERSION} {self.orders.tolist()}".encode()).hexdigest()[:16]
        self._results = _all_results(game.cards)

    def _parents(self, t: int) -> Array:
        """Return (N,) 1 + the sequence before each view of a round; 0 in the first round."""
        if t == 0:
            return np.zeros(len(self.shown[0]), np.int64)
        before = _find_rows(self.shown[t - 1], self.shown[t][:, :-1])
        sequences = len(self.histories[t - 1].key) * (self.game.cards - t + 1)
        places = before[:, None] * sequences + self.histories[t].parent
        return 1 + self.first_sequence[t - 1] + places.ravel()

    def gradients(
        self,
        plans: Pair,
        threads: int = 1,
        progress: Callable[[int], None] = lambda percent: None,
    ) -> Pair:
        points = np.zeros_like(plans[0]), np.zeros_like(plans[1])
        with ThreadPoolExecutor(threads) as pool:
            walks = pool.map(lambda part: self._add_part(plans, points, part), range(self.parts))
            for done, _ in enumerate(walks, 1):
                progress(100 * done // self.parts)
        return points

    def _add_part(self, plans: Pair, points: Pair, part: int) -> None:
        """Add the points of one part of the orders; parts write disjoint entries, without locks."""
        begin, end = (len(self.orders) * each // self.parts for each in (part, part + 1))
        size = 2 * len(self.histories[-1].key)
        for order in range(begin, end):
            first = 1 + self.first_sequence[-2] + order * size
            here = slice(first, first + size)
            gains = np.sign(self._results @ self.orders[order]) / len(self.orders)
            _add_points(
                self.last, gains, plans[0][here], plans[1][here], points[0][here], points[1][here]
            )

    def observations(self, seat: int, begin: int, end: int) -> Observations:
        cards = self.game.cards
        prizes = np.zeros((end - begin, cards - 1), np.int64)
        bids, results = (np.zeros((end - begin, cards - 2), np.int64) for _ in range(2))
        for t in self.rounds:
            number = np.arange(max(begin, self.first_view[t]), min(end, self.first_view[t + 1]))
            histories = self.histories[t]
            shown, history = np.divmod(number - self.first_view[t], len(histories.key))
            prizes[number - begin, : t + 1] = self.shown[t][shown]
            bids[number - begin, :t] = histories.bids[history]
            results[number - begin, :t] = histories.results[history]
        return self.game.view_observations(seat, np.hstack([prizes, bids, results]))

    def probabilities(self, strategy: Array, observations: Observations) -> Array:
        cards, legal = self.game.cards, observations.legal
        assert legal is not None
        view = observations.observation[:, 1:].astype(np.int64)
        prizes, bids, results = np.split(view, [cards - 1, 2 * cards - 3], axis=1)
        probs = np.zeros(legal.shape)
        played = (bids != 0).sum(axis=1)
        for t in self.rounds:
            rows = np.flatnonzero(played == t)
            key = np.zeros(len(rows), np.int64)
            for k in range(t):
                key = _extended_key(key, bids[rows, k], results[rows, k])
            shown = _find_rows(self.shown[t], prizes[rows, : t + 1])
            history = np.searchsorted(self.histories[t].key, key)
            number = self.first_view[t] + shown * len(self.histories[t].key) + history
            places = self.views[0].start[number][:, None] + np.arange(cards - t)
            row, action = np.nonzero(legal[rows])
            probs[rows[row], action] = strategy[places].ravel()
        return probs


def _list_histories(cards: int) -> tuple[list[BidHistories], LastDecisions]:
    """Return the histories of each round, and all pairs of last decisions of both seats."""
    key = np.zeros(1, np.int64)
    nothing = np.zeros((1, 0), np.int64)
    histories = [BidHistories(key, nothing, nothing, np.zeros(1, np.int64))]
    # of all J pairs of histories in a round: both histories, bits of cards used, and past results
    history: Pair = np.zeros(1, np.int32), np.zeros(1, np.int32)
    used: Pair = history
    past = np.zeros(1, np.int16)
    while True:
        rows, bids = _all_bids(used, cards)
        result = np.sign(bids[0] - bids[1])
        before = history[0][rows], history[1][rows]
        used = used[0][rows], used[1][rows]
        past = past[rows] * np.int16(RESULTS) + (result + 1).astype(np.int16)
        if len(histories) == cards - 1:
            break
        known = histories[-1].key
        keys = [
            _extended_key(known[before[seat]], bids[seat], won)
            for seat, won in enumerate((result, -result))
        ]
        histories.append(_extended_histories(histories[-1], np.unique(keys[0]), cards))
        found = [np.searchsorted(histories[-1].key, each).astype(np.int32) for each in keys]
        history = found[0], found[1]
        used = used[0] | 1 << bids[0], used[1] | 1 << bids[1]
    full = sum(range(1, cards + 1))
    left = [full - _sum_of_cards(each, cards) - bid for each, bid in zip(used, bids, strict=True)]
    past = past * np.int16(RESULTS) + (np.sign(left[0] - left[1]) + 1).astype(np.int16)
    first, second = (
        (2 * before[seat] + (bids[seat] > left[seat])).astype(np.int32) for seat in range(2)
    )
    return histories, LastDecisions((first, second), past)


def _all_bids(used: Pair, cards: int) -> tuple[Array, Pair]:
    """Combine all pairs of bids with all pairs of histories.

    `used`: (J,) bit masks of the cards that each seat has bid. Returns (I,) the pair of histories,
    and the bids (I,) of both seats.
    """
    rows, bids = [], []
    for bid in itertools.product(range(1, cards + 1), repeat=2):
        here = np.flatnonzero(~(used[0] >> bid[0] | used[1] >> bid[1]) & 1)
        rows.append(here)
        bids.append(np.tile(np.array(bid, np.int32), (len(here), 1)))
    both = np.concatenate(bids)
    return np.concatenate(rows), (both[:, 0], both[:, 1])


def _extended_key(key: Array, bid: Array, result: Array) -> Array:
    """Return the keys (R,) of histories that continue others by a round."""
    return (key * (MAX_CARDS + 1) + bid) * RESULTS + result + 1


def _extended_histories(before: BidHistories, key: Array, cards: int) -> BidHistories:
    """Return the histories with sorted keys (M,), which continue the histories of a round."""
    rest, result = np.divmod(key, RESULTS)
    rest, bid = np.divmod(rest, MAX_CARDS + 1)
    last = np.searchsorted(before.key, rest)
    lower = (before.bids[last] < bid[:, None]).sum(axis=1)
    own = cards - before.bids.shape[1]  # cards of a seat in that round
    return BidHistories(
        key,
        np.column_stack([before.bids[last], bid]),
        np.column_stack([before.results[last], result - 1]),
        last * own + bid - 1 - lower,
    )


def _sum_of_cards(used: Array, cards: int) -> Array:
    """Return (R,) the sum of the cards whose bits are set."""
    return sum(((used >> card & 1) * card for card in range(1, cards + 1)), np.zeros_like(used))


def _all_results(cards: int) -> Array:
    """Return (3^N, N) all results of N rounds for seat 0: -1 lost, 0 tied, 1 won."""
    return np.array(list(itertools.product((-1, 0, 1), repeat=cards)))


def _find_rows(table: Array, rows: Array) -> Array:
    """Return (R,) the index of each row (R, k) in a table (P, k) of cards.

    The rows of the table are in lexicographic order, and every row is one of them.
    """
    weights = (MAX_CARDS + 1) ** np.arange(table.shape[1])[::-1]
    return np.searchsorted(table @ weights, rows @ weights)


@njit(cache=True, nogil=True)
def _add_points(last, gains, plan, other_plan, points, other_points):  # type: ignore[no-untyped-def]
    """Add the points of all ends of one order of the prizes to the gradients of both seats.

    - `last`: LastDecisions
    - `gains`: (3^N,) points of seat 0 by the results of all rounds, times the order's probability
    - `plan`, `points`: part of the realisation plan and of the gradient of seat 0; the others are
      those of seat 1
    """
    own, other = last.sequences
    for end in range(len(own)):
        gain = gains[last.results[end]]
        points[own[end]] += gain * other_plan[other[end]]
        other_points[other[end]] -= gain * plan[own[end]]
