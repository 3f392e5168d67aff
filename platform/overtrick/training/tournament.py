"""Everybody meets everybody: who wins how often against whom."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field, field_validator

from overtrick.config.job_file import Count, Job, Opponent, Section
from overtrick.core import Array, Game, Policy
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.games import registry
from overtrick.policies.rollout import play_duplicate
from overtrick.reports.metric_names import opponent_label
from overtrick.training.base_trainer import BaseTrainer, Metrics, Rows, register


class Meeting(NamedTuple):
    """What the first of two players came to: sums over boards, which add up."""

    boards: float  # each played twice, with the seats exchanged
    points: float  # the mean of both seats
    squares: float  # of these
    won: float  # games, two a board, in which it gained points
    lost: float

    @property
    def mean(self) -> float:
        """Points a game."""
        return self.points / self.boards

    @property
    def standard_error(self) -> float:
        """Of the mean; boards are independent, the two games of a board are not."""
        spread = self.squares / self.boards - self.mean**2
        return float(np.sqrt(max(spread, 0) / max(self.boards - 1, 1)))


class Tournament(Section):
    """Who takes part."""

    players: tuple[Opponent, ...] = Field(
        description="strangers or runs by name, or folders of models"
    )
    boards: Count = Field(
        default=10, description="boards of each pair an iteration, each played from both seats"
    )

    @field_validator("players")
    @classmethod
    def _several_of_different_names(cls, players: tuple[str, ...]) -> tuple[str, ...]:
        called = [opponent_label(name) for name in players]
        if len(called) < 2 or len(set(called)) < len(called):
            raise ValueError("two or more players with different names are needed")
        return players


class TournamentJob(Job):
    """Everything a tournament needs."""

    trainer: Literal["tournament"]
    tournament: Tournament


def meet_twice(game: Game, a: Policy, b: Policy, boards: int, rng: Generator) -> Meeting:
    """a and b on so many boards, each played from both seats."""
    seats, won = play_duplicate(game, a, b, boards, rng)
    wins = [(way * seats > 0).sum() for way in (1, -1)]
    return Meeting(boards, won.sum(), np.square(won).sum(), *map(float, wins))


def best(rows: list[dict[str, Any]]) -> float:
    """Mean points of the best player."""
    return float(rows[0]["mean"])


@register("tournament", TournamentJob, best)
class TournamentTrainer(BaseTrainer[TournamentJob]):
    """Play a round robin; an iteration is a round in which every pair plays some boards."""

    stateful = ()

    def __init__(self, job: TournamentJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game, _ = two_seat_game(job.game)
        players = job.tournament.players
        self.pairs = list(combinations(range(len(players)), 2))
        self.results = np.zeros((len(self.pairs), len(Meeting._fields)))

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Play one round and return every player's mean points so far."""
        section = self.job.tournament
        shards = [(section.players[a], section.players[b]) for a, b in self.pairs]
        results = self.pool.map(_pair, (self.job.game, section.boards), shards, rng)
        self.results = self.results + np.array(results)  # not in place: a state may hold it
        unit = self.game.unit.replace(" ", "_")
        return {f"{opponent_label(r['player'])}/mean_{unit}": r["mean"] for r in self.rows()}

    def model(self) -> dict[str, Array]:
        """Return the sums of every pair, in the order of `itertools.combinations`."""
        return {"results": self.results}

    def state(self) -> dict[str, Array]:
        return {**super().state(), "results": self.results}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        self.results = state["results"]

    @staticmethod
    def validate(job: TournamentJob) -> None:
        """Raise UserError for a game that counts more than results, or an unknown player."""
        game, tree = two_seat_game(job.game)
        registry.check_zero_sum(game)
        for name in job.tournament.players:
            reference_opponents.check_opponent(name, game, tree)

    @staticmethod
    def evaluate_model(
        job: TournamentJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Return a row for each player, the best first: mean points, share of games
        won, and the shares that it won from each player, in the order of the rows (None from
        itself)."""
        called = [opponent_label(name) for name in job.tournament.players]
        one, other = np.array(list(combinations(range(len(called)), 2))).T
        boards, points, won = np.zeros((3, len(called), len(called)))
        for row, a, b in zip(map(Meeting._make, weights["results"]), one, other, strict=True):
            boards[a, b] = boards[b, a] = row.boards
            points[a, b], points[b, a] = row.points, -row.points
            won[a, b], won[b, a] = row.won, row.lost
        played = np.maximum(boards, 1)  # before the first round nobody has
        mean = points.sum(axis=1) / np.maximum(boards.sum(axis=1), 1)
        ranked = np.argsort(-mean, kind="stable")
        return [
            {
                "player": called[k],
                "mean": float(mean[k]),
                "won": float(won[k].sum() / max(2 * boards[k].sum(), 1)),
                "won from each": [
                    None if j == k else float(won[k, j] / (2 * played[k, j])) for j in ranked
                ],
            }
            for k in ranked
        ]


def _pair(rng: Generator, common: Any, a: str, b: str) -> tuple[float, ...]:
    """Two players meet."""
    choice, boards = common
    game, _ = two_seat_game(choice)
    return tuple(
        meet_twice(game, cached_opponent(choice, a), cached_opponent(choice, b), boards, rng)
    )
