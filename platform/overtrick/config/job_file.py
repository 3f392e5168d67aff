"""Job files: read YAML, apply overrides, and validate the result as one typed job."""

from __future__ import annotations

import typing
import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

import pydantic
import yaml
from pydantic import AfterValidator, BeforeValidator, Field

from overtrick.config.overrides import apply_overrides
from overtrick.config.packaged_jobs import job_path
from overtrick.config.search_space import Search
from overtrick.config.sections import (
    Count,
    Opponent,
    Positive,
    Section,
    UnusedKeys,
    section_class,
    validated,
)
from overtrick.config.strict_yaml import check_values, parse_yaml
from overtrick.core import UserError, suggestion
from overtrick.games import registry
from overtrick.storage import locate
from overtrick.storage.bucket_copy import copy_of
from overtrick.storage.old_names import new_key, translate_job
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import server_address
from overtrick.tracking.model_versions import NAMED

# A key may be named `register`: sections do not need BaseModel.register, an ABC method.
warnings.filterwarnings("ignore", 'Field name "register"')


class GameChoice(Section):
    """The game of a job, given by its name in the game registry and its options."""

    name: str
    """A game of the registry (`overtrick list`)."""

    options: dict[str, Any] = Field(default={})
    """Options of the game."""


def expand_game(value: Any) -> Any:
    """Turn `NAME` and `{name: NAME, OPTION: VALUE}`, as in job files, into keys name and options.

    Other values are returned unchanged.
    """
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Mapping) and "options" not in value:
        named = {k: v for k, v in value.items() if k == "name"}
        return {**named, "options": {k: v for k, v in value.items() if k != "name"}}
    return value


def _with_portable_options(choice: GameChoice) -> GameChoice:
    options = registry.portable_options(choice.name, choice.options)
    return GameChoice(name=choice.name, options=options)


JobGame = Annotated[
    GameChoice,
    BeforeValidator(expand_game),
    AfterValidator(_with_portable_options),
    Field(description="A name, or {name: ..., option: ...}."),
]
"""Game of a job: a game of the registry, which can be made with these options."""


class Stop(Section):
    """Settings for the end of a training run."""

    iterations: Count = 100
    """Number of training iterations."""


class Resources(Section):
    """Settings for the CPUs, GPUs and processes of a run."""

    cpus: Positive = 1
    """CPUs reserved for the learner."""

    gpus: float = Field(default=0, ge=0)
    """GPUs per learner: 1; a fraction, to share one GPU between jobs; or 0, to compute on the CPU.
    The rules of games always run on CPUs.
    """

    worker_cpus: Positive = 1
    """CPUs reserved for each game worker."""

    single_node: bool = False
    """Place a run's process and its workers on one machine; wait until a machine has room. Several
    learners and data readers are placed freely."""

    learners: Count = 1
    """Data-parallel learners that share the work, by Ray Train."""

    data_readers: int = Field(default=0, ge=0)
    """CPUs that read examples for a learner, by Ray Data; 0: the learner reads them."""


class Checkpoints(Section):
    """Settings for checkpoints, and for restarts from them."""

    every: Count = 10
    """Iterations between checkpoints."""

    keep: Count = 2
    """Number of newest checkpoints that stay on disk."""

    retries: int = Field(default=3, ge=0)
    """Maximum number of restarts of a trial that crashed."""

    best: bool = True
    """Also keep the model that scored best in the evaluations during training."""


class Track(Section):
    """Settings of a run's MLflow tracking."""

    experiment: str = Field(default="overtrick", pattern=NAMED)
    """MLflow experiment."""

    uri: Annotated[str, AfterValidator(server_address.validate)] = Field(
        default_factory=server_address.default
    )
    """MLflow tracking store: sqlite or http address; else MLFLOW_TRACKING_URI."""

    register: str | None = Field(default=None, pattern=NAMED)
    """Name under which the model is registered in MLflow; null: do not register it."""

    system_metrics: bool = False
    """Record the use of processors, memory, disk, network and GPUs of the driver's machine."""


class Videos(Section):
    """Settings of the videos of the model during training, for games with videos."""

    unused_keys = (UnusedKeys({"every": (None,)}, ("opponent",)),)

    every: Count | None = None
    """Iterations between videos; each shows the newest checkpoint. null: no videos."""

    opponent: Opponent = "random"
    """Opponent of the model in the videos."""


class BaseJob(Section):
    """Settings that every job file has, for a trainer or for a comparison table."""

    trainer: str
    """Name of a trainer, or the kind of a comparison table: `table`, `equilibrium_table`,
    `board` or `rps_board`."""

    checkpoints: Checkpoints = Checkpoints()
    track: Track = Field(default_factory=Track)  # its default depends on the environment

    @property
    @abstractmethod
    def game_names(self) -> str:
        """The name of the game, or of several games, separated by commas."""


class OneGameJob(BaseJob):
    """Settings of a job for one game."""

    game: JobGame

    @property
    def game_names(self) -> str:
        """The name of the game."""
        return self.game.name


class EvaluationSection(Protocol):
    """A section of a job that schedules evaluations during training."""

    @property
    def every(self) -> int:
        """Return the number of training iterations from one evaluation to the next."""


@typing.runtime_checkable
class EvaluatedJob(Protocol):
    """A job that has a section `evaluate`."""

    @property
    def evaluate(self) -> EvaluationSection:
        """Return the section that schedules evaluations."""


class Job(OneGameJob):
    """Settings in the job file of every trainer; each trainer adds sections of its own."""

    seed: int = Field(default=0, ge=0)
    """Seed of all random numbers: same seed, same results."""

    workers: int = Field(default=0, ge=0)
    """Ray workers that play games; 0: this process plays."""

    stop: Stop = Stop()
    resources: Resources = Resources()
    videos: Videos = Videos()
    search: Search = Field(default=Search())
    """Values that `sweep` tries: KEY: {grid: [...]}, or see docs/sweeps.md."""

    used_resources: ClassVar[frozenset[str]] = frozenset()
    """Optional keys of `resources` that the trainer reads: gpus, learners, data_readers."""

    @property
    def evaluation(self) -> EvaluationSection | None:
        """Return the section `evaluate`, or None if the job of this trainer has none."""
        return self.evaluate if isinstance(self, EvaluatedJob) else None

    @pydantic.field_validator("resources")
    @classmethod
    def _resources_are_used(cls, value: Resources) -> Resources:
        always = {"cpus", "worker_cpus", "single_node"}
        for name in value.changed_keys(set(Resources.model_fields) - always - cls.used_resources):
            default = Resources.model_fields[name].default
            raise ValueError(f"this trainer uses no {name}: leave {name} at {default}")
        if value.learners > 1 and value.gpus % 1:
            raise ValueError(
                f"gpus {value.gpus:g} with {value.learners} learners: set gpus to 1 or 0, or "
                "learners to 1"
            )
        return value


class GpuJob(Job):
    """Settings in the job file of a trainer that can compute its networks on a GPU."""

    used_resources: ClassVar[frozenset[str]] = frozenset({"gpus"})


JobT = TypeVar("JobT", bound=BaseJob)


def load(path: str | Path, overrides: Sequence[str], jobs: Mapping[str, type[JobT]]) -> JobT:
    """Read a job file, apply `key=value` overrides by dotted path, and validate the job.

    `jobs`: the job class of each trainer, by the trainer's name. Raises UserError if the file
    cannot be read or the job is not valid.
    """
    return parse(apply_overrides(read(path), overrides), jobs, str(path))


def load_stored(run: RunFolder, jobs: Mapping[str, type[JobT]]) -> JobT:
    """Load the job from the folder of a run, translating keys of earlier versions.

    A run in a bucket may continue on another machine, which lacks the folder of its MLflow
    database; its job then has this machine's address of MLflow.

    `jobs`: the job class of each trainer, by the trainer's name. Raises UserError if the file is
    missing or damaged.
    """
    content = translate_job(run.read_job())
    track = content.get("track")
    if copy_of(run.path) is not None and isinstance(track, dict) and "uri" in track:
        content["track"] = {**track, "uri": server_address.usable_here(str(track["uri"]))}
    return parse_stored(content, jobs, str(run.job))


def read(path: str | Path) -> dict[str, Any]:
    """Read a job file as plain data, without validation. Raises UserError if this fails.

    `path`: the file, or the name of a job that comes with the package.
    """
    path = job_path(path)
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read job file {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a job: it must map keys to values, such as 'trainer: meta'")
    return content


def parse_stored(
    content: Mapping[str, Any],
    jobs: Mapping[str, type[JobT]],
    source: str,
    changed: Collection[str] = (),
) -> JobT:
    """Validate the plain data of a job that was stored with a run or a model.

    A stored job states all keys, also those without effect. They may have defaults of an earlier
    version, so that `parse` would refuse them. `changed`: dotted paths of keys that were changed
    since, and must have an effect. Other arguments and errors are those of `parse`.
    """
    job = parse(content, jobs, source, stored=True)
    for key, message in job.keys_without_effect():
        if key in changed:
            raise UserError(f"{source}: {message}")
    return job


def parse(
    content: Mapping[str, Any], jobs: Mapping[str, type[JobT]], source: str, stored: bool = False
) -> JobT:
    """Validate the plain data of a job and return the typed job.

    Models from MLflow's registry are downloaded and replaced by the folders of their copies.
    `jobs`: the job class of each trainer, by the trainer's name. `source`: the file, named in error
    messages. `stored`: accept values of keys without effect. Raises UserError if the job is not
    valid.
    """
    check_values(content, source)
    content = locate.pin_models(content, source)
    trainer = content.get("trainer")
    if not isinstance(trainer, str) or trainer not in jobs:
        wanted = str(trainer or content.get("algorithm") or "")  # as in rllib/PPO
        hint = suggestion(wanted.rpartition("/")[0] or wanted, jobs)
        raise UserError(f"unknown trainer '{trainer}' in {source}: {hint}")
    job = jobs[trainer]
    _check_keys(content, job, source, "", partial(new_key, trainer, job=content))
    return validated(job, content, source, stored)


def _check_keys(
    content: Mapping[str, Any],
    section: type[Section],
    source: str,
    prefix: str,
    renamed: Callable[[str], str | None],
) -> None:
    """Raise UserError if the plain data of a section contain an unknown key, at any depth.

    The message gives the key's new name or the most similar key. `source`: the file, named in the
    message. `prefix`: dotted path of the section, with a final dot. `renamed`: maps the dotted path
    of a key to its new name, or to None if it was not renamed.
    """
    for key, value in content.items():
        path = f"{prefix}{key}"
        if key not in section.model_fields:
            if (new := renamed(path)) is not None:
                raise UserError(f"key '{path}' in {source} is now called '{new}'")
            hint = suggestion(str(key), section.model_fields, prefix)
            raise UserError(f"unknown key '{path}' in {source}: {hint}")
        annotation, values = section.model_fields[key].annotation, {path: value}
        if typing.get_origin(annotation) is dict and isinstance(value, Mapping):
            annotation = typing.get_args(annotation)[1]
            values = {f"{path}.{name}": each for name, each in value.items()}
        inner = section_class(annotation)
        for inner_path, each in values.items():
            if inner is not None and inner is not GameChoice and isinstance(each, Mapping):
                _check_keys(each, inner, source, f"{inner_path}.", renamed)
