"""Find the data sets and models that a job reads, with digests of their content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from overtrick.core import UserError
from overtrick.core.json_files import read_json
from overtrick.storage import locate, parquet
from overtrick.storage.bucket_copy import local_copy
from overtrick.storage.champions import champion_folder, is_champion
from overtrick.storage.object_store import BUCKET_URL
from overtrick.storage.run_folder import RunFolder

FILES = ("*.parquet", "*/*.parquet", "*/*/*.parquet")
NO_INPUTS = ("track", "command", "folder")  # keys whose values name no input of a job
DIGEST_LENGTH = 32  # hexadecimal digits; MLflow stores up to 36


class DatasetInput(NamedTuple):
    """A folder or file of stored tables that a job reads."""

    path: str
    kind: str  # such as "bidding examples"
    rows: int
    digest: str  # of names and content of all files


class ModelInput(NamedTuple):
    """A model that a job reads, such as a teacher or an opponent."""

    model: str  # its folder, champion:NAME, or models:/NAME/VERSION
    sha256: Mapping[str, str]  # by file name


def dataset_inputs(content: Mapping[str, Any]) -> list[DatasetInput]:
    """Return the data sets that a job names by absolute path or URL.

    `content`: the job's plain data. A data set is a Parquet file, or a folder with such files, at
    most two folders deep. Raises UserError for a damaged file.
    """
    found = []
    for place in sorted(set(_texts(content))):
        path = _local_path(place)
        if path is None:
            continue
        files = [Path(path)] if path.endswith(".parquet") and os.path.isfile(path) else []
        if os.path.isdir(path):
            files = sorted(file for pattern in FILES for file in Path(path).glob(pattern))
        if not files:
            continue
        tables = [parquet.content(file) for file in files]
        digest = hashlib.sha256()
        for file, table in zip(files, tables, strict=True):
            name = file.name if file == Path(path) else file.relative_to(path)
            digest.update(f"{name} {table.digest}\n".encode())
        kinds = " and ".join(sorted({table.kind for table in tables}))
        rows = sum(table.rows for table in tables)
        found.append(DatasetInput(place, kinds, rows, digest.hexdigest()[:DIGEST_LENGTH]))
    return found


def model_inputs(content: Mapping[str, Any]) -> list[ModelInput]:
    """Return the models that a job names: folders of models or runs, and champions.

    `content`: the job's plain data, in which `locate.pin_models` has replaced each registered model
    by the folder of its downloaded copy. Such a model keeps its registered name. Raises UserError
    for a damaged copy.
    """
    found = []
    for text in sorted(set(_texts(content))):
        if is_champion(text):
            found.append(ModelInput(text, locate.digests(champion_folder(text))))
        elif (path := _local_path(text)) is not None:
            origin = Path(path) / locate.ORIGIN
            folders = [f for f in (Path(path), RunFolder(Path(path)).model) if _is_complete(f)]
            if os.path.isfile(origin):
                remedy = "restore it, or download the model again"
                found.append(ModelInput(**read_json(origin, locate.MODEL_ORIGIN, remedy)))
            elif folders:
                found.append(ModelInput(text, locate.digests(folders[0])))
    return found


def _local_path(text: str) -> str | None:
    """Return the local path of a stored file or folder; None for a text that is no path or URL.

    `text`: an absolute path, or the URL of something in a bucket, which is downloaded. Returns None
    if nothing is stored there yet, such as the model of another child run.
    """
    if BUCKET_URL.fullmatch(text):
        with suppress(UserError):
            return str(local_copy(text, "the job's input"))
        return None
    return text if text.startswith("/") else None


def _is_complete(folder: Path) -> bool:
    """Return whether a folder has all files of a model."""
    return all(os.path.isfile(folder / name) for name in locate.FILES)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a job's plain data that may name an input.

    Left out are the section `track`, and the commands of programs with their working folders.
    """
    if isinstance(value, Mapping):
        value = [each for key, each in value.items() if key not in NO_INPUTS]
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value
