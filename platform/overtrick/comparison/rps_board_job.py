"""Job file of the board of repeated rock, paper, scissors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from overtrick.comparison.comparison_job import UNUSED_ON_BOARDS, Name
from overtrick.config import job_file
from overtrick.config.job_file import GameChoice, Job, JobGame, OneGameJob
from overtrick.config.packaged_jobs import job_path
from overtrick.config.sections import Section

GAME = "openspiel/matrix_rps"


class RpsMethod(Section):
    """A player of the board."""

    player: Literal["level_k_mixture", "uniform"]
    """level_k_mixture: predicts the opponent from the history, at several levels of reasoning.
    uniform: plays at random."""


class RpsBoardJob(OneGameJob):
    """Job file of the board of repeated rock, paper, scissors, against OpenSpiel's bots."""

    unused_keys = (UNUSED_ON_BOARDS,)

    trainer: Literal["rps_board"]
    game: JobGame = GameChoice(name=GAME)
    workers: int = Field(default=0, ge=0)
    """Ray workers that play matches; 0: this process."""

    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(
        default=tuple(range(20)), min_length=1
    )
    """Seeds of the matches of each player with each bot."""

    opponents: Literal["development", "test", "all"] = "development"
    """development: every second of the 43 bots, sorted by name. test: the others. all: all 43
    bots."""

    methods: dict[Name, RpsMethod] = Field(min_length=1)
    """Players, by name. The bots themselves are further rows of the table."""

    @field_validator("game")
    @classmethod
    def _is_rock_paper_scissors(cls, game: GameChoice) -> GameChoice:
        if game.name != GAME or game.options:
            raise ValueError(f"the bots play {GAME} only: leave game out")
        return game

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is given twice")
        return seeds


def load(path: str | Path, overrides: Sequence[str]) -> RpsBoardJob:
    """Load the job file of a board of rock, paper, scissors. Raises UserError.

    `path`: the file, or the name of a board that comes with the package.
    """
    return job_file.load(job_path(path), overrides, {"rps_board": RpsBoardJob})


def training_jobs(job: RpsBoardJob) -> list[Job]:
    """Return the jobs of child runs: a board has none."""
    return []
