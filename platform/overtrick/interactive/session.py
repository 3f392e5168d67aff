"""Games of a person, one after another; each can be taken back, decision by decision.

To take one back is to play the game again from its deal: everybody draws from the same generator
as before, and the person's earlier choices are made again without being asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator

from overtrick.core import Actions, Array, Observations, Policy
from overtrick.distributed.workers import RngStream, generator
from overtrick.interactive.advice import Table
from overtrick.policies.rollout import play
from overtrick.storage.game_records import Games, Move, Recorder


class TakenBack(Exception):
    """The person wants to decide again what was decided last."""


class Left(Exception):
    """The person gets up."""


Ask = Callable[[Observations, Sequence[Move]], int]
"""Asks a person for an action at a turn of one row, after some moves. Raises TakenBack where there
is a choice to take back, or Left."""


@dataclass
class Person:
    """A policy, and its player, that asks; but first makes some choices again."""

    ask: Callable[[Observations], int]
    choices: list[tuple[Observations, int]]
    done: int = 0

    def start(self, games: int, rng: Generator) -> Person:
        return self

    def act(self, observations: Observations) -> Actions:
        if self.done == len(self.choices):
            self.choices.append((observations, self.ask(observations)))
        self.done += 1
        return Actions(np.array([self.choices[self.done - 1][1]]), np.zeros(1))


@dataclass(frozen=True)
class Finished:
    """A game that came to its end."""

    seat: int
    deal: Array  # (C,)
    moves: Sequence[Move]
    payoff: Array  # (S,)
    given_up: float | None  # points below the best replies to the opponent; None without a tree

    @property
    def points(self) -> float:
        """What the person won."""
        return float(self.payoff[self.seat])


def game(table: Table, seat: int, seed: int, number: int, ask: Ask) -> Finished:
    """Game `number` of a seed. Raises Left."""
    choices: list[tuple[Observations, int]] = []
    while True:
        recorder = Recorder(table.game)

        def asked(observations: Observations, recorder: Recorder = recorder) -> int:
            return ask(observations, recorder.moves[0])

        seated: list[Policy] = [
            Person(asked, choices) if who == seat else table.players(seat)[who]
            for who in range(table.game.seats)
        ]
        try:
            played = play(
                recorder, seated, 1, generator(seed, RngStream.EVALUATE, number), recorded=()
            )
        except TakenBack:
            choices.pop()
            continue
        given_up = [table.given_up(observations, action) for observations, action in choices]
        known = [points for points in given_up if points is not None]
        total = sum(known) if table.exact else None
        return Finished(seat, recorder.deals[0], recorder.moves[0], played.payoff[0], total)


@dataclass
class Sheet:
    """What came of the games so far."""

    table: Table
    games: list[Finished] = field(default_factory=list)

    @property
    def points(self) -> float:
        """What the person won in all."""
        return sum(each.points for each in self.games)

    def mean(self, of: Callable[[int], float]) -> float:
        """Of something that hangs on the seat, over the games."""
        return float(np.mean([of(each.seat) for each in self.games]))

    def summary(self) -> dict[str, Any]:
        """The keys of `overtrick play --json`; points are the person's, means those of a game."""
        table, played = self.table, self.games
        exact = table.exact if played else None
        error = None
        if len(played) > 1:
            error = float(np.std([g.points for g in played], ddof=1) / np.sqrt(len(played)))
        return {
            "game": table.game.name,
            "against": table.against,
            "unit": table.game.unit,
            "games": len(played),
            "points": self.points,
            "mean": self.points / len(played) if played else None,
            "standard_error": error,
            "given_up": sum(each.given_up or 0 for each in played) if exact else None,
            "opponent": self.mean(lambda seat: exact[seat].opponent) if exact else None,
            "best": self.mean(lambda seat: exact[seat].best) if exact else None,
            "rows": [
                {
                    "game": 1 + number,
                    "seat": table.seats[each.seat],
                    "points": each.points,
                    "given_up": each.given_up,
                }
                for number, each in enumerate(played)
            ],
        }

    def record(self) -> Games:
        """The games as they are kept. There must be one."""
        table, played = self.table, self.games
        return Games(
            table.game.name,
            table.options,
            ("you", table.against),
            np.stack([each.deal for each in played]),
            [each.moves for each in played],
            np.stack([~table.own(each.seat) for each in played]).astype(np.int64),
            np.stack([each.payoff for each in played]),
            table.systems,
        )
