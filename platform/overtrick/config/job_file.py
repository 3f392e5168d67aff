"""A job file becomes one validated, frozen, typed job; an unknown key names the nearest one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from overtrick.config.search_space import Search
from overtrick.core import UserError, nearest
from overtrick.games import registry
from overtrick.storage import locate
from overtrick.storage.old_names import new_key, translate_job
from overtrick.tracking import server_address
from overtrick.tracking.model_versions import NAMED

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


Folder = Annotated[str, AfterValidator(lambda path: str(Path(path).absolute()))]  # of any path
Model = Annotated[str, AfterValidator(locate.place_of)]  # the folder of one, or its run
Opponent = Annotated[str, AfterValidator(locate.meant)]
"""A name, or a file, a run or the folder of a model: of these the job keeps the absolute path."""


warnings.filterwarnings("ignore", 'Field name "register"')  # of classes: nobody calls theirs


class Section(BaseModel):
    """A frozen part of a job; unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )

    def given(self, keys: Iterable[str]) -> str:
        """Those of some keys that have other values than their defaults."""
        return ", ".join(k for k in keys if getattr(self, k) != type(self).model_fields[k].default)


class GameChoice(Section):
    name: str = Field(description="a game of the registry (`overtrick list`)")
    options: dict[str, Any] = Field(default={}, description="options of the game")


class Stop(Section):
    iterations: Count = Field(default=100, description="training iterations in all")


class Resources(Section):
    cpus: Positive = Field(default=1, description="CPUs kept for the learner")
    gpus: float = Field(default=0, ge=0, description="GPUs of the learner, of those that use one")
    worker_cpus: Positive = Field(default=1, description="CPUs kept for each game worker")
    single_node: bool = Field(
        default=False, description="learner and workers on one machine, and wait until there is one"
    )
    learners: Count = Field(default=1, description="equal ones that share the work, by Ray Train")
    data_readers: int = Field(
        default=0,
        ge=0,
        description="CPUs that read for a learner, by Ray Data; 0 = itself",
    )


class Checkpoints(Section):
    every: Count = Field(default=10, description="iterations between checkpoints")
    keep: Count = Field(default=2, description="newest checkpoints that stay on disk")
    retries: int = Field(default=3, ge=0, description="times a trial that crashed starts again")


class Track(Section):
    experiment: str = Field(default="overtrick", pattern=NAMED, description="MLflow experiment")
    uri: Annotated[str, AfterValidator(server_address.told)] = Field(
        default_factory=server_address.usual,
        description="MLflow tracking store: sqlite or http address; else MLFLOW_TRACKING_URI",
    )
    register: str | None = Field(default=None, pattern=NAMED, description="registers its model as")


class Videos(Section):
    """Films of the model on its way, of games that can be seen."""

    every: Count | None = Field(
        default=None, description="a film of the first checkpoint after so many iterations each"
    )
    opponent: Opponent = Field(default="random", description="whom the model meets there")

    @model_validator(mode="after")
    def _somebody_films(self) -> Videos:
        if self.every is None and self.opponent != "random":
            raise ValueError("videos.opponent is of no use without videos.every: set that too")
        return self


class Work(Section):
    """What every job file has, whatever is to be done."""

    trainer: str = Field(description="a page of trainers/")
    game: GameChoice = Field(description="a name, or {name: ..., option: ...}")
    checkpoints: Checkpoints = Checkpoints()
    track: Track = Field(default_factory=Track)  # its default depends on where one stands

    @field_validator("game", mode="before")
    @classmethod
    def _game_by_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Mapping) and "options" not in value:
            named = {k: v for k, v in value.items() if k == "name"}
            return {**named, "options": {k: v for k, v in value.items() if k != "name"}}
        return value

    @field_validator("game")
    @classmethod
    def _game_can_be_made(cls, choice: GameChoice) -> GameChoice:
        return GameChoice(
            name=choice.name, options=registry.portable_options(choice.name, choice.options)
        )


class Job(Work):
    """What every job of a trainer has; a trainer adds its own sections."""

    seed: int = Field(default=0, ge=0, description="same seed, same numbers")
    workers: int = Field(default=0, ge=0, description="Ray game workers; 0 = in this process")
    stop: Stop = Stop()
    resources: Resources = Resources()
    videos: Videos = Videos()
    search: Search = Field(
        default=Search(),
        description="what `sweep` tries: KEY: {grid: [...]}, or see docs/sweeps.md",
    )
    uses: ClassVar[frozenset[str]] = frozenset()  # of its resources, those beside cpus

    @field_validator("resources")
    @classmethod
    def _they_are_used(cls, value: Resources) -> Resources:
        for name, field in Resources.model_fields.items():
            if (
                name not in {"cpus", "worker_cpus", "single_node", *cls.uses}
                and getattr(value, name) != field.default
            ):
                raise ValueError(f"this trainer uses no {name}: leave {name} at {field.default}")
        return value


Asked = TypeVar("Asked", bound=Work)
"""The class of what a file asks for."""


class _Unambiguous(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error, and 1e-5 a number as in JSON."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"key '{key}' stands twice {node.start_mark}")
        return super().construct_mapping(node, deep)


_Unambiguous.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def load(path: str | Path, overrides: Sequence[str], jobs: Mapping[str, type[Asked]]) -> Asked:
    """Read a job file, apply `key=value` overrides by dotted path, and check everything.

    jobs maps the name of a trainer to its job class. Raises UserError.
    """
    return parse(overridden(read(path), overrides), jobs, str(path))


def load_stored(folder: Path, jobs: Mapping[str, type[Asked]]) -> Asked:
    """Load the job that a folder of a run was made with; keys of earlier versions are translated.

    Raises UserError if the file is missing or damaged.
    """
    path = folder / "job.json"
    return parse(translate_job(read(path)), jobs, str(path))


def read(path: str | Path) -> dict[str, Any]:
    """What a job file says, unchecked. Raises UserError if it cannot be read."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _Unambiguous)
    except OSError as error:
        raise UserError(f"cannot read job file {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a job: it must map keys to values, such as 'trainer: meta'")
    return content


def overridden(content: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of the plain data of a job, after `key=value` by dotted path. Raises UserError."""
    changed = deepcopy(dict(content))
    for override in overrides:
        _override(changed, override)
    return changed


def parse(content: Mapping[str, Any], jobs: Mapping[str, type[Asked]], source: str) -> Asked:
    """A job from plain data; source is named in errors. Raises UserError."""
    content = locate.pinned(content, source)
    trainer = content.get("trainer")
    if not isinstance(trainer, str) or trainer not in jobs:
        near = nearest(str(trainer or content.get("algorithm")), jobs)
        raise UserError(f"unknown trainer '{trainer}' in {source}: did you mean '{near}'?")
    job = jobs[trainer]
    _refuse_unknown_keys(content, job, source, "", partial(new_key, trainer, job=content))
    try:
        return job.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
        ours = first["type"] == "value_error"  # says what it was given by itself
        value = first["input"]
        if first["type"] == "tuple_type":
            message = f"input should be a list, such as [{value}]"
        given = "" if ours or isinstance(value, dict) else f", not {value!r}"
        place = f"'{key}' in {source}" if key else source  # none: the job as a whole is wrong
        raise UserError(f"{place}: {message}{given}") from None


def keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Every dotted key of a section with its default and description, for help and docs."""
    for name, field in section.model_fields.items():
        inner = _section(field.annotation)
        if inner is not None and name != "game":
            yield from keys(inner, f"{prefix}{name}.")
        else:
            default = (
                "required"
                if field.is_required()
                else str(field.get_default(call_default_factory=True))
            )
            yield f"{prefix}{name}", default, field.description or ""


def _override(content: dict[str, Any], override: str) -> None:
    path, equals, value = override.partition("=")
    if not equals:
        raise UserError(f"override '{override}' must be key=value, such as stop.iterations=4")
    try:
        put(content, path, yaml.load(value, _Unambiguous), f"override '{override}'")
    except yaml.YAMLError:
        raise UserError(f"override '{override}': '{value}' is not a YAML value") from None


def put(content: dict[str, Any], path: str, value: Any, source: str) -> None:
    """Set what stands at a dotted path."""
    *parents, leaf = path.split(".")
    place = content
    for parent in parents:
        inner = place.setdefault(parent, {})
        if parent == "game" and isinstance(inner, str):
            inner = place[parent] = {"name": inner}
        if not isinstance(inner, dict):
            raise UserError(f"{source}: '{parent}' holds a value, not keys")
        place = inner
    place[leaf] = value


def _refuse_unknown_keys(
    content: Mapping[str, Any],
    section: type[Section],
    source: str,
    prefix: str,
    renamed: Callable[[str], str | None],
) -> None:
    for key, value in content.items():
        if key not in section.model_fields:
            if (new := renamed(f"{prefix}{key}")) is not None:
                raise UserError(f"key '{prefix}{key}' in {source} is now called '{new}'")
            near = nearest(str(key), section.model_fields)
            raise UserError(
                f"unknown key '{prefix}{key}' in {source}: did you mean '{prefix}{near}'?"
            )
        annotation = section.model_fields[key].annotation
        inside = {f"{prefix}{key}": value}
        if get_origin(annotation) is dict and isinstance(value, Mapping):
            annotation = get_args(annotation)[1]
            inside = {f"{prefix}{key}.{name}": each for name, each in value.items()}
        inner = _section(annotation)
        for where, each in inside.items():
            if inner is not None and inner is not GameChoice and isinstance(each, Mapping):
                _refuse_unknown_keys(each, inner, source, f"{where}.", renamed)


def _section(annotation: Any) -> type[Section] | None:
    """The section class behind an annotation, if it is one."""
    if get_origin(annotation) in (Literal, dict):
        return None
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None
