"""Walk over all lines of a phantom game, and the game's information sets.

A view is an information set: the cells that a seat has tried, in order, with the outcome of each
attempt. A line is the order in which both seats have made their marks and, in games in which a
failed attempt ends the turn, the turns that failed. In one line, a seat's failed attempts can be at
any of the other seat's marks that are on the board by then and that it has not found yet; they do
not depend on the failed attempts of the other seat. For example, if seat 0 marks a, seat 1 marks b,
and seat 0 marks c, then seat 1 can have found a before or not, and seat 0 can have found b or not:
four histories.

The terminal histories of a line are therefore all pairs of a view of one seat and a view of the
other, and the payoffs of all pairs need only the sum of each seat's reach. The walk goes over lines
with a list of each seat's views, and never over pairs, of which phantom tic-tac-toe has 10^10.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit

from overtrick.core import Array, Observations, PhantomGame, UserError
from overtrick.solvers.walks.game_walk import GameWalk, Pair, Views

MAX_CELLS = 9
MAX_VIEWS, MAX_SEQUENCES = 2**25, 2**26  # of a seat; only pages that are written take memory
MAX_LISTS = 2**16  # entries of the lists of both seats at once
MAX_DEPTH = 2 * MAX_CELLS + 2  # turns: each seat tries a cell at most once
POPCOUNT = np.array([number.bit_count() for number in range(2**MAX_CELLS)], np.int32)
VERSION = 1  # increase it when number_views changes the numbers of an unchanged game
START = -1  # in place of a last attempt: the seat has not tried a cell yet


class PhantomViews(NamedTuple):
    """Views of one seat, see game_walk.Views; its legal actions are the cells not yet known."""

    known: Array  # (N,) int16 bit mask of the cells that the seat knows
    start: Array  # (N + 1,) int32 first sequence of each view; its actions are in ascending order
    parent: Array  # (N,) int32 1 + the sequence before the view; 0: none
    # (2 L,) int32 view after sequence k found a free cell (2 k) or a mark (2 k + 1); -1: none
    after: Array


class Numbering(NamedTuple):
    """Views of both seats, and the number of the game's terminal histories."""

    seats: tuple[PhantomViews, PhantomViews]
    ends: int


def check_size(game: PhantomGame) -> None:
    """Raise UserError for a board of more than 9 cells, or on which a single mark wins."""
    cells = game.wins.shape[1].bit_length() - 1
    if cells > MAX_CELLS:
        raise UserError(
            f"{game.name} has {cells} cells: exact evaluation needs {MAX_CELLS} or less"
        )
    if game.wins[:, 2 ** np.arange(cells)].any():
        raise UserError(f"{game.name}: one mark wins, but exact evaluation needs at least two")


def number_views(
    game: PhantomGame, progress: Callable[[int], None] = lambda percent: None
) -> Numbering:
    """Number the views of both seats by a walk over all lines.

    `progress`: called with the percentage that is done. Raises UserError for a board of more than 9
    cells, of too many information sets, or on which a single mark wins.
    """
    check_size(game)
    cells = game.wins.shape[1].bit_length() - 1
    seats = tuple(
        PhantomViews(
            np.empty(MAX_VIEWS, np.int16),
            np.empty(MAX_VIEWS + 1, np.int32),
            np.empty(MAX_VIEWS, np.int32),
            np.empty(2 * MAX_SEQUENCES, np.int32),
        )
        for _ in range(2)
    )
    counts = np.zeros(2, np.int64)
    for seat, views in enumerate(seats):
        _add_view(seat, START, 0, cells, views, counts)
    nothing = (np.zeros(1), np.zeros(1))
    ends = 0
    for first in range(cells):
        try:
            ends += _walk_first_move(game, first, seats, counts, nothing, nothing, True)
        except MemoryError:
            raise UserError(
                f"{game.name} has more than {MAX_VIEWS:,} information sets of a seat, or more than "
                f"{MAX_SEQUENCES:,} actions in them"
            ) from None
        progress(100 * (first + 1) // cells)
    return Numbering((_cut(seats[0], counts[0]), _cut(seats[1], counts[1])), ends)


def _cut(views: PhantomViews, count: int) -> PhantomViews:
    """Return copies of the used parts of the arrays of `count` views."""
    last = views.start[count]
    return PhantomViews(
        views.known[:count].copy(),
        views.start[: count + 1].copy(),
        views.parent[:count].copy(),
        views.after[: 2 * last].copy(),
    )


class PhantomWalk(GameWalk):
    """Walk over a phantom game whose information sets are indexed; a part follows a first move."""

    game: PhantomGame

    def __init__(self, game: PhantomGame, numbering: Numbering) -> None:
        self.game, self.numbering = game, numbering
        first, second = (Views(each.start, each.parent) for each in numbering.seats)
        self.views = first, second
        self.ends = numbering.ends
        self.parts = game.wins.shape[1].bit_length() - 1
        self.rules = rules_digest(game)
        self._counts = np.array([len(views.known) for views in numbering.seats])
        self._attempts: tuple[int, Array] | None = None  # of the seat that was asked last

    def gradients(
        self,
        plans: Pair,
        threads: int = 1,
        progress: Callable[[int], None] = lambda percent: None,
    ) -> Pair:
        total = np.zeros_like(plans[0]), np.zeros_like(plans[1])

        def after_first_move(first: int) -> Array:
            part = np.zeros_like(plans[1])  # seat 0's sequences after different first moves differ
            self._add_part(plans, (total[0], part), first)
            return part

        with ThreadPoolExecutor(threads) as pool:
            for begin in range(0, self.parts, threads):
                end = min(begin + threads, self.parts)
                for part in pool.map(after_first_move, range(begin, end)):
                    total[1][:] += part
                progress(100 * end // self.parts)
        return total

    def _add_part(self, plans: Pair, points: Pair, first: int) -> None:
        seats = self.numbering.seats
        _walk_first_move(self.game, first, seats, self._counts, plans, points, False)

    def observations(self, seat: int, begin: int, end: int) -> Observations:
        if self._attempts is None or self._attempts[0] != seat:
            self._attempts = seat, _attempts(self.numbering.seats[seat], self.parts)
        return self.game.view_observations(seat, self._attempts[1][begin:end])

    def probabilities(self, strategy: Array, observations: Observations) -> Array:
        attempts = np.ascontiguousarray(observations.observation[:, 1:], np.int64)
        seat = int(observations.seat[0]) if len(observations) else 0
        return np.asarray(_look_up(self.numbering.seats[seat], strategy, attempts))


def rules_digest(game: PhantomGame) -> str:
    """Return a digest of the rules of a phantom game and of the order of its information sets."""
    rules = f"{VERSION} {game.failure_ends_turn} ".encode() + np.packbits(game.wins).tobytes()
    return hashlib.sha256(rules).hexdigest()[:16]


def _walk_first_move(
    game: PhantomGame,
    first: int,
    seats: tuple[PhantomViews, ...],
    counts: Array,
    plans: tuple[Array, ...],
    points: tuple[Array, ...],
    numbering: bool,
) -> int:
    """Walk over all lines in which seat 0 first marks a given cell; return the number of ends.

    The first move cannot win, because winning sets have at least two cells.
    """
    lists = np.empty(MAX_LISTS, np.int32)
    lists[0], lists[1] = START, 2 * first
    own = np.array([1 << first, 0])
    return int(
        _walk(
            own, lists, game.wins, game.failure_ends_turn, seats, counts, plans, points, numbering
        )
    )


@njit(cache=True, nogil=True)
def _add_view(seat, entry, known, cells, views, counts):  # type: ignore[no-untyped-def]
    """Number the view after an entry of a list (see _walk); return its number."""
    view = counts[seat]
    if view == 0:
        views.start[0] = 0
    if view + 1 == len(views.known) or 2 * (views.start[view] + cells) > len(views.after):
        raise MemoryError
    counts[seat] += 1
    views.known[view] = known
    views.parent[view] = (entry >> 1) + 1
    place = views.start[view]
    for cell in range(cells):
        if not known >> cell & 1:
            views.after[2 * place] = -1
            views.after[2 * place + 1] = -1
            place += 1
    views.start[view + 1] = place
    if entry >= 0:
        views.after[entry] = view
    return view


@njit(cache=True, nogil=True)
def _sequence(views, view, cell):  # type: ignore[no-untyped-def]
    """Return the sequence that ends with an attempt at a cell in a view."""
    return views.start[view] + POPCOUNT[~views.known[view] & ((1 << cell) - 1)]


@njit(cache=True, nogil=True)
def _open_turn(  # type: ignore[no-untyped-def]
    seat, marked, lists, begin, end, top, cells, failure_ends_turn, views, counts, numbering
):
    """Write the views that a seat can have at its turn to lists[top:]; return their end.

    `marked`: bit mask of the other seat's marks. lists[begin:end]: the seat's last attempts. If a
    failed attempt does not end the turn, the views after failed attempts in this turn follow.
    """
    first = top
    for i in range(begin, end):
        entry = lists[i]
        view = 0 if entry == START else views.after[entry]
        if view < 0 and numbering:
            last = entry >> 1
            before = _view_of(views, last, counts[seat])
            cell = _cell_of(views, before, last, cells)
            view = _add_view(seat, entry, views.known[before] | (1 << cell), cells, views, counts)
        lists[top] = view
        top += 1
    if failure_ends_turn:
        return top
    i = first
    while i < top:
        before = lists[i]
        open_marks = marked & ~views.known[before]
        for cell in range(cells):
            if open_marks >> cell & 1:
                entry = 2 * _sequence(views, before, cell) + 1
                view = views.after[entry]
                if view < 0 and numbering:
                    known = views.known[before] | (1 << cell)
                    view = _add_view(seat, entry, known, cells, views, counts)
                lists[top] = view
                top += 1
        i += 1
    return top


@njit(cache=True, nogil=True)
def _view_of(views, sequence, count):  # type: ignore[no-untyped-def]
    """Return the view in which the last action of a sequence is taken, by bisection."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if views.start[middle] <= sequence:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _cell_of(views, view, sequence, cells):  # type: ignore[no-untyped-def]
    """Return the cell at which a sequence that ends in a view tries."""
    left = sequence - views.start[view]
    for cell in range(cells):
        if not views.known[view] >> cell & 1:
            if left == 0:
                return cell
            left -= 1
    return -1


@njit(cache=True, nogil=True)
def _walk(  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    own, lists, wins, failure_ends_turn, seats, counts, plans, points, numbering
):
    """Walk over all lines from the first turn of seat 1; return the number of ends.

    An entry of a list is an attempt: twice the sequence, plus 1 if it failed; or START.

    - `own` (2,): bit masks of the marks of both seats
    - `lists`: entry 0 is the last attempt of seat 1, entry 1 that of seat 0; the rest is free
    - `seats`, `counts`: PhantomViews of both seats, and how many views they have so far
    - `plans`, `points`: see GameWalk; the points are added to the gradients
    - `numbering`: number new views instead of adding points
    """
    full = wins.shape[1] - 1
    cells = POPCOUNT[full]
    # of the turn at each depth: the two lists, the views, the next cell, and sums of reaches
    begin, end = np.zeros(MAX_DEPTH, np.int64), np.zeros(MAX_DEPTH, np.int64)
    other_begin, other_end = np.zeros(MAX_DEPTH, np.int64), np.zeros(MAX_DEPTH, np.int64)
    turn_end, next_cell = np.zeros(MAX_DEPTH, np.int64), np.zeros(MAX_DEPTH, np.int64)
    others_reach, won = np.zeros(MAX_DEPTH), np.zeros(MAX_DEPTH)
    ends = 0
    depth, opened = 0, False
    begin[0], end[0], other_begin[0], other_end[0] = 0, 1, 1, 2
    while depth >= 0:
        seat = 1 - depth % 2
        other = 1 - seat
        views = seats[seat]
        # the views of the turn follow the list that was written last
        turn = max(end[depth], other_end[depth])
        if not opened:
            turn_end[depth] = _open_turn(
                seat, own[other], lists, begin[depth], end[depth], turn, cells,
                failure_ends_turn, views, counts, numbering,
            )  # fmt: skip
            next_cell[depth] = 0
            won[depth] = 0.0
            others_reach[depth] = 0.0
            if not numbering:
                for i in range(other_begin[depth], other_end[depth]):
                    others_reach[depth] += plans[other][(lists[i] >> 1) + 1]
            opened = True
        top = turn_end[depth]
        marked = own[0] | own[1]
        last = top  # end of the list of the next turn, which begins at top
        while next_cell[depth] < cells and last == top:
            cell = next_cell[depth]
            next_cell[depth] += 1
            if marked >> cell & 1:
                continue
            mine = own[seat] | (1 << cell)
            if wins[seat, mine] or (marked | (1 << cell)) == full:
                ends += (top - turn) * (other_end[depth] - other_begin[depth])
                if wins[seat, mine] and not numbering:
                    for i in range(turn, top):
                        place = 1 + _sequence(views, lists[i], cell)
                        won[depth] += plans[seat][place]
                        points[seat][place] += others_reach[depth]
                continue
            for i in range(turn, top):
                lists[last] = 2 * _sequence(views, lists[i], cell)
                last += 1
            own[seat] = mine
        if last == top and next_cell[depth] == cells:
            next_cell[depth] += 1
            if won[depth] != 0.0:
                for i in range(other_begin[depth], other_end[depth]):
                    points[other][(lists[i] >> 1) + 1] -= won[depth]
            if failure_ends_turn:
                for i in range(turn, top):
                    open_marks = own[other] & ~views.known[lists[i]]
                    for cell in range(cells):
                        if open_marks >> cell & 1:
                            lists[last] = 2 * _sequence(views, lists[i], cell) + 1
                            last += 1
        if last > top:  # the other seat's turn
            begin[depth + 1], end[depth + 1] = other_begin[depth], other_end[depth]
            other_begin[depth + 1], other_end[depth + 1] = top, last
            depth += 1
            opened = False
        else:  # back to the turn before, whose mark is taken back
            depth -= 1
            if depth >= 0 and next_cell[depth] <= cells:
                own[1 - depth % 2] &= ~(1 << (next_cell[depth] - 1))
    return ends


@njit(cache=True)
def _attempts(views, cells):  # type: ignore[no-untyped-def]
    """Return (N, cells) int8 the attempts in each view, see PhantomGame.view_observations."""
    attempts = np.zeros((len(views.known), cells), np.int8)
    for before in range(len(views.known)):
        number = 1
        for cell in range(cells):
            number += views.known[before] >> cell & 1
        place = views.start[before]
        for cell in range(cells):
            if views.known[before] >> cell & 1:
                continue
            for failed in range(2):
                view = views.after[2 * place + failed]
                if view >= 0:
                    attempts[view] = attempts[before]
                    attempts[view, cell] = number * (1 - 2 * failed)
            place += 1
    return attempts


@njit(cache=True)
def _look_up(views, strategy, attempts):  # type: ignore[no-untyped-def]
    """Return (R, A) the probabilities in the views after attempts (R, A), of one seat.

    `attempts`: for each cell 0, or the number of the attempt, negative if it failed.
    """
    cells = attempts.shape[1]
    probs = np.zeros(attempts.shape)
    for row in range(len(attempts)):
        view, known = 0, 0
        for number in range(1, cells + 1):
            for cell in range(cells):
                if abs(attempts[row, cell]) == number:
                    place = views.start[view] + POPCOUNT[~known & ((1 << cell) - 1)]
                    view = views.after[2 * place + (attempts[row, cell] < 0)]
                    known |= 1 << cell
                    break
        place = views.start[view]
        for cell in range(cells):
            if not known >> cell & 1:
                probs[row, cell] = strategy[place]
                place += 1
    return probs
