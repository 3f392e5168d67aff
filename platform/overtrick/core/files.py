"""Write files atomically, replace folders, append to text files, and find the cache folder."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import math
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from overtrick.core.errors import UserError

LONGEST_NAME = 255  # bytes of the name of a file or folder
LONGEST_PATH = 4095  # characters of a path, at most as many as bytes
DIGEST = "sha256"  # the key of the digest in the metadata of a safetensors file
NPY = re.compile(
    rb"\x93NUMPY(?:\x01...|[\x02\x03].....)\{'descr': '([<>|](?:f[248]|[iu][1248]))', "
    rb"'fortran_order': (False|True), 'shape': \(((?:\d{1,12}L?,? ?){0,4})\), \} *\n",
    re.DOTALL,
)
"""Beginning of a .npy file of numbers: type, order and shape."""
LONGEST_HEADER = 4096  # bytes of that beginning
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux's renameat2


def cache_folder() -> Path:
    """Return the folder for cached results, which later processes reuse.

    The folder is the value of the environment variable OVERTRICK_CACHE, else the folder overtrick/
    in XDG_CACHE_HOME, else ~/.cache/overtrick.
    """
    own, shared = os.environ.get("OVERTRICK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return local_path(own, "OVERTRICK_CACHE")
    above = local_path(shared, "XDG_CACHE_HOME") if shared else Path.home() / ".cache"
    return above / "overtrick"


def local_path(value: str | Path, name: str) -> Path:
    """Return `value` as a path. Raises UserError for a URL, or for a name that is too long.

    As a path, the URL s3://bucket/runs would be a local folder with the name "s3:". `name`: the
    environment variable or option that holds `value`, for the error.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", str(value)):
        raise UserError(f"{name} is the URL {value}: name a local or mounted folder instead")
    check_names(value)
    return Path(value)


def check_names(path: str | Path) -> None:
    """Raise UserError for a path that no file can have: too long a name, or a null character."""
    if "\0" in str(path):
        raise UserError(f"{str(path)[:40]!r} has a null character: name a file without it")
    if len(str(path)) > LONGEST_PATH:
        raise UserError(f"{str(path)[:40]}... is too long for the name of a file")
    for name in str(path).split("/"):
        if len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME:
            raise UserError(f"{name[:40]}... is too long for the name of a file")


def check_folder_name(name: str, source: str) -> None:
    """Raise UserError for a name that a new folder of a run cannot have. `source`: named first."""
    check_names(name)
    if not name or name != Path(name).name or name.startswith("."):
        raise UserError(
            f"{source} '{name}': must be a folder name: not empty, without '/', and not beginning "
            "with '.'"
        )


def check_output(path: Path, *suffixes: str) -> None:
    """Raise UserError unless a file can be written at `path`.

    The path must have one of the suffixes, lie in a folder that exists, and not be a folder.
    """
    local_path(path, "the output")
    above = path.absolute().parent
    if path.suffix.lower() not in suffixes or not os.path.isdir(above) or os.path.isdir(path):
        kinds = " or ".join(suffixes)
        raise UserError(f"cannot write {path}: name a {kinds} file in a folder that exists")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Context manager for writing a file atomically: replace `path` only at the end of the block.

    Yields a temporary path in the same folder, to which the block writes. At the end of the block
    the temporary file is renamed to `path`; after an error it is deleted. A reader sees either the
    old file or the complete new one. Several processes or threads may write the same file at once;
    the last one wins. Raises OSError, naming `path`, if writing fails.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with naming_file_in_errors(path):
            yield temporary
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Context manager: its block fills a new folder, which then replaces what was at `path`.

    Yields an empty temporary folder, and renames it to `path` at the end of the block. After an
    error in the block `path` is unchanged. The parent folder of `path` is created if it is missing.
    On a local file system of Linux a reader always finds either the old folder or the complete new
    one; on a network file system there is a moment in which it finds none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as beside:
        new = Path(beside) / "new"
        new.mkdir()
        yield new
        try:
            new.rename(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            _exchange(new, path)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one atomic step, or replace `other` by two renames.

    The first needs Linux and a file system that can do it, which network file systems cannot.
    After two renames, the earlier folder `other` is called "old", in the folder that held `one`.
    """
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    places = AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other)
    if exchange is None or exchange(*places, RENAME_EXCHANGE) != 0:
        other.rename(one.with_name("old"))
        one.rename(other)


def read_text(path: Path, errors: str = "strict") -> str:
    """Read a UTF-8 text file. Raises UserError, naming the file, if it cannot be read.

    `errors`: treatment of bytes that are not UTF-8, as in `Path.read_text`.
    """
    try:
        return path.read_text(encoding="utf-8", errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise UserError(f"cannot read {path}: {why}") from None


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file of bytes atomically."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def append_line(path: Path, line: str | bytes) -> None:
    """Append a line to a text file. If the disk is full, the file stays unchanged.

    Raises OSError, naming the file.
    """
    left = memoryview((line.encode() if isinstance(line, str) else line) + b"\n")
    with naming_file_in_errors(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(before)
            raise


def read_complete_lines(path: Path, repair: bool = True) -> list[bytes]:
    """Read the lines of an append-only text file, as bytes; drop an incomplete last line.

    A line is complete if it ends with a line break. Returns an empty list if the file does not
    exist. `repair`: also remove the incomplete line from the file, so that the next line is
    appended correctly. Use False if another process may be writing.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    *lines, incomplete = content.split(b"\n")
    if repair and incomplete:
        write_bytes(path, content[: -len(incomplete)])
    return lines


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array atomically in numpy's .npy format."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)


def read_array(path: Path) -> np.ndarray:
    """Map the numbers of a .npy file into memory, read-only.

    Numpy's reader evaluates the header as a Python expression; this one accepts only the form that
    numpy writes (NEP 1). Raises ValueError for any other file, OSError for one that cannot be read.
    """
    with path.open("rb") as file:
        found = NPY.match(file.read(LONGEST_HEADER))
        if found is not None:
            kind, order, shape = (each.decode() for each in found.groups())
            sizes = tuple(int(size.rstrip("L")) for size in shape.replace(",", " ").split())
            dtype, start = np.dtype(kind), found.end()
            if os.fstat(file.fileno()).st_size - start == math.prod(sizes) * dtype.itemsize:
                numbers = np.memmap(file, dtype, "r", start, sizes, "F" if order == "True" else "C")
                return np.asarray(numbers)
    raise ValueError("it is not a file of numbers")


class DamagedWeightsError(ValueError):
    """A safetensors file is damaged. The message gives the reason, not the file."""


def write_weights(path: Path, weights: Mapping[str, np.ndarray]) -> None:
    """Write named arrays as a safetensors file, with a digest of all names and values.

    Writing is not atomic: an interruption leaves an incomplete file. Raises OSError, naming the
    file.
    """
    arrays = dict(weights)
    with naming_file_in_errors(path):
        try:
            save_file(arrays, path, {DIGEST: _digest(arrays)})
        except SafetensorError as error:
            found = re.search(r"I/O error: (.*) \(os error (\d+)\)", str(error))
            if found is None:
                raise
            raise OSError(int(found[2]), found[1]) from None


def write_weights_whole(path: Path, weights: Mapping[str, np.ndarray]) -> None:
    """Write named arrays as a safetensors file that appears whole; make its folder if needed.

    Raises OSError, naming the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        write_weights(temporary, weights)


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Read the named arrays of a safetensors file, and check its digest if it has one.

    Raises DamagedWeightsError for a damaged file, OSError for one that cannot be read.
    """
    try:
        with safe_open(path, "np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            digest = (file.metadata() or {}).get(DIGEST)
    except (SafetensorError, AttributeError, TypeError, ValueError) as error:
        # AttributeError and TypeError: a data type that numpy does not know
        raise DamagedWeightsError(" ".join(str(error).split())) from None
    if digest not in (None, _digest(arrays)):
        raise DamagedWeightsError("its digest differs")
    return arrays


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return a SHA-256 digest of named arrays: names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@contextmanager
def naming_file_in_errors(path: Path) -> Iterator[None]:
    """Context manager that adds `path` to any OSError of the block that names no file.

    Python names the file only if the file cannot be opened, not if the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        reason = error.strerror or str(error)
        raise OSError(error.errno or errno.EIO, f"cannot write {path}: {reason}") from None
