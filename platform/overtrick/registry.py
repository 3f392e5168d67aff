"""Models by name: of a run, of a folder, or registered in MLflow and fetched to this machine.

Of a registered model only the data is fetched, its weights and its card. The code that MLflow keeps
beside them, and runs to load it, is neither fetched nor run here.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from overtrick import address, track, versions
from overtrick.atomic import cache_folder
from overtrick.core import Refused
from overtrick.model import CARD, FORMAT, WEIGHTS
from overtrick.versions import SCHEME

FILES = (WEIGHTS, CARD)


def located(place: str) -> Path:
    """The folder of a model, by itself, by that of its run, or by what it is registered as. Raises
    Refused for one that is registered nowhere."""
    if registered(place):
        return fetched(place, address.usual())
    run = Path(place) / track.MODEL
    return run if (run / CARD).exists() else Path(place)


def registered(place: str) -> bool:
    """Is a registered model meant?"""
    return place.startswith(SCHEME)


def pinned(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The plain data of a job with the folder of each registered model in place of its name, from
    the job's own MLflow: an alias may mean another model when the job goes on. Raises Refused."""
    told = content.get("track")
    uri = told.get("uri") if isinstance(told, Mapping) else None
    where = (
        address.given(uri, f"'track.uri' in {source}") if isinstance(uri, str) else address.usual()
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
        except Refused as error:
            raise Refused(f"'{key}' in {source}: {error}") from None

    return {str(key): folders(value, str(key)) for key, value in content.items()}


def fetched(words: str, uri: str) -> Path:
    """The folder on this machine of a registered model, fetched unless it is there. Raises Refused
    for one that there is not, is not ours, or is of another format."""
    asked = versions.read(words)
    address.check(uri, there=True)
    with track.asking(uri) as client:
        version = versions.find(client, asked, uri)
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
            new = Path(beside) / track.MODEL
            try:
                new.rename(folder)
            except OSError:  # somebody else has just fetched it
                if not (folder / CARD).exists():
                    raise
    return folder


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of a model."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def _fetch(uri: str, where: str, words: str, beside: Path) -> None:
    """Fetch the data of a model into a folder beside others, and see that it is whole."""
    about = _about(uri, where, words, beside)
    if about.get("format") != FORMAT:
        raise Refused(
            f"{words} has format {about.get('format')}, of overtrick {about.get('version')}; "
            f"this version reads {FORMAT}"
        )
    new = beside / track.MODEL
    new.mkdir()
    for name in FILES:
        os.replace(track.fetch(uri, f"{where}/{track.STORED}/{name}", beside), new / name)
    if digests(new) != about.get("sha256"):
        raise Refused(f"{words} is damaged where {uri} keeps it: train again, or restore {where}")


def _about(uri: str, where: str, words: str, beside: Path) -> dict[str, Any]:
    """What a model of ours says of itself in MLflow's file about it. Raises Refused."""
    try:
        content = yaml.safe_load(track.fetch(uri, f"{where}/MLmodel", beside).read_text())
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise Refused(f"{words} cannot be read: {' '.join(str(error).split())[:200]}") from None
    said = content.get("metadata") if isinstance(content, dict) else None
    about = said.get("overtrick") if isinstance(said, dict) else None
    if not isinstance(about, dict):
        raise Refused(f"{words} is no model of overtrick: only those that it trains can play")
    return about
