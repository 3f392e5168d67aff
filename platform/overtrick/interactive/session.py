"""Let a person play one game after another, with undo of decisions and a score sheet.

Undo replays a game from its deal. All policies draw the same random numbers again, and the person's
earlier choices are repeated without asking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, Policy
from overtrick.distributed.workers import RngStream, generator
from overtrick.interactive.human_game import HumanGame
from overtrick.policies.rollout import play
from overtrick.storage.game_records import Games, Move, Recorder


class UndoRequested(Exception):
    """Raised when the person wants to take back the last decision."""


class QuitRequested(Exception):
    """Raised when the person wants to end the session."""


AskAction = Callable[[Observations, Sequence[Move]], int]
"""Function that asks the person for an action at a decision (one row), given the moves so far.

It raises UndoRequested, if there is a decision to undo, or QuitRequested.
"""


@dataclass
class HumanPolicy:
    """Policy that asks a person for each action, except for actions that it replays after an undo.

    The object is its own PolicySession. New choices are appended to `choices`.
    """

    ask: Callable[[Observations], int]
    choices: list[tuple[Observations, int]]  # all choices of the game, as (decision, action)
    played: int = 0  # number of choices made since the start of the game

    def start(self, games: int, rng: Generator) -> HumanPolicy:
        """Return this object as the session of the game."""
        return self

    def act(self, observations: Observations) -> Actions:
        """Return the person's action at a decision.

        After an undo, the game starts again: the person's remaining actions are replayed first,
        then the person is asked. `observations`: one row, the decision.
        """
        if self.played == len(self.choices):
            self.choices.append((observations, self.ask(observations)))
        self.played += 1
        return Actions(np.array([self.choices[self.played - 1][1]]), np.zeros(1))


@dataclass(frozen=True)
class PlayedGame:
    """A finished game of the session."""

    seat: int
    deal: Array  # (C,)
    moves: Sequence[Move]
    payoff: Array  # (S,)
    given_up: float | None  # sum of `value_loss` over decisions; None without exact values

    @property
    def points(self) -> float:
        """Return the person's payoff."""
        return float(self.payoff[self.seat])

    def describe_result(self, unit: str) -> str:
        """Return the person's payoff in words, and the points that the decisions gave up, if any.

        `unit`: unit of payoffs.
        """
        lost = f"{self.given_up or 0:.3f}"
        given_up = f"; your decisions gave up {lost} {unit}s against best responses"
        return f"you win {self.points:+g} {unit}s{'' if float(lost) == 0 else given_up}"


def play_game(table: HumanGame, seat: int, seed: int, number: int, ask: AskAction) -> PlayedGame:
    """Play one game with the person in seat `seat`.

    `table`: the game, with its opponents and advice.
    `seed`, `number`: seed of the session, and number of the game in it. They determine the deal and
        all random choices.
    `ask`: function that asks the person for an action.

    Raises QuitRequested if the person ends the session.
    """
    choices: list[tuple[Observations, int]] = []
    while True:
        recorder = Recorder(table.game)

        def ask_now(observations: Observations, recorder: Recorder = recorder) -> int:
            return ask(observations, recorder.moves[0])

        policies: list[Policy] = list(table.policies(seat))
        policies[seat] = HumanPolicy(ask_now, choices)
        try:
            rng = generator(seed, RngStream.EVALUATE, number)
            rollout = play(recorder, policies, 1, rng, recorded=())
        except UndoRequested:
            choices.pop()
            continue
        losses = [table.value_loss(observations, action) for observations, action in choices]
        known = [points for points in losses if points is not None]
        total = sum(known) if table.seat_values else None
        return PlayedGame(seat, recorder.deals[0], recorder.moves[0], rollout.payoff[0], total)


@dataclass
class ScoreSheet:
    """Results of the games of a session so far."""

    table: HumanGame
    games: list[PlayedGame] = field(default_factory=list)

    def _mean(self, value: Callable[[int], float]) -> float:
        """Return the mean of `value(seat)` over the games of the session.

        `seat` is the person's seat in the game, which may differ from game to game.
        """
        return float(np.mean([value(each.seat) for each in self.games]))

    def summary(self) -> dict[str, Any]:
        """Return the result of `overtrick play --json`, such as the person's points.

        Two values of the person's seat are for comparison, averaged over the games. `best` is the
        value of a best response to the opponent. `opponent` is the opponent's self-play value.
        """
        table, games = self.table, self.games
        values = table.seat_values if games else None
        error = None
        if len(games) > 1:
            error = float(np.std([each.points for each in games], ddof=1) / np.sqrt(len(games)))
        points = sum(each.points for each in games)
        seats = table.presentation.seat_names()
        return {
            "game": table.game.name,
            "against": table.against,
            "unit": table.game.unit,
            "games": len(games),
            "points": points,
            "mean": points / len(games) if games else None,
            "standard_error": error,
            "given_up": sum(each.given_up or 0 for each in games) if values else None,
            "opponent": self._mean(lambda seat: values[seat].opponent) if values else None,
            "best": self._mean(lambda seat: values[seat].best_response) if values else None,
            "rows": [
                {
                    "game": number,
                    "seat": seats[each.seat],
                    "points": each.points,
                    "given_up": each.given_up,
                }
                for number, each in enumerate(games, 1)
            ],
        }

    def record(self) -> Games:
        """Return the games of the session as recorded games, for a file.

        There must be at least one game.
        """
        table, games = self.table, self.games
        return Games(
            table.game.name,
            table.options,
            ("you", table.against),
            np.stack([each.deal for each in games]),
            [each.moves for each in games],
            np.stack([~table.own_side(each.seat) for each in games]).astype(np.int64),
            np.stack([each.payoff for each in games]),
            table.systems,
        )
