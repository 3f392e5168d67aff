"""Job file of a board: players that learn about an opponent during a match."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from overtrick.comparison.comparison_job import UNUSED_ON_BOARDS, Name
from overtrick.config import job_file
from overtrick.config.job_file import Job, OneGameJob
from overtrick.config.packaged_jobs import job_path
from overtrick.config.sections import Count, ModelPath, Section, UnusedKeys
from overtrick.evaluation.board.end_observations import Told
from overtrick.evaluation.board.opponent_files import DEVELOPMENT
from overtrick.storage import locate
from overtrick.storage.locate import SEED

Place = Annotated[str, Field(min_length=1)]

STORED = ("model", "in_context")
"""Players that are stored models."""


def _absolute_model(name: str) -> str:
    """Return the absolute path of a model or run; a name with `{seed}` stays as it is."""
    return name if SEED in name else locate.absolute_if_path(name)


ModelOfSeeds = Annotated[str, AfterValidator(_absolute_model)]


class PlayerLimits(Section):
    """Limits of the players of a board."""

    seconds_per_game: float | None = Field(default=1, gt=0)
    """Computing time of a player in seconds a game, as a mean over a match; null: no limit. It does
    not apply to the player model."""

    memory_gib: float | None = Field(default=4, gt=0)
    """GiB of a program's heap and private writable memory, on Linux; null: no limit."""


class BoardMethod(Section):
    """A player of a board."""

    unused_keys = (
        UnusedKeys(
            {"player": ("equilibrium", "oracle", "model", "in_context", "program")},
            ("population_size", "population_seed", "psro", "league"),
        ),
        UnusedKeys({"player": ("equilibrium", "program")}, ("exploitability_bound",)),
        UnusedKeys(
            {"player": ("equilibrium", "oracle", "population_posterior", "program")}, ("model",)
        ),
        UnusedKeys(
            {"player": ("equilibrium", "oracle", "population_posterior", "model", "in_context")},
            ("command", "folder"),
        ),
        UnusedKeys({"player": ("equilibrium", "oracle")}, ("told",)),
    )

    player: Literal[
        "equilibrium", "oracle", "population_posterior", "model", "in_context", "program"
    ]
    """equilibrium: an equilibrium of the game, which never adapts. oracle: the best response to the
    opponent's strategy, which it is told. population_posterior: a best response to a Bayesian
    estimate of the opponent, with a population as prior. model: a stored model, which its trainer
    adapts from scratch for each budget; it does not play opponents that change. in_context: a
    stored network of the trainer in_context, which reads the games of the match. program: a program
    of your own, which answers a board's questions on standard input and output."""

    population_size: Count = 400
    """Strategies in the population, drawn from the families for training."""

    population_seed: int = Field(default=1, ge=0)
    """Seed with which they are drawn."""

    psro: ModelPath | None = None
    """Stored run of PSRO, or the folder of its model. Its policies join the population."""

    league: ModelPath | None = None
    """Stored run of a league, or the folder of its model. Its policies join the population."""

    exploitability_bound: float | None = Field(default=None, ge=0)
    """Largest exploitability of the player's strategies, in points per game; null: no bound. For a
    model or network, beyond that of an equilibrium; the nearest strategy within the bound plays."""

    model: ModelOfSeeds | None = None
    """Run, champion, or folder of a model. For the player model, `{seed}` in the name or path of a
    run stands for the seed of a match, so that each has its own model: "eom{seed}" are the runs
    eom0, eom1, ..."""

    command: str | None = Field(default=None, min_length=1)
    """Command that starts a program, such as `python my_player.py`."""

    folder: str | None = Field(default=None, min_length=1)
    """Folder in which the command runs; null: that in which the board is started."""

    told: tuple[Told, ...] | None = Field(default=None, min_length=1)
    """Settings in which this player is evaluated; null: those of the board. For a model, give one:
    the setting that shows the cards that its adaptation uses. For in_context that of its training.
    """

    def model_of(self, seed: int) -> str:
        """Return the model that plays the match with a seed."""
        assert self.model is not None
        return self.model.replace(SEED, str(seed))

    def models(self, seeds: Sequence[int]) -> dict[str, str]:
        """Return the stored models of the player by label.

        The label is "" for the key model, `seed S` for models by seed, and psro or league for the
        runs of a population. `seeds`: of the matches.
        """
        runs = {"psro": self.psro, "league": self.league}
        found = {key: name for key, name in runs.items() if name is not None}
        if self.model is None:
            return found
        if SEED not in self.model:
            return {"": self.model}
        return {f"seed {seed}": self.model_of(seed) for seed in seeds}

    @field_validator("command")
    @classmethod
    def _command_can_be_split(cls, command: str | None) -> str | None:
        try:
            shlex.split(command or "")
        except ValueError as error:
            raise ValueError(f"command: {error}") from None
        return command

    @model_validator(mode="after")
    def _model_is_named(self) -> BoardMethod:
        if self.player == "program" and self.command is None:
            raise ValueError("a player `program` needs the key command")
        if self.player in STORED and (self.model is None or self.told is None):
            raise ValueError(f"a player `{self.player}` needs the keys model and told")
        if self.player in STORED and self.told is not None and len(self.told) > 1:
            raise ValueError("told: a model has one setting")
        if self.player == "in_context" and SEED in (self.model or ""):
            raise ValueError(f"model: {SEED} is for the player `model` only")
        if self.told is not None and len(set(self.told)) < len(self.told):
            raise ValueError("told: a value is given twice")
        return self


class BoardJob(OneGameJob):
    """Job file of a board: methods, opponents, and numbers of games of the checkpoints."""

    unused_keys = (UNUSED_ON_BOARDS,)

    trainer: Literal["board"]
    workers: int = Field(default=0, ge=0)
    """Ray workers that play matches; 0: this process."""

    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2, 3, 4), min_length=1)
    """Seeds of the matches of each player with each opponent."""

    opponents: Place = DEVELOPMENT
    """development: the opponents that come with the package. Otherwise a folder of test opponents,
    which `overtrick board make JOB` writes."""

    budgets: tuple[Count, ...] = Field(default=(50, 200, 600, 2000), min_length=1)
    """Numbers of games after which the players are evaluated."""

    told: tuple[Told, ...] = Field(default=("own_cards", "showdown", "all_cards"), min_length=1)
    """Cards of the opponent that players learn after a game. own_cards: none; showdown: those shown
    at a showdown; all_cards: all. They always see all actions and their own cards and payoffs."""

    limits: PlayerLimits = PlayerLimits()
    """Limits of the players."""

    methods: dict[Name, BoardMethod] = Field(min_length=1)
    """Players, by name."""

    @field_validator("budgets")
    @classmethod
    def _budgets_rise(cls, budgets: tuple[int, ...]) -> tuple[int, ...]:
        if any(later <= earlier for earlier, later in pairwise(budgets)):
            raise ValueError("budgets: each number must be larger than the one before")
        return budgets

    @model_validator(mode="after")
    def _nothing_is_given_twice(self) -> BoardJob:
        for key, values in (("seeds", self.seeds), ("told", self.told)):
            if len(set(values)) < len(values):
                raise ValueError(f"{key}: a value is given twice")
        return self

    def settings_of(self, method: str) -> tuple[Told | Literal["nothing", "strategy"], ...]:
        """Return what a method is told, for each setting in which it is evaluated.

        An equilibrium uses nothing that it is told, and an oracle is told the opponent's strategy.
        """
        player = self.methods[method].player
        if player == "equilibrium":
            return ("nothing",)
        return ("strategy",) if player == "oracle" else self.methods[method].told or self.told


def load(path: str | Path, overrides: Sequence[str]) -> BoardJob:
    """Load the job file of a board. Raises UserError.

    `path`: the file, or the name of a board that comes with the package.
    """
    job = job_file.load(job_path(path), overrides, {"board": BoardJob})
    methods = {name: _with_absolute_paths(each, job.seeds[0]) for name, each in job.methods.items()}
    job = job.model_copy(update={"methods": methods})
    if job.opponents == DEVELOPMENT:
        return job
    return job.model_copy(update={"opponents": locate.absolute_path(job.opponents)})


def _with_absolute_paths(method: BoardMethod, seed: int) -> BoardMethod:
    """Return a method with the absolute paths of its program's folder and of its models by seed.

    `seed`: the seed by whose model the folder of the models is found.
    """
    if method.command is not None:
        return method.model_copy(update={"folder": str(Path(method.folder or ".").absolute())})
    if method.model is None or SEED not in method.model:
        return method
    found = Path(locate.absolute_if_path(method.model_of(seed)))
    parts = Path(method.model).parts
    if not found.is_absolute() or len(found.parts) < len(parts):
        return method
    kept = found.parts[: len(found.parts) - len(parts)]
    return method.model_copy(update={"model": str(Path(*kept, *parts))})


def training_jobs(job: BoardJob) -> list[Job]:
    """Return the jobs of child runs: a board has none."""
    return []
