"""Job file of a comparison: methods, opponents, seeds, and one evaluation budget for all."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from overtrick.config import job_file
from overtrick.config.job_file import GameChoice, OneGameJob
from overtrick.config.overrides import set_value
from overtrick.config.packaged_jobs import job_path
from overtrick.config.sections import Count, Opponent, Section, UnusedKeys
from overtrick.core import PortableOptions, UserError, suggestion
from overtrick.evaluation.evaluate import EvaluationBudget
from overtrick.games import registry
from overtrick.runs import provenance
from overtrick.runs.child_runs import FinishedGroup
from overtrick.training.registry import JOBS

Name = Annotated[str, Field(pattern=r"^\w[\w +-]*$")]
"""Name of a row or a column; without dots, so that overrides by dotted path can name it."""

UNUSED_ON_BOARDS = UnusedKeys(
    {}, ("checkpoints", "track.register"), "because a board trains no model"
)

Rows = list[dict[str, Any]]

EXACT = "exact"  # the oracle that computes the best response instead of learning it


@dataclass(frozen=True)
class FinishedTable(FinishedGroup, ABC):
    """A comparison table whose trainings and evaluations have all ended."""

    @abstractmethod
    def legend(self) -> list[str]:
        """Return lines that explain the numbers."""

    @abstractmethod
    def titled_tables(self) -> list[tuple[Rows, str]]:
        """Return the tables to print, each with its title."""

    @abstractmethod
    def json_results(self) -> dict[str, Any]:
        """Return the results by name, as `--json` prints them."""


class Method(Section):
    """A method of a comparison: a trained model, a fixed policy, or an oracle (best response).

    Exactly one of `job`, `policy` and `oracle` is set.
    """

    unused_keys = (UnusedKeys({"oracle": (None, EXACT)}, ("key",)),)

    job: str | dict[str, Any] | None = None
    """Job file, relative to the table's folder, or its content; trained with every seed of the
    table."""

    without: tuple[str, ...] = ()
    """Dotted keys of the job to remove, so that their defaults apply."""

    set: dict[str, Any] = Field(default={})
    """New values for dotted keys of the job."""

    policy: Opponent | None = None
    """Reference opponent, run, or folder of a model that plays without adaptation."""

    oracle: str | dict[str, Any] | None = None
    """exact: the best response on the game tree. Otherwise a job, given like `job`, that learns a
    best response to each opponent."""

    key: str = "exploit.opponent"
    """Dotted key of the oracle's job that names its opponent."""

    @model_validator(mode="after")
    def _one_of_three(self) -> Method:
        if sum(each is not None for each in (self.job, self.policy, self.oracle)) != 1:
            raise ValueError("name exactly one of job, policy and oracle")
        if (self.set or self.without) and self.training_job is None:
            raise ValueError("set and without change a job, and this method has none")
        return self

    @property
    def training_job(self) -> str | dict[str, Any] | None:
        """Return the job file, or the job, that trains the method; None if there is no training."""
        return self.job if self.oracle in (None, EXACT) else self.oracle


class ModelOf(Section):
    """An opponent that is the trained model of a method in the same comparison."""

    method: Name
    """Method whose model, trained with the first seed, is the opponent."""


class ComparisonEvaluation(EvaluationBudget):
    """Evaluation budget of a comparison, the same for every method."""

    every: Count | None = None
    """Iterations between evaluations during training, for learning curves; null: no learning
    curves."""


REPLACED = (
    "seed", "workers", "checkpoints", "track", "search", "evaluate.opponents",
    *(f"evaluate.{key}" for key in ComparisonEvaluation.model_fields),
)  # fmt: skip
"""Keys and sections of a method's job that the comparison replaces."""


class ComparisonJob(OneGameJob):
    """Job file of a comparison, which evaluates every method against every opponent."""

    unused_keys = (UnusedKeys({"ours": (None,)}, ("variants",)),)

    trainer: Literal["table"]
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2), min_length=1)
    """Seeds with which every method is trained."""

    workers: int = Field(default=0, ge=0)
    """Ray workers that evaluate in parallel; 0: this process."""

    evaluate: ComparisonEvaluation = ComparisonEvaluation()
    opponents: dict[Name, Opponent | ModelOf] = Field(min_length=1)
    """Columns: a reference opponent, a model's folder, or {method: NAME}."""

    methods: dict[Name, Method] = Field(min_length=1)
    """Rows of the table, by name."""

    ours: Name | None = None
    """Row that is compared with the baselines."""

    variants: tuple[Name, ...] = ()
    """Rows that are variants of `ours`, and so not baselines."""

    paper: dict[Name, dict[Name, float]] = Field(default={})
    """Published payoffs, by row and column."""

    @model_validator(mode="after")
    def _names_exist(self) -> ComparisonJob:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is given twice")
        for key, names, known in self._references():
            for name in names:
                if name not in known:
                    hint = suggestion(name, known)
                    raise ValueError(f"unknown name '{name}' in {key}: {hint}")
        for name, method in self.methods.items():
            check_not_replaced(name, method.set, REPLACED)
        if sum(method.oracle is not None for method in self.methods.values()) > 1:
            raise ValueError("methods: only one of them can be an oracle")
        return self

    def _references(self) -> Iterable[tuple[str, Iterable[str], Iterable[str]]]:
        """Yield (key, names, allowed names) for each job key that refers to methods or opponents.

        `names`: the methods or opponents in the value of the key.
        """
        learners = [name for name, method in self.methods.items() if method.job is not None]
        yield "ours", [self.ours] if self.ours else [], self.methods
        yield "variants", self.variants, self.methods
        yield "paper", self.paper, self.methods
        for row, figures in self.paper.items():
            yield f"paper.{row}", figures, self.opponents
        for column, who in self.opponents.items():
            if isinstance(who, ModelOf):
                yield f"opponents.{column}", [who.method], learners or ["(no method has a job)"]


def load(path: str | Path, overrides: Sequence[str]) -> ComparisonJob:
    """Load the job file of a comparison and the jobs of its methods. Raises UserError.

    `path`: the file, or the name of a comparison that comes with the package.
    """
    path = job_path(path)
    table = job_file.load(path, overrides, {"table": ComparisonJob})
    methods = {
        name: _with_job(method, Path(path).parent, f"methods.{name} of {path}", table)
        for name, method in table.methods.items()
    }
    return table.model_copy(update={"methods": methods})


def _with_job(method: Method, folder: Path, source: str, table: ComparisonJob) -> Method:
    """Return a copy of a method whose training job is complete and valid.

    Reads the training job from its file, if the method names a file. Then removes the job keys in
    `method.without`, sets those in `method.set`, and adds default values for missing keys. Returns
    a method without training unchanged.

    - `folder`: folder of the comparison's job file. The path of a training job is relative to it.
    - `source`: description of the method for error messages.

    Raises UserError for an invalid job, or if the job is for another game than the comparison.
    """
    asked = method.training_job
    if asked is None:
        return method
    content, where = changed_job(asked, folder, method.without, method.set, source)
    if method.oracle is not None:
        set_value(content, method.key, "random", where)  # raises for an unknown key
    job = job_file.parse(content, JOBS, where)
    if evaluation_game_of(job.game) != evaluation_game_of(table.game):
        its, wanted = _describe(job.game), _describe(table.game)
        raise UserError(f"{source} plays {its}, but the table plays {wanted}")
    complete = job.model_dump(mode="json") | {"search": {}}
    changed = {"set": {}, "without": (), "oracle" if method.oracle else "job": complete}
    return method.model_copy(update=changed)


def changed_job(
    job: str | dict[str, Any],
    folder: Path,
    without: Iterable[str],
    changes: Mapping[str, Any],
    source: str,
) -> tuple[dict[str, Any], str]:
    """Return a copy of a job's plain data with other values, and its description for errors.

    - `job`: the job, or its file in `folder`.
    - `without`: dotted keys to remove first. `changes`: new values for dotted keys.
    - `source`: description of the method that the job trains.

    Raises UserError for a file that cannot be read and for an unknown key.
    """
    if isinstance(job, str):
        where = f"{folder / job}, for {source}"
        try:
            content = job_file.read(folder / job)
        except UserError as error:
            raise UserError(f"{source}: {error}") from None
    else:
        where, content = source, copy.deepcopy(job)
    for key in without:
        _leave_out(content, key, where)
    for key, value in provenance.dotted(changes).items():
        set_value(content, key, value, where)
    return content, where


def check_not_replaced(name: str, changes: Mapping[str, Any], replaced: Iterable[str]) -> None:
    """Raise ValueError if a method changes a key of its job that the table replaces.

    `name`: the method. `changes`: new values for dotted keys of its job. `replaced`: the keys and
    sections that the table replaces.
    """
    for key in provenance.dotted(changes):
        if any(f"{key}.".startswith(f"{each}.") for each in replaced):
            raise ValueError(f"methods.{name} sets '{key}', which the table sets itself")


def _leave_out(content: dict[str, Any], key: str, source: str) -> None:
    """Remove the value at a dotted key from a job's plain data, in place.

    `source`: names the job in errors. Raises UserError if the key is missing.
    """
    *parents, leaf = key.split(".")
    place: Any = content
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    if not isinstance(place, dict) or leaf not in place:
        raise UserError(f"without '{key}': there is no such key in {source}")
    del place[leaf]


def evaluation_game_of(choice: GameChoice) -> tuple[str, dict[str, Any]]:
    """Return name and options of the game on which the policies of a job are evaluated.

    `choice`: the game of the job.
    """
    game = registry.evaluation_game(registry.make(choice.name, **choice.options))
    portable = isinstance(game, PortableOptions)
    return choice.name, game.portable_options() if portable else choice.options


def _describe(choice: GameChoice) -> str:
    """Return a game and its options as text for an error message."""
    return f"{choice.name} {choice.options}" if choice.options else choice.name
