"""What those share who learn to play the cards of bridge: games to learn from, and the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from pydantic import Field
from scipy.stats import binomtest

from overtrick.config.job_file import Count, FolderPath, GameChoice, Section
from overtrick.core import Array, BehaviouralPolicy, Deals, Observations, UserError
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.games import registry
from overtrick.games.bridge import double_dummy, scoring
from overtrick.games.bridge.cardplay import play_records
from overtrick.games.bridge.cardplay.minibridge import MiniBridge
from overtrick.games.bridge.cardplay.playout import play_out
from overtrick.games.bridge.cards import CARDS, hand_bits
from overtrick.games.bridge.trick_rules import replay_tricks
from overtrick.policies.rollout import play
from overtrick.reports import learning_curves
from overtrick.storage import parquet

POSITIONS: dict[str, tuple[int, ...]] = {"declarer": (0, 2), "left": (1,), "right": (3,)}
"""Who can learn, and the hands that each plays."""


Position = Literal["declarer", "left", "right"]
ScriptedDefenders = Literal["rules", "random"]
Strain = Literal["notrump", "trump"]
EVALUATION_SHARD = 500  # deals of one shard of judging
DOUBLE_DUMMY_SHARD = 100  # deals of one shard of double-dummy play
DEALS_AT_ONCE = 2000  # deals that are played at once where only some of the games are kept

DOUBLE_DUMMY = parquet.Kind(
    "double-dummy tricks", 1, "remove it, and it is solved again"
)  # of deals that a seed makes


class CardplayEvaluation(Section):
    """How a declarer is judged: on deals that nothing is learnt from."""

    defenders: tuple[Literal["rules", "random", "learned"], ...] = Field(
        default=("rules",), min_length=1,
        description="whom it meets; learned: defenders that this run trains",
    )  # fmt: skip
    deals: Count = Field(default=1000, description="deals of a measurement on the way")
    final_deals: Count = Field(default=10_000, description="deals of the table at the end")
    every: Count = Field(default=1, description="iterations between measurements")
    double_dummy: bool = Field(
        default=True,
        description="solve the deals of the final table, once: the share of contracts that perfect "
        "play makes against perfect defence",
    )
    solutions: FolderPath = Field(
        default="double_dummy", description="the folder where solutions are kept"
    )


class CardplayGames(NamedTuple):
    """Whole games, and what they are worth to learn from."""

    deals: Deals  # (G, 54)
    cards: Array  # (G, 52) int8 in the order played
    above: Array  # (G,) int8 tricks of the declaring side above those needed

    def worth(self, declaring: bool) -> Array:
        """(G,) the reward of every decision; for a defender the opposite."""
        return scoring.trick_difference_reward(self.above.astype(float)) * (1 if declaring else -1)


def concatenate_games(parts: list[CardplayGames]) -> CardplayGames:
    """The games of several parts, in order."""
    return CardplayGames(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def card_game(choice: GameChoice) -> MiniBridge:
    """The game as one of two seats. Raises UserError for another game."""
    game = registry.make(choice.name, **choice.options)
    if not isinstance(game, MiniBridge) or game.seats != 2:
        raise UserError(f"{game.name}: this trainer plays minibridge with 2 seats only")
    return game


def with_trick_scoring(choice: GameChoice) -> GameChoice:
    """The game in which a search tells good cards from better ones where all make the contract, or
    none does."""
    return GameChoice(name=choice.name, options={**choice.options, "scoring": "tricks"})


def check_scoring(choice: GameChoice) -> None:
    """Raise UserError for a game whose scoring nobody would look at."""
    if card_game(choice).scoring != "made":
        raise UserError(
            "game.scoring: this trainer learns from tricks and counts contracts: leave it out"
        )


def random_games(
    game: MiniBridge, count: int, defenders: str, lost: bool, rng: Generator
) -> CardplayGames:
    """Games of a random declarer (Hadjur 2018, Algorithm 1); only those that it won, or any."""
    parts, have = [], 0
    while have < count:
        deals = game.deal(DEALS_AT_ONCE, rng)
        cards, won = play_out(deals, "random", defenders, rng)
        above = won - deals[:, CARDS + 1]
        kept = np.flatnonzero((above >= 0) | lost)[: count - have]
        parts.append(CardplayGames(deals[kept], cards[kept], above[kept].astype(np.int8)))
        have += len(kept)
    return concatenate_games(parts)


def games_between(
    game: MiniBridge,
    count: int,
    declarer: BehaviouralPolicy,
    defenders: BehaviouralPolicy,
    rng: Generator,
) -> CardplayGames:
    """Games of any two sides."""
    deal_rng, play_rng = rng.spawn(2)
    deals = game.deal(count, deal_rng)
    cards = play_records.cards_in_play_order(
        play(game, (declarer, defenders), deals, play_rng).batch
    )
    won, _ = replay_tricks(
        hand_bits(deals[:, :CARDS]), deals[:, CARDS].astype(np.int64), np.ones(count, np.int64),
        cards.astype(np.int64),
    )  # fmt: skip
    return CardplayGames(deals, cards, (won - deals[:, CARDS + 1]).astype(np.int8))


RecognisesStates = Callable[[Observations], Array]
"""Rows to whether the policy has something to go by there (R,)."""


def evaluate_declarer(
    choice: GameChoice, declarer: BehaviouralPolicy, defence: Mapping[str, BehaviouralPolicy],
    known: RecognisesStates | None,
    how: CardplayEvaluation, deals: int, seed: int, crew: WorkerPool,
) -> list[dict[str, Any]]:  # fmt: skip
    """A row for each defence: the share of contracts made on deals that only judging uses, the
    double-dummy mark of the same deals if it was asked for with the final number of deals, and the
    share of the declarer's decisions that it recognised."""
    sizes = _sizes(deals, EVALUATION_SHARD)
    marks = None
    if how.double_dummy and deals == how.final_deals:
        marks = double_dummy_share(choice, how.solutions, deals, seed, crew)
    rows = []
    for name, policy in defence.items():
        common = (choice, declarer, policy, known, seed)
        luck = generator(seed, RngStream.JUDGE, 0)  # its children are nobody's deals
        made, recognised = np.sum(crew.map(_judge, common, sizes, luck), axis=0)
        share = None if known is None else recognised / (deals * CARDS / 2)
        rows.append(result_row(name, int(made), deals, marks, share))
    return rows


def result_row(
    defenders: str, made: int, deals: int, mark: float | None, recognised: float | None
) -> dict[str, Any]:
    """What came of so many deals, with the 95 % interval of the share made (Wilson 1927)."""
    interval = binomtest(made, deals).proportion_ci(method="wilson")
    return {
        "defenders": defenders,
        "made": made / deals,
        "interval": [float(interval.low), float(interval.high)],
        "double_dummy": mark,
        "recognised": recognised,
    }


def flat_metrics(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The rows as flat metrics, such as made/rules."""
    metrics = {f"{learning_curves.MADE}{row['defenders']}": row["made"] for row in rows}
    if rows[0]["recognised"] is not None:
        metrics[learning_curves.RECOGNISED] = rows[0]["recognised"]
    return metrics


def share_made(rows: list[dict[str, Any]]) -> float:
    """The mean share of contracts made: sweeps go by it."""
    return float(np.mean([row["made"] for row in rows]))


def double_dummy_share(
    choice: GameChoice, folder: str, count: int, seed: int, crew: WorkerPool
) -> float:
    """The share of so many judging deals that perfect play makes against perfect defence; solved
    once and kept in the folder."""
    deals = np.concatenate(
        [evaluation_deals(choice, seed, *each) for each in _sizes(count, EVALUATION_SHARD)]
    )
    strain = choice.options.get("strain", "notrump")  # no other option changes a deal
    made_with = {"strain": strain, "seed": seed, "deals": count}
    path = Path(folder) / f"{choice.name}-{strain}-{seed}-{count}.parquet"
    if not path.exists():
        parts = [
            (deals[first : first + DOUBLE_DUMMY_SHARD],)
            for first in range(0, count, DOUBLE_DUMMY_SHARD)
        ]
        tricks = np.concatenate(crew.map(_solve, None, parts, generator(seed)))
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.save(path, DOUBLE_DUMMY, made_with, {"tricks": tricks.astype(np.int8)})
    tricks = parquet.load(path, DOUBLE_DUMMY, made_with).columns["tricks"]
    return float((tricks >= deals[:, CARDS + 1]).mean())


def _sizes(deals: int, shard: int) -> list[tuple[int, int]]:
    """The number of each shard, and its deals."""
    return [(k, min(shard, deals - first)) for k, first in enumerate(range(0, deals, shard))]


def evaluation_deals(choice: GameChoice, seed: int, shard: int, deals: int) -> Deals:
    """The deals of a shard of judging, on which nobody learns."""
    return card_game(choice).deal(deals, generator(seed, RngStream.JUDGE, shard))


def _judge(rng: Generator, common: Any, shard: int, deals: int) -> tuple[float, float]:
    """Contracts made in a shard of deals, and decisions recognised."""
    choice, declarer, defenders, known, seed = common
    game = card_game(choice)
    watch = () if known is None else (0,)
    unseen = evaluation_deals(choice, seed, shard, deals)
    played = play(game, (declarer, defenders), unseen, rng, recorded=watch)
    recognised = 0.0 if known is None else float(known(played.batch.observations()).sum())
    return float((played.payoff[:, 0] > 0).sum()), recognised


def _solve(rng: Generator, common: Any, deals: Deals) -> Array:
    return double_dummy.declarer_tricks(deals)
