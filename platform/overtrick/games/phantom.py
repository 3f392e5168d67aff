"""Phantom tic-tac-toe and dark hex: board games in which a seat does not see the other's marks.

The rules are those of OpenSpiel's `phantom_ttt` and `dark_hex`, with the observation type
reveal-nothing: a seat does not learn how often the other seat has tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Array, Deals, Observations, UserError
from overtrick.games.observation_validation import check_limits, check_rows
from overtrick.games.spec import GameSpec

FREE = -1
HEX_NEIGHBOURS = ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))  # row, column
MAX_SIDE = 3


@dataclass(slots=True)
class PhantomState:
    """State of G games in progress on a board of A cells."""

    owner: Array  # (G, A) seat whose mark is on each cell, or -1
    attempts: Array  # (G, S, A) int64 see PhantomGame.view_observations
    seat: Array  # (G,) seat at turn
    over: Array  # (G,) bool


class PhantomBoard:
    """Board game of two seats that mark cells in turn and do not see each other's marks.

    A seat tries a cell that it does not know. If it is free, it gets the seat's mark, and the other
    seat moves. If the other seat has marked it, the seat learns this; it then tries again or, in
    the abrupt form, its turn ends. The winner gains 1 and the loser loses 1; a full board without a
    winner is a draw.

    Observation fields: the seat; then for each cell 0 if the seat does not know it, k if its k-th
    attempt marked the cell, and -k if its k-th attempt found the other seat's mark.
    """

    unit = "game"
    seats = 2
    infosets = None
    lowest_payoff = -1.0

    def __init__(self, name: str, wins: Array, failure_ends_turn: bool) -> None:
        """Make the game of a name.

        `wins`: (2, 2^A) bool whether a seat has won with a set of marks, a bit for each of the A
        cells of a square board.
        """
        self.name = name
        self.wins = wins
        self.failure_ends_turn = failure_ends_turn
        self.actions = wins.shape[1].bit_length() - 1
        self.side = round(self.actions**0.5)
        self.action_names = tuple(
            f"{chr(ord('a') + cell % self.side)}{1 + cell // self.side}"
            for cell in range(self.actions)
        )
        self.observation_fields = ("seat", *(f"cell_{cell}" for cell in self.action_names))

    def __reduce__(self) -> tuple[Any, ...]:
        return PhantomBoard, (self.name, self.wins, self.failure_ends_turn)

    def deal(self, games: int, rng: Generator) -> Deals:
        return np.zeros((games, 0), np.int64)

    def are_possible_deals(self, deals: Deals) -> Array:
        return np.ones(len(deals), bool)

    def start(self, deals: Deals) -> PhantomState:
        games = len(deals)
        return PhantomState(
            np.full((games, self.actions), FREE),
            np.zeros((games, self.seats, self.actions), np.int64),
            np.zeros(games, np.int64),
            np.zeros(games, bool),
        )

    def observe(self, state: PhantomState) -> Observations:
        game = np.flatnonzero(~state.over)
        seat = state.seat[game]
        return self._rows(game, seat, state.attempts[game, seat])

    def view_observations(self, seat: int, attempts: Array) -> Observations:
        """Return the observations of a seat after attempts (R, A), see PhantomGame."""
        rows = len(attempts)
        return self._rows(np.arange(rows), np.full(rows, seat), attempts.astype(np.int64))

    def validated_observations(self, observation: Array) -> Observations:
        """Validate raw observations (R, K) and derive their seats and legal actions.

        Raises UserError for an observation that no seat can have: attempts that are not numbered 1,
        2, ..., more marks of the other seat found than it had made, or a game that is over.
        """
        most = dict.fromkeys(self.observation_fields[1:], (-self.actions, self.actions))
        check_limits(self.observation_fields, observation, {"seat": (0, 1)} | most)
        observation = observation.astype(np.int64)
        seat, attempts = observation[:, 0], observation[:, 1:]
        order = np.sort(np.abs(attempts), axis=1)
        made = (order > 0).sum(axis=1)
        wanted = np.maximum(np.arange(self.actions) - (self.actions - made)[:, None] + 1, 0)
        fit = (order == wanted).all(axis=1) & (made < self.actions)
        tried = np.arange(1, self.actions + 1)[:, None]  # (A, 1) number of the attempt
        failed = (-attempts[:, None] == tried).any(axis=2)  # (R, A) whether the k-th attempt failed
        succeeded = (attempts[:, None] == tried).any(axis=2)
        turns = np.ones_like(failed) if self.failure_ends_turn else succeeded
        before = turns.cumsum(axis=1) - turns + seat[:, None]  # turns of the other seat
        fit &= (~failed | (failed.cumsum(axis=1) <= before)).all(axis=1)
        fit &= self._other_marks_exist(seat, attempts)
        check_rows(self.observation_fields, observation, fit, "contradict each other")
        return self._rows(np.arange(len(observation)), seat, attempts)

    def _other_marks_exist(self, seat: Array, attempts: Array) -> Array:
        """Return (R,) whether the game can still go on with some marks of the other seat.

        `attempts` (R, A): those of each row's seat. The marks include those that the seat has
        found, are as many as the other seat's turns allow, and do not win or fill the board.
        """
        bits = 1 << np.arange(self.actions)
        own, found = (attempts > 0) @ bits, (attempts < 0) @ bits
        most = seat + ((attempts != 0) if self.failure_ends_turn else attempts > 0).sum(axis=1)
        failed = (attempts > 0).sum(axis=1) if self.failure_ends_turn else 0  # of the other seat
        marks = np.arange(self.wins.shape[1])
        count = (marks[:, None] & bits > 0).sum(axis=1)
        possible = (marks & found[:, None] == found[:, None]) & (marks & own[:, None] == 0)
        possible &= (count <= most[:, None]) & (count >= (most - failed)[:, None])
        possible &= ~self.wins[1 - seat] & (marks | own[:, None] != marks[-1])
        return possible.any(axis=1) & ~self.wins[seat, own]

    def _rows(self, game: Array, seat: Array, attempts: Array) -> Observations:
        observation = np.column_stack([seat, attempts])
        return Observations(game, seat, observation, attempts == 0, None)

    def step(self, state: PhantomState, observations: Observations, action: Array) -> Array:
        """Try a cell in each row's game; return the points (G, S) gained.

        Raises ValueError for an illegal action.
        """
        game, seat = observations.game, observations.seat
        known = (action >= 0) & (action < self.actions)
        fine = known & (state.attempts[game, seat, action * known] == 0)
        if not fine.all():
            row = int(np.argmin(fine))
            raise ValueError(f"illegal action {int(action[row])} in game {int(game[row])}")
        success = state.owner[game, action] == FREE
        number = 1 + (state.attempts[game, seat] != 0).sum(axis=1)
        state.attempts[game, seat, action] = np.where(success, number, -number)
        state.owner[game[success], action[success]] = seat[success]
        marks = (state.owner[game] == seat[:, None]) @ (1 << np.arange(self.actions))
        won = success & self.wins[seat, marks]
        points = np.zeros((len(state.over), self.seats))
        points[game[won], seat[won]], points[game[won], 1 - seat[won]] = 1.0, -1.0
        state.over[game] = won | (state.owner[game] != FREE).all(axis=1)
        passes = success | self.failure_ends_turn
        state.seat[game[passes]] = 1 - seat[passes]
        return points

    def features(self, observations: Observations) -> Array:
        """Return (R, F) float32, one-hot.

        The seat; own marks, the other seat's known marks and unknown cells; and for each attempt in
        order its cell.
        """
        attempts = observations.observation[:, 1:]
        number = np.arange(1, self.actions + 1)[:, None]
        order = (np.abs(attempts)[:, None] == number).reshape(len(attempts), self.actions**2)
        seat = np.arange(self.seats) == observations.seat[:, None]
        parts = [seat, attempts > 0, attempts < 0, attempts == 0, order]
        return np.hstack(parts).astype(np.float32)

    def hand(self, observations: Observations) -> Array:
        """Return (R,) how many marks of the other seat a seat has found, such as "2 found"."""
        found = (observations.observation[:, 1:] < 0).sum(axis=1)
        return np.array([f"{count} found" for count in found.tolist()])

    def describe(self, observation: Array) -> str:
        """Return one observation (K,) as text: the rows of the board with o, x and unknown cells.

        o are the marks of the seat itself.
        """
        sign = np.array(["x", ".", "o"])[1 + np.sign(observation[1:]).astype(int)]
        return " / ".join("".join(row) for row in sign.reshape(self.side, self.side))


@cache
def tic_tac_toe_wins(side: int = MAX_SIDE) -> Array:
    """Return (2, 2^A) bool: whether a set of marks on a square board contains a full line.

    The lines are the rows, columns and diagonals.
    """
    board = np.arange(side**2).reshape(side, side)
    lines = [*board, *board.T, board.diagonal(), board[::-1].diagonal()]
    masks = np.array([sum(1 << int(cell) for cell in line) for line in lines])
    sets = np.arange(2 ** (side**2))[:, None]
    return np.tile(((sets & masks) == masks).any(axis=1), (2, 1))


@cache
def hex_wins(side: int = MAX_SIDE) -> Array:
    """Return (2, 2^A) bool: whether a set of marks connects its seat's two edges in Hex.

    Seat 0 connects the first and the last row, seat 1 the first and the last column.
    """
    wins = np.zeros((2, 2 ** (side**2)), bool)
    for marks in range(wins.shape[1]):
        cells = {divmod(cell, side) for cell in range(side**2) if marks >> cell & 1}
        for axis in range(2):
            reached = _connected(cells, [cell for cell in cells if cell[axis] == 0])
            wins[axis, marks] = any(cell[axis] == side - 1 for cell in reached)
    return wins


def _connected(cells: set[tuple[int, int]], start: Sequence[tuple[int, int]]) -> set[Any]:
    """Return the cells that neighbours on a hex board connect to the cells `start`."""
    reached, waiting = set(start), list(start)
    while waiting:
        row, column = waiting.pop()
        for down, right in HEX_NEIGHBOURS:
            near = row + down, column + right
            if near in cells and near not in reached:
                reached.add(near)
                waiting.append(near)
    return reached


def phantom_tic_tac_toe(abrupt: bool) -> PhantomBoard:
    """Make phantom tic-tac-toe; `abrupt`: a failed attempt ends the turn."""
    name = "abrupt_phantom_ttt" if abrupt else "phantom_ttt"
    return PhantomBoard(name, tic_tac_toe_wins(), abrupt)


def dark_hex(abrupt: bool, side: int) -> PhantomBoard:
    """Make dark hex on a board of side x side cells; `abrupt`: a failed attempt ends the turn.

    Raises UserError unless side is 2 or 3.
    """
    if side not in (2, MAX_SIDE):
        raise UserError(f"side must be 2 or 3, not {side!r}")
    return PhantomBoard(f"{'abrupt_' * abrupt}dark_hex_{side}", hex_wins(side), abrupt)


SPECS = (
    GameSpec("phantom_ttt", phantom_tic_tac_toe, (False,)),
    GameSpec("abrupt_phantom_ttt", phantom_tic_tac_toe, (True,)),
    GameSpec("dark_hex_3", dark_hex, (False, MAX_SIDE)),
    GameSpec("abrupt_dark_hex_3", dark_hex, (True, MAX_SIDE)),
)
