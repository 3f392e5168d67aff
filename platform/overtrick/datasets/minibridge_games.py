"""Generate Mini-Bridge games, store them as Parquet files, and load them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from pydantic import Field, TypeAdapter

from overtrick.config.job_file import GameChoice
from overtrick.config.sections import Count
from overtrick.core import UserError, concat_columns, select_rows
from overtrick.core.files import replacing_folder
from overtrick.core.json_files import OpenRecord
from overtrick.datasets import chunked_build
from overtrick.datasets.chunked_build import Columns, DatasetConfig, Progress
from overtrick.distributed.workers import RngStream, WorkerPool, chunks, generator
from overtrick.evaluation import cardplay
from overtrick.evaluation.cardplay import CardplayGames
from overtrick.games.bridge.cards import CARDS, STRAINS, TRICKS
from overtrick.storage import parquet
from overtrick.storage.bucket_copy import local_copy


class GenerationParameters(OpenRecord):
    """Schema of the generation parameters that `load` needs: the number of games of a data set."""

    games: Count


KIND = parquet.Kind(
    "minibridge games", 1, "generate them again, in another folder",
    {
        "deals": parquet.Column(shape=(CARDS + 2,), least=0, most=CARDS),
        "cards": parquet.Column(shape=(CARDS,), least=0, most=CARDS - 1),
        "above": parquet.Column(least=-TRICKS, most=TRICKS),
        "number": parquet.Column(least=0),
    },
    TypeAdapter(GenerationParameters),
)  # fmt: skip
GAMES_PER_SHARD = 5000
FILES = "contract=*/seed=*/games.parquet"


class MinibridgeConfig(DatasetConfig):
    """Settings of games that a random declarer plays in Mini-Bridge (Hadjur 2018, Algorithm 1)."""

    subject = "minibridge games"

    games: Count = 100_000
    """Number of games that are stored."""

    defenders: cardplay.ScriptedDefenders = "rules"
    """Scripted players that defend against the random declarer."""

    strain: cardplay.Strain = "notrump"
    """Contracts that are dealt."""

    lost: bool = False
    """Also store games that the declarer lost."""

    seed: int = Field(default=0, ge=0)
    """Random seed of deals and play."""

    @property
    def game(self) -> GameChoice:
        """Return Mini-Bridge, with the option `strain` of this configuration."""
        return GameChoice(name="minibridge", options={"strain": self.strain})

    def default_path(self) -> Path:
        """Return a folder named after the defenders, the strain and the seed."""
        return Path(f"boards/minibridge-{self.defenders}-{self.strain}-{self.seed}")

    def build(self, out: Path, pool: WorkerPool, progress: Progress) -> dict[str, Any]:
        """Generate the games in the folder `out`, or check the existing games.

        If `out` exists, raises UserError unless its games have these settings. Returns a dictionary
        with the key `rows`, the number of games.
        """
        if out.exists():
            if not any(out.glob(FILES)):
                raise UserError(f"{out} exists and has no games: name another folder with --out")
            return {"rows": len(load(out, self).deals)}  # refuses the games of another config
        made_with = self.model_dump()
        shards = [(k, count) for k, (count,) in enumerate(chunks(self.games, GAMES_PER_SHARD))]
        parts = chunked_build.run_shards(
            out, KIND, made_with, "games", _play_shard, self, shards, 1, pool, progress
        )
        columns = concat_columns(list(parts))
        contract = columns["deals"][:, CARDS:]
        with replacing_folder(out) as new:
            for strain, tricks in np.unique(contract, axis=0):
                rows = (contract == (strain, tricks)).all(axis=1)
                folder = new / f"contract={tricks - 6}{STRAINS[strain]}" / f"seed={self.seed}"
                folder.mkdir(parents=True)
                file = folder / Path(FILES).name
                parquet.save(file, KIND, made_with, select_rows(columns, rows))
        return {"rows": self.games}


def load(folder: Path, config: MinibridgeConfig | None = None) -> CardplayGames:
    """Load all games of a folder, in the order in which they were generated.

    `config`: the configuration that the games must have been generated with; None accepts any.
    Raises UserError if there are no games, if a file is missing, damaged, or of another kind or
    version, or if a game breaks the rules.
    """
    files = _files_of(folder)
    wanted = None if config is None else config.model_dump()
    parts = [parquet.load(file, KIND, wanted) for file in files]
    made_with = parquet.common_parameters(files, [part.parameters for part in parts], KIND)
    columns = concat_columns([part.columns for part in parts])
    order = columns["number"].argsort()
    if len(order) != made_with["games"]:
        raise UserError(f"{folder} holds {len(order)} of {made_with['games']} games: {KIND.remedy}")
    games = CardplayGames(*(columns[name][order] for name in CardplayGames._fields))
    intact = games.follow_rules() & (columns["number"][order] == np.arange(len(order)))
    if not intact.all():  # compiled code does not check bounds
        problem = f"game {1 + int(intact.argmin())} breaks the rules, or is not there once"
        raise UserError(f"{folder} is damaged ({problem}): {KIND.remedy}")
    return CardplayGames(*(column.astype(np.int8, copy=False) for column in games))


def check_games_folder(folder: str, wanted: Mapping[str, Any]) -> None:
    """Raise UserError unless the games of a folder were generated with the values in `wanted`.

    `folder`: its path or URL. `wanted`: required values of some fields of MinibridgeConfig.
    """
    made_with = parquet.load(_files_of(local_copy(folder, "the games"))[0], KIND).parameters
    for name, value in wanted.items():
        if made_with.get(name) != value:
            raise UserError(
                f"{folder} was made with {name} {made_with.get(name)}, not with {value}"
            )


def _files_of(folder: Path) -> list[Path]:
    """Return the sorted Parquet files in a folder of games. Raises UserError if there are none."""
    files = sorted(folder.glob(FILES))
    if not files:
        raise UserError(f"no games in {folder}: overtrick generate minibridge --out {folder}")
    return files


@lru_cache(maxsize=1)
def load_cached(folder: str) -> CardplayGames:
    """Load all games of a folder; each process caches the games of the folder loaded last.

    `folder`: its path or URL.
    """
    return load(local_copy(folder, "the games"))


def _play_shard(_: Generator, config: MinibridgeConfig, shard: int, count: int) -> Columns:
    """Play the games of one shard; return the fields of CardplayGames and each game's index.

    `shard`: the number of the shard, which seeds the games. `count`: number of games. The column
    `number` is the index of a game in the data set.
    """
    rng = generator(config.seed, RngStream.INITIAL, shard)
    game = cardplay.card_game(config.game)
    games = cardplay.random_games(game, count, config.defenders, config.lost, rng)
    return {**games._asdict(), "number": GAMES_PER_SHARD * shard + np.arange(count)}
