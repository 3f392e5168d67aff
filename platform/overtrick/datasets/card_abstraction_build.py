"""Generate the card abstraction of limit hold'em as a Parquet file.

In each betting round, the strength of every hand (hole cards with the public cards) is estimated by
rollouts. The hands are then clustered into buckets by k-means. Last, the transition probabilities
between buckets are estimated from sampled deals. Each of these stages is computed in shards, see
`chunked_build`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field, TypeAdapter, model_validator

from overtrick.config.overrides import field_overrides
from overtrick.config.sections import Count, validated
from overtrick.core import Array, UserError, concat_columns
from overtrick.datasets import chunked_build
from overtrick.datasets.chunked_build import Columns, DatasetConfig, Progress
from overtrick.distributed.workers import RngStream, Work, WorkerPool, generator
from overtrick.games.poker.holdem import card_abstraction
from overtrick.games.poker.holdem.card_abstraction import ROUNDS, Abstraction, AbstractionParameters
from overtrick.games.poker.holdem.hand_isomorphism import hand_indexer
from overtrick.storage import parquet

ROLLOUTS = 10_000_000  # rollouts per shard; more if one hand needs more
DEALS = 1_000_000  # deals per shard
MAX_SCALE = 100
SHARDS_PER_PART = 16
VERSION = 1  # raise it when equal parameters give different results
REMEDY = "build it with `overtrick generate abstraction`"
PARAMETERS = TypeAdapter(AbstractionParameters)
_SQUARE = parquet.Column("f", (parquet.ROW_COUNT,), 0, 1)
_PAIRS = parquet.Column("f", (parquet.ROW_COUNT,) * 3, 0, 1)
_STATISTICS = parquet.Column("f", (len(ROUNDS),), 0, 1)
ABSTRACTION = parquet.Kind(
    "abstraction", VERSION, REMEDY,
    {
        **dict.fromkeys(("start", "win", *(f"move_{name}" for name in ROUNDS[1:])), _SQUARE),
        **dict.fromkeys((f"joint_{name}" for name in ROUNDS[1:]), _PAIRS),
        **dict.fromkeys(("mean", "lowest", "highest", "share"), _STATISTICS),
    },
    PARAMETERS,
)  # fmt: skip
PART = "part of an abstraction"
_COUNT = parquet.Column(least=0)
TRANSITIONS = parquet.Kind(
    PART, VERSION, REMEDY,
    {name: _COUNT._replace(shape=(parquet.ROW_COUNT,)) for name in ("start", "won")}
    | {name: _COUNT._replace(shape=(parquet.ROW_COUNT,) * 3) for name in ROUNDS[1:]},
)  # fmt: skip
PAPER = AbstractionParameters()
SCALED = (*ROUNDS, "deals")


class AbstractionConfig(DatasetConfig):
    """Settings of the card abstraction: number of buckets and sample counts.

    Source: Samothrakis et al. 2011, section 4.2.
    """

    subject = "the abstraction"

    buckets: int = Field(default=PAPER.buckets, ge=2, le=32)
    """Buckets per round; a joint transition table has buckets^4 entries."""

    preflop: Count = PAPER.preflop
    """Roll-outs of each of the 169 hands before the flop."""

    flop: Count = PAPER.flop
    """Roll-outs of each of the 1,286,792 hands on the flop."""

    turn: Count = PAPER.turn
    """Roll-outs of each of the 13,960,050 hands on the turn."""

    river: Count = PAPER.river
    """Roll-outs of each of the 123,156,254 hands on the river."""

    deals: Count = PAPER.deals
    """Deals sampled for the transition and showdown tables."""

    kmeans_starts: Count = PAPER.kmeans_starts
    """Starts of k-means++; the best result is used."""

    kmeans_steps: Count = PAPER.kmeans_steps
    """Maximum number of k-means steps per start."""

    ranks: int = Field(default=PAPER.ranks, ge=5, le=13)
    """Ranks in the deck, from the ace down; 13 is hold'em, fewer a smaller game."""

    seed: int = Field(default=PAPER.seed, ge=0)
    """Random seed of all samples."""

    @model_validator(mode="after")
    def _enough_strengths_for_all_buckets(self) -> AbstractionConfig:
        for name in ROUNDS:
            if 2 * getattr(self, name) + 1 < self.buckets:  # n rollouts have 2 n + 1 results
                raise ValueError(
                    f"{name} needs at least {self.buckets // 2} rollouts of each hand for "
                    f"{self.buckets} buckets, not {getattr(self, name)}"
                )
        if self.buckets > self.ranks**2:
            raise ValueError(f"{self.ranks} ranks make only {self.ranks**2} hands before the flop")
        return self

    @classmethod
    def parse(cls, overrides: Sequence[str] = (), scale: float = 1.0) -> AbstractionConfig:
        """Build the configuration from `key=value` overrides of the defaults.

        The defaults are the values of Samothrakis et al. 2011. `scale`: factor on every sample
        count that is not overridden, above 0 and at most MAX_SCALE. A scaled count is rounded up,
        and is at least `buckets // 2`. Raises UserError for a factor out of range, an unknown key,
        and a value that is not allowed.
        """
        if not 0 < scale <= MAX_SCALE:
            raise UserError(f"--samples-scale must be above 0 and at most {MAX_SCALE}, not {scale}")
        values = field_overrides(cls, overrides, cls.subject)
        config = validated(cls, values)
        counts = {name: getattr(PAPER, name) for name in SCALED if name not in values}
        # n rollouts distinguish 2 n + 1 strengths, and each bucket needs one
        scaled = {n: max(int(np.ceil(c * scale)), config.buckets // 2) for n, c in counts.items()}
        return validated(cls, {**values, **scaled})

    def default_path(self) -> Path:
        """Return a file named after the number of buckets."""
        return Path(f"abstractions/holdem-{self.buckets}.parquet")

    def build(self, out: Path, pool: WorkerPool, progress: Progress) -> dict[str, Any]:
        """Generate the card abstraction in the file `out`, or check the existing file.

        If `out` exists, raises UserError unless it was generated with these settings. Returns a
        dictionary with the key `rows`, the number of buckets.
        """
        if stored := chunked_build.load_existing(out, ABSTRACTION, self.model_dump()):
            return {"rows": len(stored.columns["start"])}
        built = _build(AbstractionParameters(**self.model_dump()), out, pool, progress)
        parquet.save(out, ABSTRACTION, asdict(built.parameters), _columns(built))
        return {"rows": len(built.start)}


def load_abstraction(path: Path, config: AbstractionConfig | None = None) -> Abstraction:
    """Load a card abstraction from a file.

    `config`: the configuration that the abstraction must have been built with; None accepts any.
    Raises UserError for another configuration, and for a file that is missing or damaged.
    """
    stored = parquet.load(path, ABSTRACTION, None if config is None else config.model_dump())
    table = stored.columns
    return Abstraction(
        table["start"],
        (table["move_flop"], table["move_turn"], table["move_river"]),
        (table["joint_flop"], table["joint_turn"], table["joint_river"]),
        table["win"],
        card_abstraction.Buckets(*(table[n].T for n in ("mean", "lowest", "highest", "share"))),
        PARAMETERS.validate_python(stored.parameters),
    )


def _build(
    parameters: AbstractionParameters, out: Path, pool: WorkerPool, progress: Progress
) -> Abstraction:
    """Cluster the hands of each betting round into buckets, then estimate the bucket transitions.

    A hand is the hole cards together with the public cards. `out`: the file of the data set;
    intermediate results are stored beside it.
    """
    sizes = [max(1, ROLLOUTS // parameters.rollouts(r)) for r in range(len(ROUNDS))]
    counts = [int(count) for count in hand_indexer(parameters.ranks).counts]
    ranges = [
        [(first, min(first + size, count)) for first in range(0, count, size)]
        for count, size in zip([*counts, parameters.deals], [*sizes, DEALS], strict=True)
    ]

    def parts(
        stage: int, made_with: dict[str, Any], work: Work, common: Any, join: Any
    ) -> Iterator[Columns]:
        """Run one stage of the computation in shards, and yield its results part by part.

        A part is a group of consecutive shards, whose results are stored in one file.

        - `stage`: 0 to 3: estimate the hand strengths of a betting round; 4: count the transitions.
        - `made_with`: the parameters that the results depend on.
        - `work`: the function that computes one shard, with `common` as its second argument.
        - `join`: combines the results of the shards of a part.
        """
        made_with = {**made_with, "shard": ranges[stage][0]}
        places = (divmod(k, SHARDS_PER_PART) for k in range(len(ranges[stage])))
        shards = [(stage, *place, *ends) for place, ends in zip(places, ranges[stage], strict=True)]
        before, total = sum(map(len, ranges[:stage])), sum(map(len, ranges))
        return chunked_build.run_shards(
            out, _part(parameters, stage), made_with, SCALED[stage], work, common, shards,
            SHARDS_PER_PART, pool, lambda name, done, _: progress(name, before + done, total), join,
        )  # fmt: skip

    buckets, statistics = [], []
    for stage in range(len(ROUNDS)):
        made_with = {"rollouts": parameters.rollouts(stage), "ranks": parameters.ranks}
        made_with["seed"] = parameters.seed
        scores = parts(stage, made_with, _roll_out, parameters, concat_columns)
        rng = generator(parameters.seed, RngStream.INITIAL, len(SCALED) + stage)
        bucket, of_buckets = card_abstraction.cluster(parameters, stage, scores, rng)
        if len(bucket) != counts[stage]:  # compiled code does not check bounds
            raise UserError(f"{chunked_build.parts_folder(out)} is damaged: delete it")
        buckets.append(bucket)
        statistics.append(of_buckets)
    tables = parts(len(ROUNDS), asdict(parameters), _deal, (parameters, tuple(buckets)), _sum)
    return card_abstraction.build_abstraction(parameters, tables, statistics)


def _part(parameters: AbstractionParameters, stage: int) -> parquet.Kind:
    """Return the kind of the intermediate files of a stage: 0 to 3 a betting round, 4 the deals."""
    if stage == len(ROUNDS):
        return TRANSITIONS
    score = parquet.Column(least=0, most=2 * parameters.rollouts(stage))
    return parquet.Kind(PART, VERSION, REMEDY, {"score": score, "weight": parquet.Column(least=1)})


def _sum(counts: Sequence[Columns]) -> Columns:
    return {name: sum(each[name] for each in counts) for name in counts[0]}  # type: ignore[misc]


def _roll_out(_: Generator, parameters: AbstractionParameters, *shard: int) -> Columns:
    """Estimate the strengths of some hands of a betting round by rollouts.

    Returns columns by name. `shard` has five numbers:

    - the betting round
    - the number of the intermediate file in which the results are stored
    - the index of this shard among the shards of that file
    - the first hand
    - the last hand plus 1

    The first three numbers and the configured seed determine the random numbers.
    """
    *key, first, end = shard
    rng = generator(parameters.seed, RngStream.INITIAL, *key)
    return card_abstraction.roll_out(parameters, key[0], first, end, rng)


def _deal(_: Generator, common: Any, *shard: int) -> Columns:
    """Sample deals and count the transitions of hands between buckets from round to round.

    `common`: the tuple (parameters, buckets). `buckets` has an array for each betting round, with
    the bucket of every hand. `shard` has five numbers:

    - the number 4, because the stages 0 to 3 of the computation are the betting rounds
    - the number of the intermediate file in which the results are stored
    - the index of this shard among the shards of that file
    - the first deal
    - the last deal plus 1

    The first three numbers and the configured seed determine the random numbers.
    """
    parameters, buckets = common
    *key, first, end = shard
    rng = generator(parameters.seed, RngStream.INITIAL, *key)
    return card_abstraction.count_transitions(parameters, buckets, end - first, rng)


def _columns(built: Abstraction) -> dict[str, Array]:
    """Return the columns of the abstraction's file by name, with one row for each bucket."""
    return {
        "start": built.start,
        **{f"move_{name}": table for name, table in zip(ROUNDS[1:], built.moves, strict=True)},
        **{f"joint_{name}": table for name, table in zip(ROUNDS[1:], built.joint, strict=True)},
        "win": built.win,
        **{name: table.T for name, table in vars(built.buckets).items()},
    }
