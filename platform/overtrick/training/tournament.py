"""Trainer `tournament`: round robin of given players in any two-seat zero-sum game.

Every pair plays each deal twice, with swapped seats (a duplicate board). The results are mean
points and shares of games won.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import field_validator

from overtrick.config.job_file import Job
from overtrick.config.sections import Count, Opponent, Section
from overtrick.core import Array, Game, Policy, UserError
from overtrick.distributed.workers import WorkerPool
from overtrick.evaluation import reference_opponents
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.games import registry
from overtrick.policies.rollout import play_duplicate
from overtrick.reports.metric_names import opponent_label
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, Metrics, Rows, register


class PairResult(NamedTuple):
    """Results of the first of two players against the second, summed over duplicate boards."""

    boards: float  # number of boards, each played from both seats
    points: float  # sum over boards of the player's mean points in both seats
    squares: float  # sum over boards of the squares of these means
    won: float  # games, two per board, in which the player gained points
    lost: float  # games in which the player lost points

    @property
    def mean(self) -> float:
        """Mean points per game of the first player."""
        return self.points / self.boards

    @property
    def standard_error(self) -> float:
        """Standard error of the mean, with each board as one observation.

        The two games of a board are not independent, because they have the same deal.
        """
        variance = self.squares / self.boards - self.mean**2
        return float(np.sqrt(max(variance, 0) / max(self.boards - 1, 1)))


class Tournament(Section):
    """Settings: the players, and the number of boards of each pair in an iteration."""

    players: tuple[Opponent, ...]
    """Names of reference opponents or runs, or folders of models."""

    boards: Count = 10
    """Boards per pair and iteration; each board is played from both seats."""

    @field_validator("players")
    @classmethod
    def _names_differ(cls, players: tuple[str, ...]) -> tuple[str, ...]:
        labels = [opponent_label(name) for name in players]
        if len(labels) < 2 or len(set(labels)) < len(labels):
            raise ValueError("two or more players with different names are needed")
        return players


class TournamentJob(Job):
    """Job file of the trainer `tournament`: round robin of given players."""

    trainer: Literal["tournament"]
    tournament: Tournament


def play_duplicate_boards(
    game: Game, a: Policy, b: Policy, boards: int, rng: Generator
) -> PairResult:
    """Play `boards` duplicate boards, each from both seats; return the results of policy `a`.

    Its opponent is policy `b`.
    """
    by_seat, mean = play_duplicate(game, a, b, boards, rng)
    wins, losses = (by_seat > 0).sum(), (by_seat < 0).sum()
    return PairResult(boards, mean.sum(), np.square(mean).sum(), float(wins), float(losses))


@register("tournament", TournamentJob, scores.table_mean)
class TournamentTrainer(BaseTrainer[TournamentJob]):
    """Trainer that plays a round robin, in which every pair of players plays duplicate boards.

    A board is one deal, played twice with swapped seats. Each iteration plays the same number of
    boards for every pair.
    """

    saved = ("iteration", "results")
    stateful = ()

    def __init__(self, job: TournamentJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.game, _ = two_seat_game(job.game)
        players = job.tournament.players
        self.pairs = list(combinations(range(len(players)), 2))
        self.results = np.zeros((len(self.pairs), len(PairResult._fields)))

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Let every pair play its boards; return every player's mean points per game so far."""
        section = self.job.tournament
        shards = [(section.players[a], section.players[b]) for a, b in self.pairs]
        results = self.pool.map(_play_pair, (self.job.game, section.boards), shards, rng)
        self.results = self.results + np.array(results)  # not in place: a checkpoint may hold it
        unit = self.game.unit.replace(" ", "_")
        return {f"{opponent_label(r['player'])}/mean_{unit}": r["mean"] for r in self.rows()}

    def model(self) -> dict[str, Array]:
        """Return what a tournament stores in place of weights: the array `results` (pairs, 5).

        It has one row for each pair of players, in the order of itertools.combinations(players, 2).
        Its columns are the fields of `PairResult`.
        """
        return {"results": self.results}

    @staticmethod
    def validate(job: TournamentJob) -> None:
        """Raise UserError for a game that is not zero-sum, or an unknown player."""
        game, tree = two_seat_game(job.game)
        registry.check_zero_sum(game)
        for name in job.tournament.players:
            reference_opponents.check_opponent(name, game, tree)

    @staticmethod
    def evaluate_model(
        job: TournamentJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Return one table row for each player, best player first.

        A row has the player's mean points per game, share of games won, and share of games won
        against each player, in the order of the rows. The share against the player itself is None.
        `weights`: the array that the method `model` returns. Raises UserError if it is missing or
        damaged.
        """
        labels = [opponent_label(name) for name in job.tournament.players]
        one, other = np.array(list(combinations(range(len(labels)), 2))).T
        boards, points, won = np.zeros((3, len(labels), len(labels)))
        results = weights.get("results", np.zeros(0))
        if results.shape != (len(one), len(PairResult._fields)) or results.dtype.kind != "f":
            raise UserError("the model is damaged: it lacks the results of each pair of players")
        for row, a, b in zip(map(PairResult._make, results), one, other, strict=True):
            boards[a, b] = boards[b, a] = row.boards
            points[a, b], points[b, a] = row.points, -row.points
            won[a, b], won[b, a] = row.won, row.lost
        played = np.maximum(boards, 1)  # 0 before the first round
        mean = points.sum(axis=1) / np.maximum(boards.sum(axis=1), 1)
        ranked = np.argsort(-mean, kind="stable")
        return [
            {
                "player": labels[k],
                "mean": float(mean[k]),
                "won": float(won[k].sum() / max(2 * boards[k].sum(), 1)),
                "won from each": [
                    None if j == k else float(won[k, j] / (2 * played[k, j])) for j in ranked
                ],
            }
            for k in ranked
        ]


def _play_pair(rng: Generator, common: Any, a: str, b: str) -> PairResult:
    """Play one iteration's boards between two players; return the results of player `a`.

    `common`: the tuple (game, number of boards). `a`, `b`: names of the players.
    """
    choice, boards = common
    game, _ = two_seat_game(choice)
    one, other = cached_opponent(choice, a), cached_opponent(choice, b)
    return play_duplicate_boards(game, one, other, boards, rng)
