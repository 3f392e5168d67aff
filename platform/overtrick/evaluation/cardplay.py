"""Mini-Bridge card play: games to train on, and evaluation of declarers on unseen deals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import Count, DataPath, Section
from overtrick.core import Array, BehaviouralPolicy, Deals, Observations, UserError, concat_columns
from overtrick.distributed.workers import RngStream, WorkerPool, array_chunks, chunks, generator
from overtrick.games import registry
from overtrick.games.bridge import double_dummy, scoring
from overtrick.games.bridge.cardplay import play_records
from overtrick.games.bridge.cardplay.minibridge import MiniBridge
from overtrick.games.bridge.cardplay.playout import play_out
from overtrick.games.bridge.cards import CARDS, TRICKS, hand_bits
from overtrick.games.bridge.trick_rules import NO_CARD, replay_tricks
from overtrick.policies.rollout import play
from overtrick.reports import metric_names
from overtrick.storage import bucket_copy, parquet

POSITIONS: dict[str, tuple[int, ...]] = {"declarer": (0, 2), "left": (1,), "right": (3,)}
"""Hands that each learner plays: 0 declarer, 1 left of the declarer, 2 dummy, 3 right."""

Position = Literal["declarer", "left", "right"]
ScriptedDefenders = Literal["rules", "careful", "random"]
Strain = Literal["notrump", "trump"]
EVALUATION_SHARD = 500  # deals per shard of an evaluation
DOUBLE_DUMMY_SHARD = 100  # deals per shard of double-dummy analysis
DEALS_AT_ONCE = 2000  # deals played in one batch, from which the wanted games are taken

DOUBLE_DUMMY = parquet.Kind(
    "double-dummy tricks", 1, "remove it, and it is computed again",
    {"tricks": parquet.Column(least=0, most=TRICKS)},
)  # fmt: skip


class CardplayEvaluation(Section):
    """Settings of the evaluation of a declarer, on deals that training never uses."""

    defenders: tuple[Literal["rules", "careful", "random", "learned"], ...] = Field(
        default=("rules",), min_length=1
    )
    """Defenders; each kind is evaluated separately. learned: the defenders that this run trains."""

    deals: Count = 1000
    """Number of deals of an evaluation during training."""

    final_deals: Count = 10_000
    """Number of deals for the results table."""

    every: Count = 1
    """Iterations between evaluations."""

    double_dummy: bool = True
    """Solve the deals of the results table double dummy. The table then has the share of contracts
    that are made if both sides play perfectly.
    """

    solutions: DataPath = "double_dummy"
    """Folder or URL that stores the double-dummy solutions."""


class CardplayGames(NamedTuple):
    """G complete games of Mini-Bridge and their results."""

    deals: Deals  # (G, 54) position that holds each of the 52 cards; strain; tricks needed
    cards: Array  # (G, 52) int8 cards in the order in which they were played
    above: Array  # (G,) int8 tricks won by the declaring side minus tricks of its contract

    def rewards(self, declaring: bool) -> Array:
        """Return the reward (G,) of each game for the declaring side, or else for the defenders.

        The declaring side's reward is its tricks above the contract, plus 1 if the contract is made
        (Hadjur 2018). The defenders' reward is minus that.
        """
        return scoring.trick_difference_reward(self.above.astype(float)) * (1 if declaring else -1)

    def follow_rules(self) -> Array:
        """Return (G,) bool: whether each game has a possible deal, legal cards and their result.

        The deals may hold any integers; cards must be from 0 to 51. Any strain is possible.
        """
        won, illegal = _replay(self.deals, self.cards)
        needed = self.deals[:, CARDS + 1].astype(np.int64)
        possible: Array = MiniBridge("trump").are_possible_deals(self.deals)
        return possible & (illegal == NO_CARD) & (won - needed == self.above)


def _replay(deals: Deals, cards: Array) -> tuple[Array, Array]:
    """Return the declaring side's tricks (G,), and the index (G,) of the first illegal card.

    deals: (G, 54). cards: (G, 52). The index is NO_CARD if every card was legal.
    """
    hands, strain = hand_bits(deals[:, :CARDS]), deals[:, CARDS].astype(np.int64)
    return replay_tricks(hands, strain, np.ones(len(deals), np.int64), cards.astype(np.int64))


def card_game(choice: GameChoice) -> MiniBridge:
    """Make Mini-Bridge with two seats, declarer and defence.

    Raises UserError if the chosen game is not Mini-Bridge with two seats.
    """
    game = registry.make(choice.name, **choice.options)
    if not isinstance(game, MiniBridge) or game.seats != 2:
        raise UserError(f"{game.name}: this trainer plays minibridge with 2 seats only")
    return game


def with_trick_scoring(choice: GameChoice) -> GameChoice:
    """Return a copy of a game choice with payoffs in tricks instead of contracts made.

    A search can then rank cards that all make the contract, or that all fail.
    """
    return GameChoice(name=choice.name, options={**choice.options, "scoring": "tricks"})


def check_scoring(choice: GameChoice) -> None:
    """Raise UserError unless the game's option `scoring` has its default value, `made`.

    Trainers on which `scoring` has no effect call this function.
    """
    if card_game(choice).scoring != "made":
        raise UserError(
            "game.scoring has no effect: this trainer learns from tricks and counts contracts; "
            "leave it out"
        )


def random_games(
    game: MiniBridge, count: int, defenders: str, lost: bool, rng: Generator
) -> CardplayGames:
    """Play games of a random declarer; return `count` games that it won (Hadjur 2018, Algorithm 1).

    `defenders`: name of the scripted defenders. `lost`: also return games that the declarer lost.
    """
    parts, played = [], 0
    while played < count:
        deals = game.deal(DEALS_AT_ONCE, rng)
        cards, won = play_out(deals, "random", defenders, rng)
        above = won - deals[:, CARDS + 1]
        chosen = np.flatnonzero((above >= 0) | lost)[: count - played]
        parts.append(CardplayGames(deals[chosen], cards[chosen], above[chosen].astype(np.int8)))
        played += len(chosen)
    return concat_columns(parts)


def games_between(
    game: MiniBridge,
    count: int,
    declarer: BehaviouralPolicy,
    defenders: BehaviouralPolicy,
    rng: Generator,
) -> CardplayGames:
    """Deal and play `count` games between a declarer and defenders."""
    deal_rng, play_rng = rng.spawn(2)
    deals = game.deal(count, deal_rng)
    played = play(game, (declarer, defenders), deals, play_rng)
    cards = play_records.cards_in_play_order(played.batch)
    won, _ = _replay(deals, cards)
    return CardplayGames(deals, cards, (won - deals[:, CARDS + 1]).astype(np.int8))


RecognisesStates = Callable[[Observations], Array]
"""Function from observations to (R,) bool: whether a policy has seen each state in training."""


def evaluate_declarer(
    choice: GameChoice, declarer: BehaviouralPolicy, defence: Mapping[str, BehaviouralPolicy],
    known: RecognisesStates | None, section: CardplayEvaluation, deals: int, seed: int,
    pool: WorkerPool,
) -> list[dict[str, Any]]:  # fmt: skip
    """Evaluate a declarer against several defender policies; return a `result_row` for each policy.

    - `defence`: defender policies by name.
    - `known`: function that marks the decisions in states that the declarer has met in training;
      None if the declarer has no table of states.
    - `section`: settings of the evaluation. If its `double_dummy` is true and `deals` equals its
      `final_deals`, the rows also have the share of contracts made double dummy.
    - `deals`: number of deals. `seed`: random seed of the deals and the games.
    """
    sizes = _shards(deals)
    perfect = None
    if section.double_dummy and deals == section.final_deals:
        perfect = double_dummy_share(choice, section.solutions, deals, seed, pool)
    rows = []
    for name, policy in defence.items():
        common = (choice, declarer, policy, known, seed)
        rng = generator(seed, RngStream.EVALUATE, 0)  # its children differ from the deals' streams
        made, recognised = np.sum(pool.map(_play_shard, common, sizes, rng), axis=0)
        share = None if known is None else recognised / (deals * CARDS / 2)
        rows.append(result_row(name, int(made), deals, perfect, share))
    return rows


def result_row(
    defenders: str, made: int, deals: int, perfect: float | None, recognised: float | None
) -> dict[str, Any]:
    """Build the row of the results table for a declarer against one defender policy.

    - `defenders`: name of the defender policy.
    - `made`: contracts made in `deals` deals. The row has their share and its 95 % confidence
      interval (Wilson 1927).
    - `perfect`: share of contracts made with double-dummy play; None if not computed.
    - `recognised`: share of the declarer's decisions in states that it has met in training; None
      without a table of states.
    """
    from scipy.stats import binomtest

    interval = binomtest(made, deals).proportion_ci(method="wilson")
    return {
        "defenders": defenders,
        "made": made / deals,
        "interval": [float(interval.low), float(interval.high)],
        "double_dummy": perfect,
        "recognised": recognised,
    }


def flat_metrics(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Convert rows of `result_row` to a dictionary from metric names to values.

    - `made/NAME`: share of contracts made against the defender policy NAME, one metric for each
      row.
    - `recognised`: share of the declarer's decisions in states met in training, averaged over the
      rows. Left out if it is None.
    """
    metrics = {f"{metric_names.MADE}{row['defenders']}": row["made"] for row in rows}
    if rows[0]["recognised"] is not None:
        recognised = [row["recognised"] for row in rows]
        metrics[metric_names.RECOGNISED] = float(np.mean(recognised))
    return metrics


def share_made(rows: list[dict[str, Any]]) -> float:
    """Average the share of contracts made over all defender policies, as the score of a run.

    `rows`: results of `result_row`, one row for each defender policy.
    """
    return float(np.mean([row["made"] for row in rows]))


def double_dummy_share(
    choice: GameChoice, folder: str, count: int, seed: int, pool: WorkerPool
) -> float:
    """Compute the share of contracts made with double-dummy play on a seed's evaluation deals.

    `count`: number of deals. `folder`: path or URL of a folder that stores the double-dummy tricks,
    so that they are computed only once. Raises UserError for a damaged file.
    """
    deals = np.concatenate([evaluation_deals(choice, seed, *each) for each in _shards(count)])
    strain = choice.options.get("strain", "notrump")  # no other option changes a deal
    made_with = {"strain": strain, "seed": seed, "deals": count}
    file = f"{folder}/{choice.name}-{strain}-{seed}-{count}.parquet"
    with bucket_copy.output(file, "solutions") as path:
        if not path.exists():
            parts = array_chunks(DOUBLE_DUMMY_SHARD, deals)
            tricks = np.concatenate(pool.map(_solve, None, parts, generator(seed)))
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.save(path, DOUBLE_DUMMY, made_with, {"tricks": tricks.astype(np.int8)})
        tricks = parquet.load(path, DOUBLE_DUMMY, made_with).columns["tricks"]
    if len(tricks) != count:
        problem = f"it has {len(tricks)} of {count} deals"
        raise UserError(f"{path} is damaged ({problem}): {DOUBLE_DUMMY.remedy}")
    return float((tricks >= deals[:, CARDS + 1]).mean())


def _shards(deals: int) -> list[tuple[int, int]]:
    """Divide `deals` evaluation deals into shards: pairs (number of the shard, number of deals)."""
    return [(k, count) for k, (count,) in enumerate(chunks(deals, EVALUATION_SHARD))]


def evaluation_deals(choice: GameChoice, seed: int, shard: int, deals: int) -> Deals:
    """Return one shard of the random deals on which jobs with this seed are evaluated.

    Training never uses them. `shard`: number of the shard. `deals`: number of deals in the shard.
    """
    return card_game(choice).deal(deals, generator(seed, RngStream.EVALUATE, shard))


def _play_shard(rng: Generator, common: Any, shard: int, deals: int) -> tuple[float, float]:
    """Play a shard of evaluation deals; return the numbers of contracts made and of known states.

    A known state is a declarer's decision in a state met in training. `common`: the tuple (game,
    declarer, defenders, function that marks known states or None, seed). `shard`: number of the
    shard; `deals`: its number of deals.
    """
    choice, declarer, defenders, known, seed = common
    game = card_game(choice)
    watch = () if known is None else (0,)
    dealt = evaluation_deals(choice, seed, shard, deals)
    played = play(game, (declarer, defenders), dealt, rng, recorded=watch)
    recognised = 0.0 if known is None else float(known(played.batch.observations()).sum())
    return float((played.payoff[:, 0] > 0).sum()), recognised


def _solve(rng: Generator, common: Any, deals: Deals) -> Array:
    return double_dummy.declarer_tricks(deals)
