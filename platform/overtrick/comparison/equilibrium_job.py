"""Job file of an equilibrium table: methods compared by exploitability, on several games."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from overtrick.comparison.comparison_job import Name, changed_job, check_not_replaced
from overtrick.config import job_file
from overtrick.config.job_file import BaseJob, Job, JobGame
from overtrick.config.packaged_jobs import job_path
from overtrick.config.sections import Count, Section
from overtrick.core import UserError, suggestion
from overtrick.evaluation.game_cache import playable_game
from overtrick.runs import lifecycle
from overtrick.solvers.walks.make_walk import is_evaluated_by_walks
from overtrick.training.equilibrium.psro_job import PsroJob
from overtrick.training.registry import JOBS

EQUILIBRIUM_TRAINERS = ("nfsp", "policy_gradient_self_play", "psro")
"""Trainers that measure exact exploitability and report the number of decisions."""


REPLACED = (
    "game", "seed", "workers", "checkpoints", "track", "search", "evaluate.every",
    "evaluate.opponents",
)  # fmt: skip
"""Keys and sections of a method's job that the table replaces."""


class TableGame(Section):
    """A column of an equilibrium table."""

    game: JobGame
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2), min_length=1)
    """Seeds with which every method is trained."""

    decision_budget: Count
    """Training budget of each method: number of decisions of all seats. The table shows the last
    evaluation within the budget, or else the first one."""

    evaluations: Count = 10
    """Largest number of exact evaluations of each child run, at equal intervals of iterations; the
    last one is after the last iteration."""


class TableMethod(Section):
    """A row of an equilibrium table: a training job, and its changes on each game."""

    job: str | dict[str, Any]
    """Job file, relative to the table's folder, or its content. The table replaces its game, seed,
    workers, checkpoints, track, evaluate.every and evaluate.opponents, and leaves out search."""

    set: dict[str, Any] = Field(default={})
    """New values for dotted keys of the job, on all games."""

    set_by_game: dict[Name, dict[str, Any]] = Field(default={})
    """New values for dotted keys of the job, on one game; they are applied after `set`."""


class EquilibriumTableJob(BaseJob):
    """Job file of an equilibrium table, which compares methods by exact exploitability."""

    trainer: Literal["equilibrium_table"]
    workers: int = Field(default=0, ge=0)
    """Ray workers that play the games of each child run; 0: its own process plays them."""

    games: dict[Name, TableGame] = Field(min_length=1)
    """Columns of the table, by name."""

    methods: dict[Name, TableMethod] = Field(min_length=1)
    """Rows of the table, by name."""

    @property
    def game_names(self) -> str:
        """The names of the games, separated by commas."""
        return ", ".join(dict.fromkeys(column.game.name for column in self.games.values()))

    @model_validator(mode="after")
    def _games_of_methods_exist(self) -> EquilibriumTableJob:
        for name, method in self.methods.items():
            for changes in (method.set, *method.set_by_game.values()):
                check_not_replaced(name, changes, REPLACED)
            for game in method.set_by_game:
                if game not in self.games:
                    hint = suggestion(game, self.games)
                    raise ValueError(f"unknown name '{game}' in methods.{name}.set_by_game: {hint}")
        for name, column in self.games.items():
            if len(set(column.seeds)) < len(column.seeds):
                raise ValueError(f"games.{name}.seeds: a seed is given twice")
        return self


def load(path: str | Path, overrides: Sequence[str]) -> EquilibriumTableJob:
    """Load the job file of an equilibrium table and the jobs of its methods. Raises UserError.

    `path`: the file, or the name of a table that comes with the package.
    """
    path = job_path(path)
    table = job_file.load(path, overrides, {"equilibrium_table": EquilibriumTableJob})
    complete = {}
    for name, method in table.methods.items():
        source = f"methods.{name} of {path}"
        content, _ = changed_job(method.job, path.parent, (), method.set, source)
        complete[name] = method.model_copy(update={"job": content, "set": {}})
    table = table.model_copy(update={"methods": complete})
    training_jobs(table)  # raises UserError for a job that is not valid
    return table


def training_jobs(table: EquilibriumTableJob) -> list[Job]:
    """Return the job of each child run: by game, then seed, then method. Raises UserError."""
    return [
        _job(table, game, seed, method)
        for game, column in table.games.items()
        for seed in column.seeds
        for method in table.methods
    ]


def _job(table: EquilibriumTableJob, game: str, seed: int, name: str) -> Job:
    """Return the job that trains a method on a game of the table. Raises UserError."""
    column, method = table.games[game], table.methods[name]
    source = f"methods.{name}, game {game}"
    content, where = changed_job(method.job, Path(), (), method.set_by_game.get(game, {}), source)
    content |= {"game": column.game.model_dump(), "seed": seed, "workers": table.workers}
    content.pop("search", None)
    for key in ("checkpoints", "track"):
        content[key] = getattr(table, key).model_dump()
    job = job_file.parse(content, JOBS, where)
    if job.trainer not in EQUILIBRIUM_TRAINERS:
        known = ", ".join(EQUILIBRIUM_TRAINERS)
        raise UserError(
            f"{source}: trainer '{job.trainer}' cannot be part of an equilibrium table: use {known}"
        )
    if isinstance(job, PsroJob) and job.psro.oracle not in ("ppo", "dqn"):
        raise UserError(
            f"{source}: psro.oracle {job.psro.oracle} does not count decisions: use ppo or dqn"
        )
    every = -(-job.stop.iterations // column.evaluations)
    changes = {"every": every, "opponents": ("random",)}  # payoffs are no part of the table
    section = job.evaluation.model_copy(update=changes)  # type: ignore[union-attr]
    return job.model_copy(update={"evaluate": section})


def check(table: EquilibriumTableJob) -> int:
    """Validate an equilibrium table; return its number of training iterations.

    Raises UserError for a table that would otherwise fail later.
    """
    for name, column in table.games.items():
        game, tree = playable_game(column.game)
        if tree is None and not is_evaluated_by_walks(game):
            raise UserError(
                f"games.{name}: {game.name} has no exact exploitability: it is too large for a "
                "tree or for walks"
            )
        for method in table.methods:
            job = _job(table, name, column.seeds[0], method)
            try:
                lifecycle.check_job(job)
            except UserError as error:
                raise UserError(f"methods.{method}, game {name}: {error}") from None
    return sum(job.stop.iterations for job in training_jobs(table))
