"""Trainer `tabular`: tabular Q-learning or SARSA in Mini-Bridge, for declarer and defenders.

Source: Hadjur 2018, Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import Job
from overtrick.config.sections import Count, DataPath, Fraction, Section
from overtrick.core import Array, BehaviouralPolicy, Observations, UserError, select_rows
from overtrick.core.checkpoints import prefixed, unprefixed
from overtrick.datasets import minibridge_games
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation import cardplay
from overtrick.evaluation.cardplay import CardplayEvaluation, CardplayGames, Position
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.games.bridge.cardplay.play_records import decision_trajectories
from overtrick.games.bridge.cardplay.state_abstractions import REPRESENTATIONS, similar_cards
from overtrick.learners.value_based.tabular import (
    GreedyTable,
    QTable,
    TabularConfig,
    check_columns,
)
from overtrick.reports import metric_names
from overtrick.training import scores
from overtrick.training.base_trainer import Metrics, register
from overtrick.training.cardplay.declarer_trainer import DeclarerTrainer, Players

GAMES_PER_UNIT = 1000  # games that are generated and learnt from in one call


class TabularQConfig(Section):
    """Settings of tabular Q-learning or SARSA, and of the training games."""

    state_abstraction: Literal["full", "known_hands", "unknown_hands", "prospects"] = "prospects"
    """Abstraction of states, as described in games/bridge/cardplay/state_abstractions.py."""

    update: Literal["q", "sarsa"] = "sarsa"
    """Target of the update. q: the highest value in the next state. sarsa: the value of the card
    that was played in the next state.
    """

    learning_rate: float | None = Field(default=0.3, gt=0, le=1)
    """Step size of an update; null: a value is the mean of all its targets."""

    discount: Fraction = 0.9
    """Discount factor gamma, per decision."""

    neighbour_share: Fraction = 0.8
    """Share of the reward that also updates cards one rank away in the same suit; its square
    updates cards two ranks away.
    """

    learn_lost_games: bool = False
    """Learn also from lost games, whose reward is negative."""

    games: Count = 15_000
    """Games per iteration; lost games count only if they are learnt from."""

    learners: tuple[Position, ...] = Field(default=("declarer",), min_length=1)
    """Players that are trained, such as declarer. Iterations alternate between these players."""

    opponents: cardplay.ScriptedDefenders = "rules"
    """Scripted policy of the players that are not trained."""

    epsilon: Fraction = 1.0
    """Epsilon of the epsilon-greedy policy of the player that an iteration trains. Below 1, the
    players that other iterations train follow their greedy policies.
    """

    data: DataPath | None = None
    """Folder of games from `overtrick generate minibridge`, which replace newly played games; each
    is used once.
    """

    merged_tables: Count = 1
    """Number of Q-tables among which the games of an iteration are divided. The tables learn in
    parallel and are then merged into the player's Q-table.
    """


class TabularJob(Job):
    """Job file of the trainer `tabular`: tabular Q-learning or SARSA in Mini-Bridge."""

    trainer: Literal["tabular"]
    tabular: TabularQConfig = TabularQConfig()
    evaluate: CardplayEvaluation = CardplayEvaluation()

    @model_validator(mode="after")
    def _learners_fit(self) -> TabularJob:
        section, learners = self.tabular, self.tabular.learners
        if len(set(learners)) < len(learners):
            raise ValueError("tabular.learners: a position is named twice")
        if section.epsilon == 1 and learners != ("declarer",):
            raise ValueError("tabular.epsilon 1 needs the declarer as only learner: set it below 1")
        if section.epsilon < 1 and not section.learn_lost_games:
            raise ValueError(
                "tabular.epsilon below 1 uses every game: set tabular.learn_lost_games"
            )
        if section.data is not None and (section.epsilon < 1 or section.learn_lost_games):
            raise ValueError(
                "tabular.data determines the games: leave epsilon and learn_lost_games out"
            )
        if "learned" in self.evaluate.defenders and learners == ("declarer",):
            raise ValueError("evaluate.defenders: no defender is among tabular.learners")
        return self


@register("tabular", TabularJob, cardplay.share_made, scores.contracts_made)
class TabularTrainer(DeclarerTrainer[TabularJob]):
    """Trainer of the Q-tables of Mini-Bridge players by Q-learning or SARSA.

    The job chooses which players are trained: declarer (who also plays dummy), left defender, right
    defender. Each trained player has its own Q-table. Iterations alternate between the trained
    players.
    """

    def __init__(self, job: TabularJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.tables: dict[str, QTable] = {p: _q_table(job.tabular) for p in job.tabular.learners}

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Generate games and update the Q-table of one player from these games.

        Iterations alternate between the trained players: declarer, left defender, right defender.
        """
        section = self.job.tabular
        position = section.learners[(self.iteration - 1) % len(section.learners)]
        known = {p: t.columns for p, t in self.tables.items()} if section.epsilon < 1 else {}
        common = (self.job, self.iteration, position, known)
        units = [(k, count) for k, (count,) in enumerate(chunks(section.games, GAMES_PER_UNIT))]
        if section.merged_tables == 1:
            for games in self.pool.map(_make, common, units, rng):
                _learn(self.tables[position], position, games)
        else:
            count = section.merged_tables
            shards = [(units[k::count],) for k in range(min(count, len(units)))]
            self._merge_into(position, self.pool.map(_learn_apart, common, shards, rng), rng)
        games_seen = float(self.iteration * section.games)
        choices = float(self.tables[position].choices)
        return {metric_names.GAMES: games_seen, f"choices/{position}": choices}

    def _merge_into(
        self, position: Position, tables: list[dict[str, Array]], rng: Generator
    ) -> None:
        """Merge Q-tables pairwise on the worker pool, then the result into a player's Q-table.

        `tables`: the arrays of each Q-table. `position`: the player, "declarer", or "left" or
        "right" for a defender.
        """
        while len(tables) > 1:
            pairs = [tuple(tables[k : k + 2]) for k in range(0, len(tables), 2)]
            tables = self.pool.map(_merge, self.job.tabular, pairs, rng)
        self.tables[position].merge(tables[0])

    def model(self) -> dict[str, Array]:
        """Return the arrays of all Q-tables by name.

        The prefix of a name is the player: `declarer`, or `left` or `right` for a defender.
        """
        columns: dict[str, Array] = {}
        for position, table in self.tables.items():
            columns |= prefixed(position, table.state())
        return columns

    def parts(self) -> Mapping[str, QTable]:
        """Return the Q-table of each trained player: declarer, left defender, right defender."""
        return self.tables

    @staticmethod
    def validate(job: TabularJob) -> None:
        """Raise UserError for an unsuitable game, unusable stored games, or too few games.

        An iteration has chunks of GAMES_PER_UNIT games, the last of which may be smaller. It needs
        at least one chunk for each of the `tabular.merged_tables` Q-tables that learn in parallel.
        """
        cardplay.check_scoring(job.game)
        section = job.tabular
        if section.merged_tables > -(-section.games // GAMES_PER_UNIT):
            raise UserError(
                f"tabular.merged_tables: {section.games} games are too few for "
                f"{section.merged_tables} tables, because each learns from one or more chunks of "
                f"{GAMES_PER_UNIT}"
            )
        if section.data is not None:
            strain = cardplay.card_game(job.game).strain
            minibridge_games.check_games_folder(
                section.data, {"strain": strain, "defenders": section.opponents}
            )
            have = len(minibridge_games.load_cached(section.data).deals)
            wanted = section.games * job.stop.iterations
            if have < wanted:
                raise UserError(
                    f"tabular.data: {section.data} holds {have} games, but stop.iterations "
                    f"{job.stop.iterations} x tabular.games {section.games} need {wanted}"
                )

    @staticmethod
    def players(job: TabularJob, weights: Mapping[str, Array]) -> Players:
        """Restore the players of a stored model.

        Returns a tuple with these entries:

        - the declarer;
        - the defenders' policy;
        - a function that returns a mask of the observations whose states are in the declarer's
          Q-table, or None if the declarer has no Q-table.

        A player without a stored Q-table is scripted. Raises UserError for a damaged Q-table.
        """
        best: dict[str, GreedyTable] = {}
        for player in job.tabular.learners:
            columns = unprefixed(player, weights)
            check_columns(columns, f"the table of {player} of the model")
            best[player] = _greedy(job.tabular, columns)
        declarer = best.get("declarer") or cached_opponent(job.game, job.tabular.opponents)
        known = partial(_recognises, best["declarer"]) if "declarer" in best else None
        return declarer, _defence(job, best), known


def _defence(job: TabularJob, best: Mapping[str, BehaviouralPolicy]) -> BehaviouralPolicy:
    """Return the defenders' policy: a defender with a Q-table is greedy, others are scripted.

    `best`: greedy policies of the players with a Q-table. Keys: "declarer", "left", "right".
    """
    game = cardplay.card_game(job.game)
    return game.combined_policy(best, cached_opponent(job.game, job.tabular.opponents))


def _recognises(policy: GreedyTable, observations: Observations) -> Array:
    """Return (R,) bool: whether the Q-table has an entry for any legal card of each observation."""
    return np.isfinite(policy.values(observations)).any(axis=1)


def _greedy(
    section: TabularQConfig, columns: Mapping[str, Array], epsilon: float = 0.0
) -> GreedyTable:
    return GreedyTable(REPRESENTATIONS[section.state_abstraction], columns, epsilon)


def _q_table(section: TabularQConfig) -> QTable:
    rule = TabularConfig(
        section.update, section.learning_rate, section.discount, section.neighbour_share
    )
    return QTable(REPRESENTATIONS[section.state_abstraction], rule, similar_cards())


def _learn(table: QTable, position: Position, games: CardplayGames) -> None:
    """Update a Q-table from the decisions of one player in some games.

    `position`: the player, "declarer", or "left" or "right" for a defender.
    """
    rewards, hands = games.rewards(position == "declarer"), cardplay.POSITIONS[position]
    table.learn(decision_trajectories(games.deals, games.cards, hands, rewards))


def _make(rng: Generator, common: Any, unit: int, count: int) -> CardplayGames:
    """Play a chunk of `count` training games, or read the games from the folder `tabular.data`.

    `common` is a tuple:

    - the job;
    - the number of the iteration;
    - the player whose Q-table is trained: "declarer", or "left" or "right" for a defender;
    - the arrays of all Q-tables by player, empty if the declarer plays at random.

    `unit`: index of the chunk. An iteration's games form chunks of up to GAMES_PER_UNIT games.
    """
    job, iteration, position, known = common
    section: TabularQConfig = job.tabular
    game = cardplay.card_game(job.game)
    if section.data is not None:
        first = (iteration - 1) * section.games + unit * GAMES_PER_UNIT
        stored = minibridge_games.load_cached(section.data)
        return select_rows(stored, slice(first, first + count))
    rng = generator(job.seed, RngStream.TRAIN, iteration, unit)
    if not known:
        return cardplay.random_games(game, count, section.opponents, section.learn_lost_games, rng)
    best: dict[str, BehaviouralPolicy] = {
        each: _greedy(section, columns, section.epsilon if each == position else 0.0)
        for each, columns in known.items()
    }
    declarer = best.get("declarer", cached_opponent(job.game, section.opponents))
    return cardplay.games_between(game, count, declarer, _defence(job, best), rng)


def _learn_apart(rng: Generator, common: Any, units: list[tuple[int, int]]) -> dict[str, Array]:
    """Train a new Q-table on one shard of an iteration's games; return the Q-table's arrays.

    The caller merges the Q-tables of all shards.

    - `common`: the tuple (job, number of the iteration, player whose Q-table is trained, arrays of
      all Q-tables by player).
    - `units`: the pair (index, number of games) for each chunk of games in the shard.
    """
    job, _, position, _ = common
    table = _q_table(job.tabular)
    for unit, count in units:
        _learn(table, position, _make(rng, common, unit, count))
    return table.state()


def _merge(
    rng: Generator, section: TabularQConfig, *tables: Mapping[str, Array]
) -> dict[str, Array]:
    """Merge two Q-tables by averaging their values, weighted by visit counts; return the arrays.

    `tables`: arrays of each table. A single table is returned unchanged. `rng`: unused.
    """
    merged = _q_table(section)
    merged.load(tables[0])
    for other in tables[1:]:
        merged.merge(other)
    return merged.state()
