"""Tables of values learnt from whole games of Mini-Bridge (Hadjur 2018, Algorithms 1 and 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import Count, FolderPath, Fraction, Job, Section
from overtrick.core import Array, BehaviouralPolicy, Observations, UserError
from overtrick.datasets import minibridge_games
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation import cardplay
from overtrick.evaluation.cardplay import (
    POSITIONS,
    CardplayEvaluation,
    CardplayGames,
    Position,
    ScriptedDefenders,
)
from overtrick.evaluation.game_cache import cached_opponent
from overtrick.games.bridge.cardplay.play_records import decision_trajectories
from overtrick.games.bridge.cardplay.state_abstractions import REPRESENTATIONS, similar_cards
from overtrick.learners.state_keys import prefixed, unprefixed
from overtrick.learners.value_based.tabular import GreedyTable, QTable, TabularConfig, merge_tables
from overtrick.reports import learning_curves
from overtrick.training import scores
from overtrick.training.base_trainer import BaseTrainer, History, Metrics, Rows, register

GAMES_PER_UNIT = 1000  # games that are made, and learnt, at a time


class TabularQConfig(Section):
    """Whose table it is, and what it learns from."""

    state_abstraction: Literal["full", "known_hands", "unknown_hands", "prospects"] = Field(
        default="prospects",
        description="what a decision is known by (games/bridge/cardplay/state_abstractions.py)",
    )
    update: Literal["q", "sarsa"] = Field(
        default="sarsa", description="what follows is worth its best known card, or the one played"
    )
    learning_rate: float | None = Field(
        default=0.3, gt=0, le=1,
        description="share by which a value moves to its target; null: the mean of all targets",
    )  # fmt: skip
    discount: Fraction = Field(default=0.9, description="discount, a decision")
    neighbour_share: Fraction = Field(
        default=0.8, description="share of the reward that cards of the suit one rank away learn"
    )
    learn_lost_games: bool = Field(
        default=False, description="learn from lost games too, of negative reward"
    )
    games: Count = Field(default=15_000, description="games an iteration, those kept")
    learners: tuple[Position, ...] = Field(
        default=("declarer",), min_length=1, description="who learns, an iteration each in turn"
    )
    opponents: ScriptedDefenders = Field(
        default="rules", description="how those play who are not among the learners"
    )
    epsilon: Fraction = Field(
        default=1.0,
        description="share of random cards of the one who learns; below 1 all the others of "
        "learners play their best",
    )
    data: FolderPath | None = Field(
        default=None,
        description="a folder of `overtrick generate minibridge` whose games are learnt from, each "
        "once, in place of new ones",
    )
    merged_tables: Count = Field(
        default=1, description="tables learnt apart on their shares of an iteration, then merged"
    )


class TabularJob(Job):
    """Everything a run of tables needs."""

    trainer: Literal["tabular"]
    tabular: TabularQConfig = TabularQConfig()
    evaluate: CardplayEvaluation = CardplayEvaluation()

    @model_validator(mode="after")
    def _somebody_plays(self) -> TabularJob:
        learners = self.tabular.learners
        if len(set(learners)) < len(learners):
            raise ValueError("tabular.learners: one of them stands twice")
        if self.tabular.epsilon == 1 and learners != ("declarer",):
            raise ValueError("tabular.epsilon 1 is for a declarer alone: set it below 1")
        if self.tabular.epsilon < 1 and not self.tabular.learn_lost_games:
            raise ValueError(
                "tabular.epsilon below 1 keeps every game: set tabular.learn_lost_games"
            )
        if self.tabular.data is not None and (
            self.tabular.epsilon < 1 or self.tabular.learn_lost_games
        ):
            raise ValueError(
                "tabular.data says which games there are: leave epsilon and learn_lost_games out"
            )
        if "learned" in self.evaluate.defenders and learners == ("declarer",):
            raise ValueError("evaluate.defenders: no defender is among tabular.learners")
        return self


@register("tabular", TabularJob, cardplay.share_made, scores.contracts_made)
class TabularTrainer(BaseTrainer[TabularJob]):
    """Learn tables of action values from whole games, a learner an iteration in turn."""

    stateful = ()  # the tables are the model, and stand in a checkpoint as they do there

    def __init__(self, job: TabularJob, pool: WorkerPool) -> None:
        super().__init__(job, pool)
        self.tables = {who: _q_table(job.tabular) for who in job.tabular.learners}

    def train_iteration(self, rng: Generator, progress: float) -> Metrics:
        """Generate the games of one learner and learn its table from them."""
        section = self.job.tabular
        who = section.learners[(self.iteration - 1) % len(section.learners)]
        known = {} if section.epsilon == 1 else {w: t.columns for w, t in self.tables.items()}
        common = (self.job, self.iteration, who, known)
        units = [(k, count) for k, (count,) in enumerate(chunks(section.games, GAMES_PER_UNIT))]
        if section.merged_tables == 1:
            for games in self.pool.map(_make, common, units, rng):
                _learn(self.tables[who], who, games)
        else:
            count = section.merged_tables
            shards = [(units[k::count],) for k in range(min(count, len(units)))]
            self._merge_into(who, self.pool.map(_learn_apart, common, shards, rng), rng)
        games_seen = float(self.iteration * section.games)
        choices = float(self.tables[who].choices)
        return {learning_curves.GAMES: games_seen, f"choices/{who}": choices}

    def _merge_into(self, who: Position, tables: list[dict[str, Array]], rng: Generator) -> None:
        """Merge tables in pairs, on the pool, and the result into the learner's own table."""
        while len(tables) > 1:
            pairs = [tuple(tables[k : k + 2]) for k in range(0, len(tables), 2)]
            tables = self.pool.map(_merge, self.job.tabular, pairs, rng)
        self.tables[who].merge(tables[0])

    def evaluate(self) -> Metrics:
        deals = self.job.evaluate.deals
        return cardplay.flat_metrics(_table(self.job, self.model(), self.pool, deals))

    def figures(self, history: History, rows: Rows) -> dict[str, Figure]:
        curve = learning_curves.recognition({"": [history]}, self.job.evaluate.deals)
        return {"learning_curve": curve}

    def model(self) -> dict[str, Array]:
        """Return the table of each learner."""
        return {
            name: column
            for who, table in self.tables.items()
            for name, column in prefixed(who, table.state()).items()
        }

    def state(self) -> dict[str, Array]:
        return {**super().state(), **self.model()}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        for who, table in self.tables.items():
            table.load(unprefixed(who, state))

    @staticmethod
    def validate(job: TabularJob) -> None:
        """Raise UserError for another game, too many merged tables, or stored games that are too
        few, of another kind, or unreadable."""
        cardplay.check_scoring(job.game)
        section = job.tabular
        if section.merged_tables > -(-section.games // GAMES_PER_UNIT):
            raise UserError(
                f"tabular.merged_tables: {section.games} games are made {GAMES_PER_UNIT} at a "
                f"time, too few for {section.merged_tables} tables"
            )
        if section.data is not None:
            strain = cardplay.card_game(job.game).strain
            minibridge_games.check_games_folder(
                section.data, {"strain": strain, "defenders": section.opponents}
            )
            have, wanted = (
                len(minibridge_games.load_cached(section.data).deals),
                section.games * job.stop.iterations,
            )
            if have < wanted:
                raise UserError(
                    f"tabular.data: {section.data} holds {have} games, but stop.iterations "
                    f"{job.stop.iterations} of tabular.games {section.games} are {wanted}"
                )

    @staticmethod
    def evaluate_model(
        job: TabularJob, weights: Mapping[str, Array], pool: WorkerPool, rng: Generator
    ) -> Rows:
        """Compute the share of contracts that a stored declarer makes on unseen deals."""
        return _table(job, weights, pool, job.evaluate.final_deals)


def _table(job: TabularJob, weights: Mapping[str, Array], pool: WorkerPool, deals: int) -> Rows:
    learnt = {who: unprefixed(who, weights) for who in job.tabular.learners}
    best: dict[str, BehaviouralPolicy] = {who: _greedy(job.tabular, c) for who, c in learnt.items()}
    declarer = best.get("declarer", cached_opponent(job.game, job.tabular.opponents))
    table = _side(job, best)
    defence: dict[str, BehaviouralPolicy] = {
        name: table if name == "learned" else cached_opponent(job.game, name)
        for name in job.evaluate.defenders
    }
    known = _Recognised(_greedy(job.tabular, learnt["declarer"])) if "declarer" in best else None
    return cardplay.evaluate_declarer(
        job.game, declarer, defence, known, job.evaluate, deals, job.seed, pool
    )


def _side(job: TabularJob, best: Mapping[str, BehaviouralPolicy]) -> BehaviouralPolicy:
    """A defence of those who learn, and for who does not the job's opponents."""
    game = cardplay.card_game(job.game)
    return game.combined_policy(best, cached_opponent(job.game, job.tabular.opponents))


class _Recognised:
    """Rows in which a table knows a card that may be played."""

    def __init__(self, policy: GreedyTable) -> None:
        self.policy = policy

    def __call__(self, observations: Observations) -> Array:
        return np.isfinite(self.policy.values(observations)).any(axis=1)


def _greedy(
    plan: TabularQConfig, columns: Mapping[str, Array], epsilon: float = 0.0
) -> GreedyTable:
    return GreedyTable(REPRESENTATIONS[plan.state_abstraction], columns, epsilon)


def _q_table(plan: TabularQConfig) -> QTable:
    rule = TabularConfig(plan.update, plan.learning_rate, plan.discount, plan.neighbour_share)
    return QTable(REPRESENTATIONS[plan.state_abstraction], rule, similar_cards())


def _learn(table: QTable, who: Position, games: CardplayGames) -> None:
    worth = games.worth(who == "declarer")
    table.learn(decision_trajectories(games.deals, games.cards, POSITIONS[who], worth))


def _make(rng: Generator, common: Any, unit: int, count: int) -> CardplayGames:
    """Games of a unit: the same whoever makes them."""
    job, iteration, who, known = common
    plan: TabularQConfig = job.tabular
    game = cardplay.card_game(job.game)
    if plan.data is not None:
        first = (iteration - 1) * plan.games + unit * GAMES_PER_UNIT
        return CardplayGames(
            *(column[first : first + count] for column in minibridge_games.load_cached(plan.data))
        )
    luck = generator(job.seed, RngStream.TRAIN, iteration, unit)
    if not known:
        return cardplay.random_games(game, count, plan.opponents, plan.learn_lost_games, luck)
    best: dict[str, BehaviouralPolicy] = {
        each: _greedy(plan, columns, plan.epsilon if each == who else 0.0)
        for each, columns in known.items()
    }
    declarer = best.get("declarer", cached_opponent(job.game, plan.opponents))
    return cardplay.games_between(game, count, declarer, _side(job, best), luck)


def _learn_apart(rng: Generator, common: Any, units: list[tuple[int, int]]) -> dict[str, Array]:
    """A table of its own, learnt from some units of games."""
    job, _, who, _ = common
    table = _q_table(job.tabular)
    for unit, count in units:
        _learn(table, who, _make(rng, common, unit, count))
    return table.state()


def _merge(
    rng: Generator, common: TabularQConfig, *tables: Mapping[str, Array]
) -> dict[str, Array]:
    """One table of two; of one, itself."""
    made = []
    for columns in tables:
        made.append(_q_table(common))
        made[-1].load(columns)
    return merge_tables(made).state()
