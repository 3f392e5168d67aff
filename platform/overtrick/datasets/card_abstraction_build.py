"""What is worked out once and kept: so far the abstraction of limit hold'em.

Work is cut into shards, and every AT_ONCE of them are a part: it is done by the crew, written to
disk beside the result, and not done again if the build is stopped and started anew. A part has a
generator of its own, so neither workers nor stops change a number.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field, model_validator

from overtrick.config.job_file import Count, Section, validated
from overtrick.config.overrides import field_overrides
from overtrick.core import Array, UserError
from overtrick.datasets.chunked_build import (
    Progress,
    create_parts_folder,
    load_existing,
    parts_folder,
)
from overtrick.distributed.workers import (
    RngStream,
    Shard,
    Work,
    WorkerPool,
    generator,
    start_pool,
    start_ray,
)
from overtrick.games.poker.holdem import card_abstraction
from overtrick.games.poker.holdem.card_abstraction import (
    ROUNDS,
    Abstraction,
    AbstractionParameters,
    Buckets,
)
from overtrick.games.poker.holdem.hand_isomorphism import hand_indexer
from overtrick.storage import parquet

ROLLOUTS = 10_000_000  # of a shard, or those of one holding
DEALS = 1_000_000  # of a shard
MOST_SCALE = 100
AT_ONCE = 16  # shards of a part
VERSION = 1  # raise it when the same parameters come to give other numbers
REMEDY = "build it with `overtrick generate abstraction`"
ABSTRACTION = parquet.Kind("abstraction", VERSION, REMEDY)
PART = parquet.Kind("part of an abstraction", VERSION, REMEDY)
PAPER = AbstractionParameters()
SCALED = (*ROUNDS, "deals")


class AbstractionConfig(Section):
    """How the abstraction is built (Samothrakis et al. 2011, sec. 4.2)."""

    buckets: int = Field(
        default=PAPER.buckets, ge=2, le=32,
        description="buckets of like holdings in each round; the joint tables have their 4th power",
    )  # fmt: skip
    preflop: Count = Field(
        default=PAPER.preflop, description="roll-outs of each of the 169 hands before the flop"
    )
    flop: Count = Field(
        default=PAPER.flop, description="roll-outs of each of the 1,286,792 holdings on the flop"
    )
    turn: Count = Field(
        default=PAPER.turn, description="roll-outs of each of the 13,960,050 holdings on the turn"
    )
    river: Count = Field(
        default=PAPER.river, description="roll-outs of each of the 123,156,254 holdings there"
    )
    deals: Count = Field(
        default=PAPER.deals, description="deals sampled for the transition and showdown tables"
    )
    kmeans_starts: Count = Field(
        default=PAPER.kmeans_starts, description="starts of k-means++, the best of which counts"
    )
    kmeans_steps: Count = Field(
        default=PAPER.kmeans_steps, description="steps of k-means at most, a start"
    )
    ranks: int = Field(
        default=PAPER.ranks, ge=5, le=13,
        description="ranks in the deck, from the ace down; 13 is hold'em, fewer a small game",
    )  # fmt: skip
    seed: int = Field(default=PAPER.seed, ge=0, description="same seed, same numbers")

    @model_validator(mode="after")
    def _strengths_for_all_buckets(self) -> AbstractionConfig:
        """n roll-outs can only tell 2 n + 1 strengths apart."""
        for name in ROUNDS:
            if 2 * getattr(self, name) + 1 < self.buckets:
                raise ValueError(
                    f"{name} needs at least {self.buckets // 2} roll-outs a holding for "
                    f"{self.buckets} buckets, not {getattr(self, name)}"
                )
        if self.buckets > self.ranks**2:
            raise ValueError(f"{self.ranks} ranks make only {self.ranks**2} hands before the flop")
        return self


def plan_of(overrides: Sequence[str] = (), scale: float = 1.0) -> AbstractionConfig:
    """The paper's plan with key=value overrides; every other count of samples times `scale`.

    Scaling leaves roll-outs enough to tell as many strengths apart as there are buckets. Raises
    UserError.
    """
    if not 0 < scale <= MOST_SCALE:
        raise UserError(f"--samples-scale must be above 0 and at most {MOST_SCALE}, not {scale}")
    values = field_overrides(AbstractionConfig, overrides, "the abstraction")
    plan = validated(AbstractionConfig, values)
    counts = {name: getattr(PAPER, name) for name in SCALED if name not in values}
    scaled = {n: max(int(np.ceil(c * scale)), plan.buckets // 2) for n, c in counts.items()}
    return validated(AbstractionConfig, {**values, **scaled})


def generate(
    kind: str,
    out: Path,
    overrides: Sequence[str] = (),
    scale: float = 1.0,
    workers: int = 0,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Any]:
    """Work out what is asked for and keep it in a file: its path, rows, and the seconds taken.

    A file that is there already and was made with the same parameters stays as it is. Raises
    UserError for an unknown kind, impossible counts, a path that cannot be written to, or where
    anything else lies.
    """
    if kind != ABSTRACTION.name:
        raise UserError(f"cannot generate '{kind}': did you mean '{ABSTRACTION.name}'?")
    plan = plan_of(overrides, scale)
    began = time.monotonic()
    if stored := load_existing(out, ABSTRACTION, plan.model_dump()):
        rows = len(stored.columns["start"])
    else:
        rows = len(_hire_and_build(plan, out, workers, progress).start)
    return {"path": str(out), "rows": rows, "seconds": time.monotonic() - began}


def load_abstraction(path: Path, plan: AbstractionConfig | None = None) -> Abstraction:
    """The abstraction in a file; with a plan, one that was built by it. Raises UserError."""
    stored = parquet.load(path, ABSTRACTION, None if plan is None else plan.model_dump())
    table = stored.columns
    return Abstraction(
        table["start"],
        (table["move_flop"], table["move_turn"], table["move_river"]),
        (table["joint_flop"], table["joint_turn"], table["joint_river"]),
        table["win"],
        Buckets(*(table[name].T for name in ("mean", "lowest", "highest", "share"))),
        AbstractionParameters(**stored.parameters),
    )


def _hire_and_build(
    plan: AbstractionConfig, out: Path, workers: int, progress: Progress
) -> Abstraction:
    create_parts_folder(out)
    if workers:
        start_ray([{"CPU": 1.0}] * workers)
    crew = start_pool(workers)
    try:
        return build(plan, out, crew, progress)
    finally:
        crew.close()


def build(plan: AbstractionConfig, out: Path, crew: WorkerPool, progress: Progress) -> Abstraction:
    """Build the abstraction, or what is left to do of it, and keep it."""
    parameters = AbstractionParameters(**plan.model_dump())
    building = _Building(parameters, out, crew, progress)
    buckets, told = [], []
    for round in range(len(ROUNDS)):
        rng = generator(plan.seed, RngStream.INITIAL, len(SCALED) + round)
        bucket, tells = card_abstraction.cluster(parameters, round, building.rolled(round), rng)
        buckets.append(bucket)
        told.append(tells)
    built = card_abstraction.build_abstraction(parameters, building.dealt(tuple(buckets)), told)
    parquet.save(out, ABSTRACTION, asdict(parameters), _columns(built))
    shutil.rmtree(building.folder)
    return built


class _Building:
    """The parts of one build: those on disk, and a crew for the others."""

    def __init__(
        self, parameters: AbstractionParameters, out: Path, crew: WorkerPool, progress: Progress
    ) -> None:
        self.parameters = parameters
        self.folder = parts_folder(out)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._crew = crew
        self._progress = progress
        counts = hand_indexer(parameters.ranks).counts
        sizes = [max(1, ROLLOUTS // parameters.rollouts(round)) for round in range(len(ROUNDS))]
        self._holdings = [_cut(int(c), size) for c, size in zip(counts, sizes, strict=True)]
        self._deals = _cut(parameters.deals, DEALS)
        self._total = sum(-(-len(shards) // AT_ONCE) for shards in (*self._holdings, self._deals))
        self._done = 0

    def rolled(self, round: int) -> list[dict[str, Array]]:
        """The scores and weights of all holdings of a round, in order."""
        shards = [(round, *ends) for ends in self._holdings[round]]
        about = {
            "rollouts": self.parameters.rollouts(round),
            "ranks": self.parameters.ranks,
            "seed": self.parameters.seed,
        }
        return list(self._parts(round, about, _roll_out, self.parameters, shards, np.concatenate))

    def dealt(self, buckets: tuple[Array, ...]) -> Iterator[dict[str, Array]]:
        """What sampled deals went through."""
        shards = [(last - first,) for first, last in self._deals]
        common = (self.parameters, buckets)
        return self._parts(len(ROUNDS), asdict(self.parameters), _deal, common, shards, sum)

    def _parts(
        self, stage: int, about: dict[str, Any], work: Work, common: Any,
        shards: Sequence[Shard], join: Callable[[list[Array]], Any],
    ) -> Iterator[dict[str, Array]]:  # fmt: skip
        """The parts of a stage in order, from the disk or from the crew."""
        name = SCALED[stage]
        for number, first in enumerate(range(0, len(shards), AT_ONCE)):
            self._progress(name, self._done, self._total)
            path = self.folder / f"{name}-{number}.parquet"
            made_with = {**about, "part": number, "at_once": AT_ONCE, "shard": shards[0]}
            try:
                columns = parquet.load(path, PART, made_with).columns
            except UserError:  # not done yet, or of another build
                rng = generator(self.parameters.seed, RngStream.INITIAL, stage, number)
                done = self._crew.map(work, common, shards[first : first + AT_ONCE], rng)
                columns = {column: join([each[column] for each in done]) for column in done[0]}
                parquet.save(path, PART, made_with, columns)
            self._done += 1
            self._progress(name, self._done, self._total)
            yield columns


def _cut(work: int, size: int) -> list[tuple[int, int]]:
    """The first and one past the last of each shard of a fixed size; the last may be smaller."""
    return [(first, min(first + size, work)) for first in range(0, work, size)]


def _roll_out(
    rng: Generator, common: AbstractionParameters, round: int, first: int, last: int
) -> dict[str, Array]:
    return card_abstraction.roll_out(common, round, first, last, rng)


def _deal(rng: Generator, common: Any, deals: int) -> dict[str, Array]:
    parameters, buckets = common
    return card_abstraction.count_transitions(parameters, buckets, deals, rng)


def _columns(built: Abstraction) -> dict[str, Array]:
    """One row a bucket."""
    return {
        "start": built.start,
        **{f"move_{name}": table for name, table in zip(ROUNDS[1:], built.moves, strict=True)},
        **{f"joint_{name}": table for name, table in zip(ROUNDS[1:], built.joint, strict=True)},
        "win": built.win,
        **{name: table.T for name, table in vars(built.buckets).items()},
    }
