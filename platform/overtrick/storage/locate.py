"""Find runs by name; find models by run, by folder, or by name in MLflow's model registry.

Only the data of a registered model is downloaded: its weights and its model.json. The Python code
that MLflow stores beside them to load the model is neither downloaded nor run.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired

import yaml
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from overtrick.core import UserError, suggestion
from overtrick.core.files import cache_folder, check_names, write_text
from overtrick.core.json_files import OpenRecord, first_problem
from overtrick.storage import bucket_copy
from overtrick.storage.champions import champion_folder, is_champion
from overtrick.storage.model_files import CARD, FORMAT, WEIGHTS, is_model
from overtrick.storage.object_store import (
    BUCKET_URL,
    ObjectFolder,
    check_url,
    is_url,
    without_file_scheme,
)
from overtrick.storage.run_file_names import BEST, JOB
from overtrick.storage.run_folder import RunFolder
from overtrick.tracking import event_delivery, mlflow_tracker, model_versions, server_address
from overtrick.tracking.event_delivery import MODEL
from overtrick.tracking.model_versions import SCHEME

FILES = (WEIGHTS, CARD)
ORIGIN = "origin.json"  # in the folder of a downloaded model: its registered name and digests

SEED = "{seed}"
"""Stands for the seed of a match in the name of a model on a board."""


class About(TypedDict):
    """Schema of the metadata that a registered model has in MLflow's file; text is converted."""

    format: int
    version: str
    sha256: NotRequired[dict[str, str]]  # by file name


ABOUT = TypeAdapter(About)


class ModelOrigin(OpenRecord):
    """The registered name of a downloaded model, and the digest of each of its files."""

    model: str
    sha256: dict[str, str]


MODEL_ORIGIN: TypeAdapter[Any] = TypeAdapter(ModelOrigin)


def runs_location() -> str:
    """Return the place of all runs: the absolute path of ./runs, or the value of OVERTRICK_RUNS.

    That value may be a path, or a URL that begins with s3://, gs:// or file://. Raises UserError
    for any other URL.
    """
    value = os.environ.get("OVERTRICK_RUNS") or "runs"
    return bucket_copy.absolute_or_url(value, "OVERTRICK_RUNS")


def runs_folder() -> Path:
    """Return the folder of all runs; for runs in a bucket, the folder of their local copies.

    Raises UserError as `runs_location` does.
    """
    place = runs_location()
    return bucket_copy.copies_folder(place) if is_url(place) else Path(place)


def new_folder(name: str) -> Path:
    """Return the folder for a new run, which is not created.

    Raises UserError for a name that the URL of a run in a bucket cannot have.
    """
    place = runs_location()
    if is_url(place) and not BUCKET_URL.fullmatch(f"{place}/{name}"):
        raise UserError(f"a run in {place} cannot be named '{name}': leave out ? and #")
    return runs_folder() / name


def run_names() -> list[str]:
    """Return the sorted names of the runs in `runs_location()`."""
    place = runs_location()
    if is_url(place):
        runs = ObjectFolder(place)
        return [name for name in runs.folders() if runs.stat(f"{name}/{JOB}") is not None]
    return sorted(folder.parent.name for folder in Path(place).glob(f"*/{JOB}"))


def newest_run(names: Sequence[str]) -> str:
    """Return the name of the run that was begun last. `names`: of runs in `runs_location()`."""
    place = runs_location()

    def begun(name: str) -> float:
        if not is_url(place):
            return (Path(place) / name / JOB).stat().st_mtime
        job = ObjectFolder(place).stat(f"{name}/{JOB}")
        return job.changed if job else 0.0

    return max(names, key=begun)


def find_run(run: str) -> RunFolder | None:
    """Find a run by its path, URL or name; return None if there is no such run.

    The files of a run in a bucket are downloaded, except its checkpoints. Raises UserError for a
    name that no file can have.
    """
    run = without_file_scheme(run)
    check_names(run)
    if is_url(run):
        return _run_in_bucket(check_url(run, "the run"))
    folder = RunFolder(Path(run).absolute())
    if os.path.exists(folder.job):  # Path.exists raises for a path of more than 4,095 bytes
        return folder
    return find_by_name(run)


def find_by_name(name: str) -> RunFolder | None:
    """Find a run in `runs_location()`; return None if there is no such run.

    `name`: its name, or its path relative to that place. The files of a run in a bucket are
    downloaded, except its checkpoints.
    """
    place = runs_location()
    if is_url(place):
        url = f"{place}/{name}".rstrip("/")
        return _run_in_bucket(url) if BUCKET_URL.fullmatch(url) else None
    folder = RunFolder(Path(place) / name)
    return folder if os.path.exists(folder.job) else None


def _run_in_bucket(url: str) -> RunFolder | None:
    """Download the files of a run in a bucket; return None if there is no such run."""
    if not bucket_copy.run_exists(url, bucket_copy.cache_period()):
        return None
    copy = bucket_copy.run_copy(url)
    copy.pull()
    return RunFolder(copy.folder / url.removeprefix(copy.objects.url).strip("/"))


def existing_run(run: str) -> RunFolder:
    """Find a run by its name or path.

    Raises UserError for an unknown run; the message names the most similar run.
    """
    folder = find_run(run)
    if folder is None:
        known = run_names()
        hint = f": {suggestion(run, known)}" if known else ""
        raise UserError(f"no run '{run}' in {runs_location()}{hint}")
    return folder


def absolute_path(name: str) -> str:
    """Return the absolute path of the run with this name, or else of the file or folder `name`.

    RUN/best is the folder of a run's best model. For what is stored in a bucket, returns the URL.
    The name of a champion stays as it is.
    """
    if is_champion(name):
        return name
    of_run, _, last = without_file_scheme(name).rpartition("/")
    if last == BEST and not is_url(name) and (above := find_run(of_run)):
        return str(above.best_model)
    return str(find_run(name) or (name if is_url(name) else Path(name).absolute()))


def absolute_if_path(name: str) -> str:
    """Return `absolute_path(name)` if `name` has a slash, or is a file or a run; else `name`.

    A folder of the working directory that is no run needs a slash, as in ./NAME.
    """
    is_path = "/" in name or os.path.isfile(name) or find_run(name) is not None
    return absolute_path(name) if is_path else name


def model_folder(name: str) -> Path:
    """Find the folder of a model; download a registered model first.

    `name`: the folder of a model, the folder or name of its run, RUN/best for its best model,
    champion:NAME, or models:/NAME/VERSION; also the URL of a model or run in a bucket. Any other
    path is returned unchanged. Raises UserError for an unknown champion or registered model, for a
    run without a model, and for a URL where nothing is stored.
    """
    if is_champion(name):
        return champion_folder(name)
    if is_registered(name):
        return download(name, server_address.default())
    of_run, _, last = without_file_scheme(name).rpartition("/")
    if last == BEST and (above := find_run(of_run)) and is_model(above.best_model):
        return above.best_model
    run = find_run(name)
    if run is None:
        place = bucket_copy.local_copy(name, "the model")
        return place if is_model(place) or not is_model(place / MODEL) else place / MODEL
    if is_model(run.model):
        return run.model
    if run.children.exists():
        raise UserError(f"{name} has child runs: name one of those in {run.children}")
    group = run.group
    resumed = group.short_name(runs_location())
    remedy = f"`overtrick resume {resumed}` continues it"
    raise UserError(f"{run.name} is not done and has no model yet: {remedy}")


def existing_model(name: str) -> Path:
    """Find the folder of a model as `model_folder` does; raise UserError if there is no model.

    The message names the most similar run.
    """
    folder = model_folder(name)
    if not is_model(folder):
        existing_run(name)  # raises the error that names the nearest run
    return folder


def is_registered(name: str) -> bool:
    """Return True if `name` is that of a model in MLflow's registry: models:/..."""
    return name.startswith(SCHEME)


def pin_models(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Replace each registered model in a job's plain data by the folder of its downloaded copy.

    `content`: the job's plain data. `source`: names the job in errors. The models are downloaded
    from the MLflow server of the job. With these folders a resumed job keeps its models, even if an
    alias has moved in the meantime. If runs are stored in a bucket, the copies are stored beside
    them, so that every machine finds them. Raises UserError.
    """
    section = content.get("track")
    uri = section.get("uri") if isinstance(section, Mapping) else None
    server = (
        server_address.validated(uri, f"'track.uri' in {source}")
        if isinstance(uri, str)
        else server_address.default()
    )

    def pinned(value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            return {k: pinned(v, f"{key}.{k}" if key else str(k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [pinned(each, f"{key}.{k}") for k, each in enumerate(value)]
        if not isinstance(value, str) or not is_registered(value):
            return value
        try:
            return _place_for_job(download(value, server))
        except UserError as error:
            raise UserError(f"'{key}' in {source}: {error}") from None

    return {str(key): pinned(value, str(key)) for key, value in content.items()}


def _place_for_job(model: Path) -> str:
    """Return the place of a downloaded model by which a job names it.

    The place is the folder, or, if runs are stored in a bucket, the URL of a copy beside them.
    """
    runs = runs_location()
    if not is_url(runs):
        return str(model)
    digest = hashlib.sha256(json.dumps(digests(model)).encode()).hexdigest()[:16]
    url = f"{runs}/.files/{digest}/{model.name}"
    bucket_copy.upload(str(model), url)
    return url


def download(name: str, uri: str) -> Path:
    """Download a registered model, unless it is in the local cache, and return its folder.

    `name`: models:/NAME/VERSION or models:/NAME@ALIAS. `uri`: the MLflow server. Raises UserError
    for an unknown model, a model that another program stored, or another file format.
    """
    asked = model_versions.parse(name)
    server_address.check(uri, must_exist=True)
    with mlflow_tracker.command_client(uri) as client:
        version = model_versions.find(client, asked, uri)
        location = client.get_model_version_download_uri(asked.name, version.version)
        # the time distinguishes a model from a deleted one of the same name
        key = hashlib.sha256(f"{uri} {location} {version.creation_timestamp}".encode())
        above = cache_folder() / "models" / key.hexdigest()[:16]
        folder = above / f"{asked.name}-{int(version.version)}"
        if is_model(folder):
            return folder
        above.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=above) as beside:
            _download(uri, location, name, Path(beside))
            new = Path(beside) / event_delivery.MODEL
            origin = {"model": f"{SCHEME}{asked.name}/{version.version}", "sha256": digests(new)}
            write_text(new / ORIGIN, json.dumps(origin) + "\n")
            try:
                new.rename(folder)
            except OSError:  # another process has downloaded it meanwhile
                if not is_model(folder):
                    raise
    return folder


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 digest of each file of a model, by file name."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def _download(uri: str, location: str, name: str, folder: Path) -> None:
    """Download the files of a registered model into `folder`/model.

    `location`: the URI of the model's MLflow artifacts. `name`: the registered name, for errors.
    Raises UserError if the digests of the files differ from the model's metadata.
    """
    about = _metadata(uri, location, name, folder)
    if about["format"] != FORMAT:
        raise UserError(
            f"{name} has format {about['format']}, of overtrick {about['version']}; "
            f"this version reads {FORMAT}"
        )
    new = folder / event_delivery.MODEL
    new.mkdir()
    for file in FILES:
        fetched = mlflow_tracker.fetch(uri, f"{location}/{event_delivery.STORED}/{file}", folder)
        fetched.rename(new / file)
    if digests(new) != about.get("sha256"):
        raise UserError(f"{name} is damaged at {uri}: train again, or restore {location}")


def _metadata(uri: str, location: str, name: str, folder: Path) -> About:
    """Return the metadata that this project stored in the MLmodel file of a registered model.

    `location`: the URI of the model's MLflow artifacts. `name`: the registered name, for errors.
    `folder`: a folder for the downloaded file. Raises UserError if there is no such metadata.
    """
    file = mlflow_tracker.fetch(uri, f"{location}/MLmodel", folder)
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), yaml.BaseLoader)  # all values as text
        metadata = content.get("metadata") if isinstance(content, dict) else None
        about = metadata.get("overtrick") if isinstance(metadata, dict) else None
        if isinstance(about, dict):
            return ABOUT.validate_python(about)
    except ValidationError as error:
        problem = first_problem(error)
        raise UserError(f"{name} is damaged at {uri} ({problem}): train again") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise UserError(f"{name} cannot be read: {' '.join(str(error).split())[:200]}") from None
    raise UserError(f"{name} is not a model of overtrick: only models that it trains can play")
