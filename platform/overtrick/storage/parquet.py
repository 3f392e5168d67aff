"""Arrays on disk: Parquet files that say what they are and how they were made.

A file is one table: every column is an array whose first axis is the rows, and what further axes
it has lie flat in lists of fixed length. Kind, version and parameters are JSON in the metadata of
the schema, under `overtrick`. A file appears whole or not at all. Columns of text, or with gaps
(None), are arrays of objects.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from overtrick.core import Array, UserError
from overtrick.core.files import replacing

FORMAT = 1  # of the layout above
KEY = b"overtrick"
ROWS = 10_000  # of a batch, where a file is read bit by bit


@dataclass(frozen=True)
class Kind:
    """What a file holds; raise the version when its columns come to mean something else."""

    name: str
    version: int
    remedy: str  # what to do about a file that cannot be used, as a request


@dataclass(frozen=True)
class Stored:
    """What a file holds and how it was made."""

    parameters: dict[str, Any]
    columns: dict[str, Array]  # (R, ...) each


@dataclass(frozen=True)
class Head:
    """What a file says of itself."""

    rows: int
    columns: tuple[str, ...]
    parameters: dict[str, Any]


def save(
    path: Path, kind: Kind, parameters: Mapping[str, Any], columns: Mapping[str, Array]
) -> None:
    """Write columns beside the path, then rename: (R, ...) of numbers or truths, or (R,) objects.

    Raises ValueError for columns of different lengths and for parameters that JSON cannot hold.
    """
    arrays = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    about = {
        "format": FORMAT,
        "kind": kind.name,
        "version": kind.version,
        "parameters": dict(parameters),
        "shapes": {name: array.shape[1:] for name, array in arrays.items()},
    }
    if objects := [name for name, array in arrays.items() if array.dtype == object]:
        about["objects"] = objects
    about["digest"] = _digest(about, arrays)
    table = pa.table(
        {name: _column(array) for name, array in arrays.items()}, metadata={KEY: json.dumps(about)}
    )
    with replacing(path) as temporary:
        parquet.write_table(table, temporary, compression="zstd")


def load(path: Path, kind: Kind, parameters: Mapping[str, Any] | None = None) -> Stored:
    """Read a file of some kind; with parameters, one that was made with just these.

    Raises UserError, with the kind's remedy, for a file that is missing, damaged, of another kind
    or version, or made with other parameters.
    """
    file, about = _opened(path, kind)
    try:
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(path, kind, error) from None
    try:
        digest = about.pop("digest")
        objects = about.get("objects", ())
        columns = {
            name: _array(table.column(name), name in objects).reshape(len(table), *shape)
            for name, shape in about["shapes"].items()
        }
        whole = digest == _digest(about, columns)
    except (KeyError, TypeError, ValueError, AttributeError):  # the metadata lost its form
        whole = False
    if not whole:
        raise UserError(f"{path} is damaged (its digest is another): {kind.remedy}")
    if parameters is not None:
        _same(path, kind, about["parameters"], json.loads(json.dumps(dict(parameters))))
    return Stored(about["parameters"], columns)


def head(path: Path, kind: Kind, parameters: Mapping[str, Any] | None = None) -> Head:
    """What a file of some kind says of itself, its rows unread and their digest unchecked. Raises
    UserError as `load`."""
    file, about = _opened(path, kind)
    try:
        told = Head(file.metadata.num_rows, tuple(about["shapes"]), about["parameters"])
    except KeyError as error:
        raise _damaged(path, kind, error) from None
    if parameters is not None:
        _same(path, kind, told.parameters, json.loads(json.dumps(dict(parameters))))
    return told


def _opened(path: Path, kind: Kind) -> tuple[parquet.ParquetFile, dict[str, Any]]:
    """A file and what it says of itself, if it is of a kind and version that we read."""
    if not path.is_file():
        raise UserError(f"no {kind.name} at {path}: {kind.remedy}")
    try:
        file = parquet.ParquetFile(path)
        about = json.loads((file.schema_arrow.metadata or {}).get(KEY, b"{}"))
    except PermissionError:
        raise UserError(f"cannot read {path}: permission denied") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(path, kind, error) from None
    if not isinstance(about, dict) or about.get("kind") != kind.name:
        known = isinstance(about, dict) and "kind" in about
        held = f"'{about['kind']}'" if known else "something that is not ours"
        raise UserError(f"{path} holds {held}, not '{kind.name}': {kind.remedy}")
    for name, ours in (("format", FORMAT), ("version", kind.version)):
        if about.get(name) != ours:
            raise UserError(
                f"{path} has {name} {about.get(name)}, and we read {ours}: {kind.remedy}"
            )
    return file, about


def _damaged(path: Path, kind: Kind, error: Exception) -> UserError:
    why = " ".join(str(error).split())[:100]
    return UserError(f"{path} is damaged ({why}): {kind.remedy}")


def batches(
    path: Path, needed: Sequence[str], also: Sequence[str]
) -> Iterator[dict[str, list[Any]]]:
    """Columns of any Parquet file as lists, some rows at a time: those needed, and of the others
    those that it has. Raises UserError for a file that cannot be read or lacks what is needed."""
    try:
        with parquet.ParquetFile(path) as file:
            there = file.schema_arrow.names
            for name in needed:
                if name not in there:
                    raise UserError(f"{path} has no column '{name}', but {', '.join(there)}")
            names = [name for name in (*needed, *also) if name in there]
            for batch in file.iter_batches(ROWS, columns=names):
                yield batch.to_pydict()
    except (pa.ArrowException, OSError) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:100]
        raise UserError(f"cannot read {path}: {why}") from None


def parts(path: Path) -> int:
    """How many times `batches` yields. Raises UserError for a file that cannot be read."""
    try:
        return -(-int(parquet.read_metadata(path).num_rows) // ROWS)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"cannot read {path}: {' '.join(str(error).split())[:100]}") from None


def _same(path: Path, kind: Kind, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise UserError for the first parameter that differs."""
    for name in [*wanted, *found]:
        if found.get(name) != wanted.get(name) or (name in found) != (name in wanted):
            sides = (found, wanted)
            have, want = (f"{name} {s[name]}" if name in s else f"no {name}" for s in sides)
            raise UserError(f"{path} was made with {have}, not with {want}: {kind.remedy}")


def _digest(about: Mapping[str, Any], columns: Mapping[str, Array]) -> str:
    """Of everything that a file says: Parquet itself guards no metadata."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, column in columns.items():
        digest.update(f"{name} {column.dtype} {column.shape}".encode())
        bare = column.dtype == object  # whose bytes are only addresses
        digest.update(json.dumps(column.tolist()).encode() if bare else column.data)
    return digest.hexdigest()


def _column(array: Array) -> pa.Array:
    """(R, ...) as R numbers, or R lists of them, or R strings of bytes."""
    if array.ndim == 2 and array.dtype == np.uint8 and array.size:
        kind = pa.binary(array.shape[1])
        return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])
    flat = pa.array(array.reshape(-1))
    if array.ndim == 1:
        return flat
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(array.shape[1:])))


def _array(column: pa.ChunkedArray, objects: bool) -> Array:
    """All numbers of a column, or objects, one after another."""
    if objects:
        return np.array(column.to_pylist(), object)
    whole = column.combine_chunks()
    if pa.types.is_fixed_size_binary(whole.type):
        first, width = whole.offset, whole.type.byte_width
        return np.frombuffer(whole.buffers()[1], np.uint8, len(whole) * width, first * width)
    if pa.types.is_fixed_size_list(whole.type):
        whole = whole.flatten()
    return whole.to_numpy(zero_copy_only=False)
