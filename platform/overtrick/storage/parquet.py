"""Tables of arrays in Parquet files, with metadata about their content and origin.

Every column is an array (R, ...) of R rows. Axes after the first are flattened into lists of fixed
length. Columns of text, or with missing values (None), are object arrays. The schema's metadata has
kind, version and parameters as JSON under the key `overtrick`. Files are written atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from overtrick.core import Array, UserError
from overtrick.core.files import replacing
from overtrick.core.json_files import OpenRecord, first_problem

FORMAT = 1  # version of the layout described above
KEY = b"overtrick"
ROWS = 10_000  # of a batch, where a file is read in batches
ROW_COUNT = -1  # in the shape of a column's rows: the number of rows of the table


class Column(NamedTuple):
    """Schema of a column of numbers: its type, the shape of a row, and its range."""

    types: str = "iu"  # allowed numpy kinds: i, u and f for numbers
    shape: tuple[int, ...] = ()  # of one row; ROW_COUNT: as many entries as the table has rows
    least: float | None = None
    most: float | None = None
    required: bool = True


@dataclass(frozen=True)
class Kind:
    """Kind of data in a file, its version and schema, and advice for error messages.

    Raise `version` when the meaning of the columns changes. `remedy` tells the user what to do
    about a file that cannot be used. `load` checks the columns and parameters by the schema; other
    columns are allowed.
    """

    name: str
    version: int
    remedy: str  # in the imperative
    columns: Mapping[str, Column] = field(default_factory=dict)
    parameters: TypeAdapter[Any] | None = None


class _FileMetadata(OpenRecord):
    """Schema of the metadata of a file."""

    format: int
    kind: str
    version: int
    parameters: dict[str, JsonValue]
    shapes: dict[str, list[Annotated[int, Field(ge=0)]]]
    objects: NotRequired[list[str]]
    digest: str


FOREIGN = "table of another program"
_JSON_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, JsonValue])
_FILE_METADATA = TypeAdapter(_FileMetadata)


@dataclass(frozen=True)
class StoredTable:
    """The columns of a file, and the parameters with which its data was generated."""

    parameters: dict[str, Any]
    columns: dict[str, Array]  # (R, ...) each


@dataclass(frozen=True)
class TableHeader:
    """Header of a stored table: number of rows, and names of the columns.

    `parameters`: the settings with which the data was generated.
    """

    rows: int
    columns: tuple[str, ...]
    parameters: dict[str, Any]


class TableContent(NamedTuple):
    """Kind, number of rows, and digest of the columns of a stored table."""

    kind: str
    rows: int
    digest: str


def save(
    path: Path, kind: Kind, parameters: Mapping[str, Any], columns: Mapping[str, Array]
) -> None:
    """Write columns to a file atomically.

    `columns`: arrays of R rows by name, numbers or booleans (R, ...) or objects (R,). `parameters`:
    describe the origin of the data, and must be JSON-serialisable. Raises ValueError if columns
    differ in length, TypeError if the parameters cannot be serialised.
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


def load(path: Path, kind: Kind, parameters: Mapping[str, Any] | None = None) -> StoredTable:
    """Read a file and check its kind, version, digest and parameters.

    `kind`: the required kind and version. `parameters`: the required parameters; None accepts any.
    Raises UserError for a file that is missing, damaged, or not as required. The error message ends
    with `kind.remedy`, unless reading is not permitted.
    """
    file, about = _open(path, kind)
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
        intact = digest == _digest(about, columns)
    except (KeyError, TypeError, ValueError, pa.ArrowException):  # other columns than the metadata
        intact = False
    if not intact:
        raise UserError(f"{path} is damaged (its digest differs): {kind.remedy}")
    _check_columns(path, kind, len(table), columns)
    _check_parameters(path, kind, about["parameters"], parameters)
    return StoredTable(about["parameters"], columns)


def head(path: Path, kind: Kind, parameters: Mapping[str, Any] | None = None) -> TableHeader:
    """Read the number of rows, the column names and the parameters of a file, but not its data.

    `kind`: the required kind and version. `parameters`: the required parameters; None accepts any.
    The digest is not checked. Raises UserError for a file that is missing, damaged, or not as
    required.
    """
    file, about = _open(path, kind)
    header = TableHeader(file.metadata.num_rows, tuple(about["shapes"]), about["parameters"])
    _check_parameters(path, kind, header.parameters, parameters)
    return header


def content(path: Path) -> TableContent:
    """Read kind, number of rows and digest of a Parquet file of any kind, but not its data.

    A file that was not written by this module, such as a file of recorded boards, has the kind
    FOREIGN; its digest is that of the whole file. Raises UserError for a damaged file.
    """
    try:
        file = parquet.ParquetFile(path)
        metadata = file.schema_arrow.metadata or {}
        if KEY not in metadata:
            with path.open("rb") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
            return TableContent(FOREIGN, file.metadata.num_rows, digest)
        about = _FILE_METADATA.validate_json(metadata[KEY])
    except (OSError, pa.ArrowException, ValidationError) as error:
        raise UserError(f"{path} is not a table of overtrick: {_reason(error)}") from None
    return TableContent(about["kind"], file.metadata.num_rows, about["digest"])


def _open(path: Path, kind: Kind) -> tuple[parquet.ParquetFile, dict[str, Any]]:
    """Open a file and return it with its parsed metadata.

    Raises UserError if the file is missing or unreadable, or has another kind or version.
    """
    if not os.path.isfile(path):
        raise UserError(f"no {kind.name} at {path}: {kind.remedy}")
    try:
        file = parquet.ParquetFile(path)
        about = _JSON_OBJECT.validate_json((file.schema_arrow.metadata or {}).get(KEY, b"{}"))
    except PermissionError:
        raise UserError(f"cannot read {path}: permission denied") from None
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({first_problem(error)}): {kind.remedy}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(path, kind, error) from None
    if about.get("kind") != kind.name:
        held = f"'{about['kind']}'" if "kind" in about else "data of another program"
        raise UserError(f"{path} holds {held}, not '{kind.name}': {kind.remedy}")
    for name, ours in (("format", FORMAT), ("version", kind.version)):
        if about.get(name) != ours:
            raise UserError(f"{path} has {name} {about.get(name)}, not {ours}: {kind.remedy}")
    try:
        _FILE_METADATA.validate_python(about)
        if kind.parameters is not None:
            kind.parameters.validate_python(about["parameters"])
    except ValidationError as error:
        raise UserError(f"{path} is damaged ({first_problem(error)}): {kind.remedy}") from None
    return file, about


def _check_columns(path: Path, kind: Kind, rows: int, columns: Mapping[str, Array]) -> None:
    """Raise UserError unless the columns of a table have the schema of its kind."""
    for name, schema in kind.columns.items():
        problem, column = "", columns.get(name)
        shape = tuple(rows if size == ROW_COUNT else size for size in schema.shape)
        if column is None:
            problem = "is missing" if schema.required else ""
        elif column.dtype.kind not in schema.types or column.shape[1:] != shape:
            problem = f"holds {column.dtype}{list(column.shape[1:])}"
        elif column.dtype.kind == "f" and not np.isfinite(column).all():
            problem = "holds numbers that are not finite"
        else:
            low, high = schema.least, schema.most
            wrong = np.zeros(column.shape, bool) if low is None else column < low
            wrong |= False if high is None else column > high
            problem = f"holds {column[wrong][0]}" if wrong.any() else ""
        if problem:
            raise UserError(f"{path} is damaged (its column '{name}' {problem}): {kind.remedy}")


def common_parameters(
    files: Sequence[Path], parameters: Sequence[dict[str, Any]], kind: Kind
) -> dict[str, Any]:
    """Check that all files of a data set have the same parameters, and return these parameters.

    `parameters`: the parameters of each file. Raises UserError if two files have different ones.
    """
    for file, each in zip(files, parameters, strict=True):
        if each != parameters[0]:
            raise UserError(f"{file} was made with other parameters than {files[0]}: {kind.remedy}")
    return parameters[0]


def _damaged(path: Path, kind: Kind, error: Exception) -> UserError:
    """Return a UserError that says that a file is damaged, with the reason and the remedy."""
    return UserError(f"{path} is damaged ({_reason(error)}): {kind.remedy}")


def _reason(error: Exception) -> str:
    """Return the message of an error in one line of at most 100 characters."""
    return getattr(error, "strerror", None) or " ".join(str(error).split())[:100]


def batches(
    path: Path, required: Mapping[str, type], optional: Mapping[str, type]
) -> Iterator[dict[str, list[Any]]]:
    """Yield the rows of any Parquet file in batches of ROWS: columns by name, as lists.

    `required`, `optional`: the columns to read, with their types, str or int; the file may lack the
    optional ones. Any value may be missing (None). Raises UserError for a file that cannot be read,
    lacks a required column, or has a column of another type.
    """
    name = ""  # of the column that is being converted
    try:
        with parquet.ParquetFile(path) as file:
            present = file.schema_arrow.names
            for each in required:
                if each not in present:
                    raise UserError(f"{path} has no column '{each}', but {', '.join(present)}")
            types = {n: kind for n, kind in {**required, **optional}.items() if n in present}
            for each in types:
                if present.count(each) > 1:
                    raise UserError(f"{path} has two columns '{each}'")
            for batch in file.iter_batches(ROWS, columns=list(types)):
                values = dict[str, list[Any]]()
                for name, kind in types.items():
                    column = batch.column(name)
                    column.validate(full=True)  # such as text that is not UTF-8
                    wanted = pa.string() if kind is str else pa.int64()
                    values[name] = column.cast(wanted).to_pylist()
                name = ""
                yield values
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        place = f"column '{name}' of {path}" if name else str(path)
        raise UserError(f"cannot read {place}: {_reason(error)}") from None


def batch_count(path: Path) -> int:
    """Return the number of batches that `batches` yields for a file.

    Raises UserError if the file cannot be read.
    """
    return -(-row_count(path) // ROWS)


def row_count(path: Path) -> int:
    """Return the number of rows of a file. Raises UserError if the file cannot be read."""
    try:
        return int(parquet.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {_reason(error)}") from None


def _check_parameters(
    path: Path, kind: Kind, found: Mapping[str, Any], parameters: Mapping[str, Any] | None
) -> None:
    """Raise UserError unless the parameters `found` in a file equal the required `parameters`.

    None for `parameters` accepts any. The message names the first difference.
    """
    wanted = found if parameters is None else json.loads(json.dumps(dict(parameters)))
    for name in [*wanted, *found]:
        if found.get(name) != wanted.get(name) or (name in found) != (name in wanted):
            sides = (found, wanted)
            have, want = (f"{name} {s[name]}" if name in s else f"no {name}" for s in sides)
            raise UserError(f"{path} was made with {have}, not with {want}: {kind.remedy}")


def _digest(about: Mapping[str, Any], columns: Mapping[str, Array]) -> str:
    """Return a SHA-256 digest of the columns and the metadata of a file.

    `about`: the metadata without the digest itself.
    """
    # Parquet itself has no checksum of the metadata
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, column in columns.items():
        digest.update(f"{name} {column.dtype} {column.shape}".encode())
        pointers = column.dtype == object  # its bytes are addresses
        digest.update(json.dumps(column.tolist()).encode() if pointers else column.data)
    return digest.hexdigest()


def _column(array: Array) -> pa.Array:
    """Convert an array (R, ...) to a Parquet column of R numbers, lists, or byte strings.

    An array (R, W) of uint8 becomes R byte strings of length W.
    """
    if array.ndim == 2 and array.dtype == np.uint8 and array.size:
        kind = pa.binary(array.shape[1])
        return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])
    flat = pa.array(array.reshape(-1))
    if array.ndim == 1:
        return flat
    if not np.prod(array.shape[1:]):  # a list of fixed length has an entry
        return pa.ListArray.from_arrays(np.zeros(len(array) + 1, np.int32), flat)
    return pa.FixedSizeListArray.from_arrays(flat, int(np.prod(array.shape[1:])))


def _array(column: pa.ChunkedArray, objects: bool) -> Array:
    """Convert a Parquet column of R rows to a flat array, which the caller reshapes to (R, ...).

    `objects`: return an array of R Python objects, because the column was saved from an object
    array, such as text.
    """
    if objects:
        return np.array(column.to_pylist(), object)
    chunk = column.combine_chunks()
    if pa.types.is_fixed_size_binary(chunk.type):
        first, width = chunk.offset, chunk.type.byte_width
        return np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, first * width)
    if pa.types.is_fixed_size_list(chunk.type) or pa.types.is_list(chunk.type):
        chunk = chunk.flatten()
    return chunk.to_numpy(zero_copy_only=False)
