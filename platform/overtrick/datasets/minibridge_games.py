"""Games of Mini-Bridge made once and kept: Parquet, in a folder for each contract and seed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field

from overtrick.config.job_file import Count, GameChoice, Section, validated
from overtrick.config.overrides import field_overrides
from overtrick.core import Array, UserError
from overtrick.core.files import replacing_folder
from overtrick.datasets import chunked_build
from overtrick.distributed.workers import RngStream, WorkerPool, generator
from overtrick.evaluation.cardplay import (
    CardplayGames,
    ScriptedDefenders,
    Strain,
    card_game,
    random_games,
)
from overtrick.games.bridge.cards import CARDS, STRAINS
from overtrick.storage import parquet

KIND = parquet.Kind("minibridge games", 1, "generate them again, in another folder")
GAMES_PER_SHARD = 5000  # games of one shard, whatever the number of workers
FILE = "games.parquet"


class MinibridgeConfig(Section):
    """Which games (Hadjur 2018, Algorithm 1)."""

    games: Count = Field(default=100_000, description="games that are kept")
    defenders: ScriptedDefenders = Field(
        default="rules", description="whom the random declarer meets"
    )
    strain: Strain = Field(default="notrump", description="as the game's option")
    lost: bool = Field(default=False, description="keep the games that the declarer lost, too")
    seed: int = Field(default=0, ge=0, description="same seed, same games")

    @property
    def game(self) -> GameChoice:
        return GameChoice(name="minibridge", options={"strain": self.strain})


def plan_of(overrides: Sequence[str]) -> MinibridgeConfig:
    """The plan of key=value overrides. Raises UserError."""
    return validated(
        MinibridgeConfig, field_overrides(MinibridgeConfig, overrides, "minibridge games")
    )


def generate(
    plan: MinibridgeConfig, out: Path, crew: WorkerPool, progress: chunked_build.Progress
) -> dict[str, Any]:
    """Make the games, or those that are still missing: the folder, rows, and the seconds taken.

    Games of this plan that are there already stay as they are. Raises UserError where anything else
    lies, or nothing can be written.
    """
    began = time.monotonic()
    if out.exists():
        if not any(out.glob(f"contract=*/seed=*/{FILE}")):
            raise UserError(f"{out} is there and holds no games: name another place with --out")
        rows = len(load(out, plan).deals)  # refuses what else may lie there
    else:
        rows = plan.games
        _make(plan, out, crew, progress)
    return {"path": str(out), "rows": rows, "seconds": time.monotonic() - began}


def load(folder: Path, plan: MinibridgeConfig | None = None) -> CardplayGames:
    """All games of a folder, in the order in which they were made; with a plan, made by it.

    Raises UserError if there are none, or if a file is missing, cut off, of another kind or
    version.
    """
    files = sorted(folder.glob(f"contract=*/seed=*/{FILE}"))
    if not files:
        raise UserError(f"no games in {folder}: overtrick generate minibridge --out {folder}")
    wanted = None if plan is None else plan.model_dump()
    parts = [parquet.load(file, KIND, wanted) for file in files]
    asked = parts[0].parameters
    for file, part in zip(files, parts, strict=True):
        if part.parameters != asked:
            raise UserError(f"{file} was made with other parameters than {files[0]}: {KIND.remedy}")
    columns = {n: np.concatenate([p.columns[n] for p in parts]) for n in parts[0].columns}
    order = columns["number"].argsort()
    if len(order) != asked["games"]:
        raise UserError(f"{folder} holds {len(order)} of {asked['games']} games: {KIND.remedy}")
    return CardplayGames(*(columns[name][order] for name in CardplayGames._fields))


def check_games_folder(folder: str, wanted: Mapping[str, Any]) -> None:
    """Raise UserError unless the games of a folder were made with these values of the plan."""
    file = next(iter(sorted(Path(folder).glob(f"contract=*/seed=*/{FILE}"))), None)
    if file is None:
        raise UserError(f"no games in {folder}: overtrick generate minibridge --out {folder}")
    made_with = parquet.load(file, KIND).parameters
    for name, value in wanted.items():
        if made_with[name] != value:
            raise UserError(f"{folder} was made with {name} {made_with[name]}, not with {value}")


@lru_cache(maxsize=1)
def load_cached(folder: str) -> CardplayGames:
    """The same, read once by each process."""
    return load(Path(folder))


def _make(
    plan: MinibridgeConfig, out: Path, crew: WorkerPool, progress: chunked_build.Progress
) -> None:
    made_with = plan.model_dump()
    sizes = [
        min(GAMES_PER_SHARD, plan.games - first) for first in range(0, plan.games, GAMES_PER_SHARD)
    ]
    shards = list(enumerate(sizes))
    columns = chunked_build.run_shards(
        out, KIND, made_with, "games", _part, plan, shards, 1, crew, progress
    )
    contract = columns["deals"][:, CARDS:]
    with replacing_folder(out) as new:
        for strain, needed in np.unique(contract, axis=0):
            rows = (contract == (strain, needed)).all(axis=1)
            place = new / f"contract={needed - 6}{STRAINS[strain]}" / f"seed={plan.seed}"
            place.mkdir(parents=True)
            parquet.save(place / FILE, KIND, made_with, {n: c[rows] for n, c in columns.items()})
    shutil.rmtree(chunked_build.parts_folder(out))


def _part(rng: Generator, plan: MinibridgeConfig, part: int, count: int) -> dict[str, Array]:
    luck = generator(plan.seed, RngStream.INITIAL, part)
    games = random_games(card_game(plan.game), count, plan.defenders, plan.lost, luck)
    return {**games._asdict(), "number": GAMES_PER_SHARD * part + np.arange(len(games.deals))}
