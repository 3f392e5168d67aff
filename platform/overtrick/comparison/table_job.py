"""What a table's job file says: methods, strangers, seeds, and one budget for all."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from overtrick.config import job_file
from overtrick.config.job_file import BaseJob, Count, GameChoice, Opponent, Section
from overtrick.config.overrides import set_value
from overtrick.core import PortableOptions, UserError, nearest
from overtrick.evaluation.evaluate import EvaluationBudget
from overtrick.games import registry
from overtrick.runs import provenance
from overtrick.training.registry import JOBS

Name = Annotated[str, Field(pattern=r"^\w[\w +-]*$")]
"""A row's or a column's: no dots, so that overrides by dotted path reach what it names."""

EXACT = "exact"  # the oracle that needs no training


class Method(Section):
    """A row of the table: exactly one of job, policy and oracle."""

    job: str | dict[str, Any] | None = Field(
        default=None,
        description="a job file, seen from the table's folder, or what stands in one; it is "
        "trained with every seed of the table",
    )
    without: tuple[str, ...] = Field(
        default=(), description="dotted keys of the job that are left out: their defaults hold"
    )
    set: dict[str, Any] = Field(
        default={}, description="dotted keys of the job, and other values for them"
    )
    policy: Opponent | None = Field(
        default=None,
        description="a stranger, a run, or the folder of a model, that plays unchanged",
    )
    oracle: str | dict[str, Any] | None = Field(
        default=None,
        description="exact: the best response on the tree; else as job, of a training against "
        "each stranger",
    )
    key: str = Field(
        default="exploit.opponent", description="where the oracle's job names its opponent"
    )

    @model_validator(mode="after")
    def _one_of_three(self) -> Method:
        if sum(each is not None for each in (self.job, self.policy, self.oracle)) != 1:
            raise ValueError("name exactly one of job, policy and oracle")
        if (self.set or self.without) and self.learnt is None:
            raise ValueError("set and without change a job, and this method has none")
        return self

    @property
    def learnt(self) -> str | dict[str, Any] | None:
        """The job by which this method is trained, if it is."""
        return self.job if self.oracle in (None, EXACT) else self.oracle


class ModelOf(Section):
    """A stranger that is trained for this table."""

    method: Name = Field(description="the method whose model of the first seed it is")


class ComparisonEvaluation(EvaluationBudget):
    """The same for every method."""

    every: Count | None = Field(
        default=None,
        description="iterations between evaluations while a method is trained, for its learning "
        "curve; none: no curve, and no time for it",
    )


class Table(BaseJob):
    """Every method against every stranger."""

    trainer: Literal["table"]
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(0, 1, 2), min_length=1, description="every method is trained with each"
    )
    workers: int = Field(
        default=0, ge=0, description="Ray workers that judge side by side; 0 = in this process"
    )
    evaluate: ComparisonEvaluation = ComparisonEvaluation()
    opponents: dict[Name, Opponent | ModelOf] = Field(
        min_length=1, description="columns: a stranger, a model's folder, or {method: ...}"
    )
    methods: dict[Name, Method] = Field(min_length=1, description="rows")
    ours: Name | None = Field(default=None, description="the row that the baselines face")
    variants: tuple[Name, ...] = Field(
        default=(), description="rows that are neither ours nor baselines: ours, changed"
    )
    paper: dict[Name, dict[Name, float]] = Field(
        default={}, description="by row and column: what was published"
    )

    @model_validator(mode="after")
    def _names_exist(self) -> Table:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: one of them stands twice")
        for key, names, known in self._references():
            for name in names:
                if name not in known:
                    near = nearest(name, known)
                    raise ValueError(f"unknown name '{name}' in {key}: did you mean '{near}'?")
        if sum(method.oracle is not None for method in self.methods.values()) > 1:
            raise ValueError("methods: there can be one oracle only")
        return self

    def _references(self) -> Iterable[tuple[str, Iterable[str], Iterable[str]]]:
        """Where rows and columns are named, which, and those that there are."""
        learners = [name for name, method in self.methods.items() if method.job is not None]
        yield "ours", [self.ours] if self.ours else [], self.methods
        yield "variants", self.variants, self.methods
        yield "paper", self.paper, self.methods
        for row, figures in self.paper.items():
            yield f"paper.{row}", figures, self.opponents
        for column, who in self.opponents.items():
            if isinstance(who, ModelOf):
                yield f"opponents.{column}", [who.method], learners or ["(no method has a job)"]


TABLES: dict[str, type[Table]] = {"table": Table}
"""As `config.load` wants it: a table is no trainer's job, but it is asked for in the same way."""


def load(path: str | Path, overrides: Sequence[str]) -> Table:
    """Read a table's file, and the job files of its methods into it. Raises UserError."""
    table = job_file.load(path, overrides, TABLES)
    methods = {
        name: _with_job(method, Path(path).parent, f"methods.{name} of {path}", table)
        for name, method in table.methods.items()
    }
    return table.model_copy(update={"methods": methods})


def _with_job(method: Method, folder: Path, source: str, table: Table) -> Method:
    """The method with the whole of its job in the place of a file's name."""
    asked = method.learnt
    if asked is None:
        return method
    if isinstance(asked, str):
        where = f"{folder / asked}, for {source}"
        try:
            content = job_file.read(folder / asked)
        except UserError as error:
            raise UserError(f"{source}: {error}") from None
    else:
        where, content = source, copy.deepcopy(asked)
    for key in method.without:
        _leave_out(content, key, where)
    for key, value in provenance.dotted(method.set).items():
        set_value(content, key, value, where)
    if method.oracle is not None:
        set_value(content, method.key, "random", where)  # is there such a key?
    job = job_file.parse(content, JOBS, where)
    if _judged(job.game) != _judged(table.game):
        raise UserError(f"{source}: it plays {_said(job.game)}, but the table {_said(table.game)}")
    whole = job.model_dump(mode="json") | {"search": {}}
    return method.model_copy(
        update={"set": {}, "without": (), "oracle" if method.oracle else "job": whole}
    )


def _leave_out(content: dict[str, Any], key: str, source: str) -> None:
    """Remove what stands at a dotted path. Raises UserError if nothing does."""
    *parents, leaf = key.split(".")
    place: Any = content
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    if not isinstance(place, dict) or leaf not in place:
        raise UserError(f"without '{key}': it does not stand in {source}")
    del place[leaf]


def _judged(choice: GameChoice) -> tuple[str, dict[str, Any]]:
    """The game in which a policy is judged, whatever it learns from."""
    game = registry.evaluation_game(registry.make(choice.name, **choice.options))
    return choice.name, game.portable_options() if isinstance(
        game, PortableOptions
    ) else choice.options


def _said(choice: GameChoice) -> str:
    """A game and its options."""
    return f"{choice.name} {choice.options}" if choice.options else choice.name
