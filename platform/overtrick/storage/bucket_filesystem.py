"""A pyarrow file system through which Ray Tune stores checkpoints in a run's bucket.

Its root is the run. Every write and deletion first checks that the run's lease still belongs to the
process that started the trials, because trials work in other processes and on other machines.
"""

from __future__ import annotations

import datetime
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs

from overtrick.core import RunError
from overtrick.storage.object_store import ObjectFolder, StoredObject
from overtrick.storage.run_lease import check_stored_lease

log = logging.getLogger(__name__)
KEPT = ("checkpoint_", "experiment_state-", "error.", ".validate_storage_marker")
"""Beginnings of names of files and folders that are stored: checkpoints, the state and the errors
that Tune reads when it ends, and the marker by which it checks that trials reach the storage. Other
files of Tune are dropped."""


class _Upload:
    """A file in memory that becomes an object when it is closed.

    It does not derive from io.IOBase: Python closes such files when it frees them, and a
    half-written file would be uploaded.
    """

    def __init__(self, handler: _Handler, name: str) -> None:
        self.handler, self.name = handler, name
        self.content = bytearray()
        self.closed = False

    def write(self, part: Any) -> int:
        """Append bytes to the file in memory."""
        self.content += part
        return len(part)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return len(self.content)

    def flush(self) -> None:
        """Do nothing: the object appears when the file is closed."""

    def close(self) -> None:
        """Write the object if the file is not closed yet.

        An error is also logged, because pyarrow's copies ignore it.
        """
        if not self.closed:
            self.closed = True
            try:
                self.handler.write(self.name, bytes(self.content))
            except RunError as error:
                log.warning("%s is not stored: %s", self.name, error)
                raise


@dataclass(frozen=True)
class _Handler(fs.FileSystemHandler):
    """The operations of the file system. Paths are those of objects, with a leading slash."""

    objects: ObjectFolder
    token: str  # of the run's lease

    def get_type_name(self) -> str:
        return "overtrick bucket"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[Any]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> Any:
        found = self.objects.stat(_name(path)) if _name(path) else None
        if found is not None:
            return _file_info(path, found)
        below = self.objects.below(_name(path))
        kind = fs.FileType.Directory if below.objects() else fs.FileType.NotFound
        return fs.FileInfo(path, type=kind)

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        base = selector.base_dir.rstrip("/")
        below = self.objects.below(_name(base))
        infos = {}
        for name, found in below.objects().items():
            parts = name.split("/")
            for length in range(1, len(parts)):
                path = "/".join([base, *parts[:length]])
                infos[path] = fs.FileInfo(path, type=fs.FileType.Directory)
            infos[f"{base}/{name}"] = _file_info(f"{base}/{name}", found)
        if not infos and not selector.allow_not_found:
            raise FileNotFoundError(base)
        depth = base.count("/") + 1
        return [i for path, i in infos.items() if selector.recursive or path.count("/") == depth]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: a folder exists as soon as there is an object in it."""

    def delete_dir(self, path: str) -> None:
        """Delete a folder. Raises io.UnsupportedOperation for the root, which is the whole run."""
        if not _name(path):
            self.delete_root_dir_contents()
        check_stored_lease(self.objects, self.token)
        below = self.objects.below(_name(path))
        below.delete(list(below.objects()))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.delete_dir(path)

    def delete_root_dir_contents(self) -> NoReturn:
        """Raise io.UnsupportedOperation: the root is a whole run, and is deleted only elsewhere.

        Trials may delete their own checkpoints.
        """
        raise io.UnsupportedOperation(f"{self.objects.url} is a run: delete it outside of training")

    def delete_file(self, path: str) -> None:
        check_stored_lease(self.objects, self.token)
        self.objects.delete([_name(path)])

    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    def copy_file(self, src: str, dest: str) -> None:
        self.write(_name(dest), self.objects.read(_name(src)))

    def open_input_stream(self, path: str) -> Any:
        return pa.BufferReader(self.objects.read(_name(path)))

    def open_input_file(self, path: str) -> Any:
        return pa.BufferReader(self.objects.read(_name(path)))

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        kept = any(part.startswith(KEPT) for part in path.split("/"))
        return pa.PythonFile(_Upload(self, _name(path)) if kept else io.BytesIO(), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> NoReturn:
        """Refuse to append, as pyarrow's own file system of S3 does: objects are written whole."""
        raise io.UnsupportedOperation(f"{self.objects.url}{path} is an object: write it anew")

    def write(self, name: str, content: bytes) -> None:
        """Write a whole object. Raises RunError if the lease of the run is lost."""
        check_stored_lease(self.objects, self.token)
        self.objects.write(name, content)


def bucket_filesystem(url: str, token: str) -> fs.PyFileSystem:
    """Return the file system whose root is a run. `token`: of the run's lease."""
    return fs.PyFileSystem(_Handler(ObjectFolder(url), token))


def _name(path: str) -> str:
    """Return the name of the object at a path of the file system."""
    return path.strip("/")


def _file_info(path: str, found: StoredObject) -> Any:
    changed = datetime.datetime.fromtimestamp(found.changed, datetime.UTC)
    return fs.FileInfo(path, type=fs.FileType.File, size=found.size, mtime=changed)
