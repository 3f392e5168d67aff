"""Models by name: of a run, of a folder, or registered in MLflow and fetched to this machine; and
where runs are kept.

Of a registered model only the data is fetched, its weights and its card. The code that MLflow keeps
beside them, and runs to load it, is neither fetched nor run here.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from overtrick.core import UserError
from overtrick.core.files import cache_folder, write_text
from overtrick.storage.model_files import CARD, FORMAT, WEIGHTS
from overtrick.tracking import mlflow_tracker, model_versions, server_address
from overtrick.tracking.model_versions import SCHEME

FILES = (WEIGHTS, CARD)
ORIGIN = "origin.json"  # beside them, once fetched: what they are registered as
TRIALS = "trials"  # the folder of the runs of a sweep, or of a table


def home() -> Path:
    """Where runs are kept: ./runs, or the folder that OVERTRICK_RUNS names."""
    return Path(os.environ.get("OVERTRICK_RUNS", "runs")).absolute()


def runs() -> list[str]:
    """The names of those that are kept here."""
    return sorted(folder.parent.name for folder in home().glob("*/job.json"))


def run_of(place: str) -> Path | None:
    """The folder of a run by its path or its name; None if there is no such run."""
    for folder in (Path(place), home() / place):
        if (folder / "job.json").exists():
            return folder.absolute()
    return None


def place_of(place: str) -> str:
    """The absolute path of a run by its name, or of any other place."""
    return str(run_of(place) or Path(place).absolute())


def meant(name: str) -> str:
    """The same of a run, a file or a path; any other name as it is."""
    place = "/" in name or Path(name).is_file() or run_of(name) is not None
    return place_of(name) if place else name


def locate(place: str) -> Path:
    """The folder of a model: by itself, by the folder or the name of its run, or by what it is
    registered as; any other place as it is. Raises UserError for one that is registered nowhere,
    and for a run that has no model."""
    if registered(place):
        return fetched(place, server_address.usual())
    run = run_of(place)
    folder = (run or Path(place)) / mlflow_tracker.MODEL
    if (folder / CARD).exists():
        return folder
    if run is None:
        return Path(place)
    if (run / TRIALS).exists():
        raise UserError(f"{place} has parts: name one of its runs in {run / TRIALS}")
    above = run.parent.parent
    whole = above if (above / TRIALS).exists() else run
    goes_on = whole.name if whole.parent == home() else whole
    raise UserError(
        f"{run.name} is not done and has no model yet: `overtrick resume {goes_on}` goes on"
    )


def registered(place: str) -> bool:
    """Is a registered model meant?"""
    return place.startswith(SCHEME)


def pinned(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The plain data of a job with the folder of each registered model in place of its name, from
    the job's own MLflow: an alias may mean another model when the job goes on. Raises UserError."""
    told = content.get("track")
    uri = told.get("uri") if isinstance(told, Mapping) else None
    where = (
        server_address.given(uri, f"'track.uri' in {source}")
        if isinstance(uri, str)
        else server_address.usual()
    )

    def folders(value: Any, key: str) -> Any:
        if isinstance(value, Mapping):
            return {k: folders(v, f"{key}.{k}" if key else str(k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [folders(each, f"{key}.{k}") for k, each in enumerate(value)]
        if not isinstance(value, str) or not registered(value):
            return value
        try:
            return str(fetched(value, where))
        except UserError as error:
            raise UserError(f"'{key}' in {source}: {error}") from None

    return {str(key): folders(value, str(key)) for key, value in content.items()}


def fetched(words: str, uri: str) -> Path:
    """The folder on this machine of a registered model, fetched unless it is there. Raises
    UserError for one that there is not, is not ours, or is of another format."""
    asked = model_versions.read(words)
    server_address.check(uri, there=True)
    with mlflow_tracker.asking(uri) as client:
        version = model_versions.find(client, asked, uri)
        where = client.get_model_version_download_uri(asked.name, version.version)
        # a name that was deleted may have been given again
        which = hashlib.sha256(f"{uri} {where} {version.creation_timestamp}".encode())
        above = cache_folder() / "models" / which.hexdigest()[:16]
        folder = above / f"{asked.name}-{int(version.version)}"
        if (folder / CARD).exists():
            return folder
        above.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=above) as beside:
            _fetch(uri, where, words, Path(beside))
            new = Path(beside) / mlflow_tracker.MODEL
            known = {"model": f"{SCHEME}{asked.name}/{version.version}", "sha256": digests(new)}
            write_text(new / ORIGIN, json.dumps(known) + "\n")
            try:
                new.rename(folder)
            except OSError:  # somebody else has just fetched it
                if not (folder / CARD).exists():
                    raise
    return folder


def tags(content: Mapping[str, Any]) -> dict[str, str]:
    """As MLflow tags: what the models that a job has fetched are registered as, and their digests;
    of the job's plain data, which keeps their folders only."""

    def words(value: Any) -> Iterator[str]:
        if isinstance(value, Mapping | list):
            for each in value.values() if isinstance(value, Mapping) else value:
                yield from words(each)
        elif isinstance(value, str) and value.startswith("/"):
            yield value

    notes = [Path(folder) / ORIGIN for folder in sorted(set(words(content)))]
    told = [note.read_text().strip() for note in notes if note.is_file()]
    return {f"overtrick.model.{k}": text for k, text in enumerate(told, 1)}


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of a model."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def _fetch(uri: str, where: str, words: str, beside: Path) -> None:
    """Fetch the data of a model into a folder beside others, and see that it is whole."""
    about = _about(uri, where, words, beside)
    if about.get("format") != FORMAT:
        raise UserError(
            f"{words} has format {about.get('format')}, of overtrick {about.get('version')}; "
            f"this version reads {FORMAT}"
        )
    new = beside / mlflow_tracker.MODEL
    new.mkdir()
    for name in FILES:
        os.replace(
            mlflow_tracker.fetch(uri, f"{where}/{mlflow_tracker.STORED}/{name}", beside), new / name
        )
    if digests(new) != about.get("sha256"):
        raise UserError(f"{words} is damaged where {uri} keeps it: train again, or restore {where}")


def _about(uri: str, where: str, words: str, beside: Path) -> dict[str, Any]:
    """What a model of ours says of itself in MLflow's file about it. Raises UserError."""
    try:
        content = yaml.safe_load(mlflow_tracker.fetch(uri, f"{where}/MLmodel", beside).read_text())
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{words} cannot be read: {' '.join(str(error).split())[:200]}") from None
    said = content.get("metadata") if isinstance(content, dict) else None
    about = said.get("overtrick") if isinstance(said, dict) else None
    if not isinstance(about, dict):
        raise UserError(f"{words} is no model of overtrick: only those that it trains can play")
    return about
