"""Objects in a bucket: read, write, list and delete everything under s3:// and gs:// URLs.

An object appears whole or not at all, also if it is sent in several parts. The credentials come
from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL;
GOOGLE_APPLICATION_CREDENTIALS) or from the role of the machine.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

from overtrick.core import RunError, UserError
from overtrick.core.files import check_names

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ObjectStore

Answer = TypeVar("Answer")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
BUCKET_URL = re.compile(
    r"((?:s3|gs)://[a-z0-9][a-z0-9._-]{1,221})((?:/(?!\.{0,2}(?:/|$))[^/?#]+)*)/?"
)
"""URL of a bucket or of a folder in it: the bucket, and the path with its leading slash."""
RETRIES = 12  # of a request without an answer
FIRST_PAUSE = timedelta(seconds=0.2)  # before a retry; each pause is up to twice as long
PATIENCE = timedelta(seconds=30)  # after which there is no further try; half of a lease's time
BROKEN_PAUSES = (0.5, 2.0)  # seconds before repetitions of a request that obstore gave up
LONGEST_ERROR = 300  # characters of a message of the object store


class ObjectVersion(NamedTuple):
    """Version of an object. It changes with each write on Google, with the content on Amazon."""

    e_tag: str
    generation: str | None  # the number that Google needs for a conditional write


class StoredObject(NamedTuple):
    """Size, version and age of an object."""

    size: int  # bytes
    version: ObjectVersion
    changed: float  # seconds since 1970, by the clock of the object store


def is_url(text: str) -> bool:
    """Return whether a text begins like a URL, other than that of a registered model."""
    return URL.match(text) is not None


def without_file_scheme(text: str) -> str:
    """Return the path of a URL file:///PATH; return any other text unchanged."""
    return unquote(text.removeprefix("file://")) if text.startswith("file:///") else text


def check_url(url: str, name: str) -> str:
    """Return a bucket's URL without a final slash. Raises UserError for any other text.

    `name`: the variable, option or key that holds the URL, for the error.
    """
    if BUCKET_URL.fullmatch(url) is None:
        raise UserError(
            f"{name} is the URL {url}: name s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, file:///PATH, "
            "or a local or mounted folder"
        )
    check_names(url)
    return url.rstrip("/")


def split_url(url: str, name: str) -> tuple[ObjectFolder, str]:
    """Return the folder that holds the object or folder at a URL, and its name there.

    `name`: the option or key that holds the URL, for the error. Raises UserError if the URL is that
    of a whole bucket, or of no bucket.
    """
    url = check_url(url, name)
    above, _, last = url.rpartition("/")
    if above.endswith(":/"):
        raise UserError(f"{name} is the bucket {url}: name a folder in it, such as {url}/NAME")
    return ObjectFolder(above), last


@dataclass(frozen=True)
class ObjectFolder:
    """All objects of a bucket whose names begin with a path.

    The methods name objects relative to that path. They raise RunError, in one line, if the object
    store refuses a request or does not answer for half a minute.
    """

    url: str  # such as s3://bucket/runs, without a final slash

    def below(self, name: str) -> ObjectFolder:
        """Return the folder `name` in this folder; for an empty name this folder."""
        return ObjectFolder(f"{self.url}/{name}") if name else self

    def read(self, name: str) -> bytes:
        """Return the content of an object. Raises FileNotFoundError if there is none."""
        return self.read_version(name)[0]

    def read_version(self, name: str) -> tuple[bytes, StoredObject]:
        """Return the content of an object with its version. Raises FileNotFoundError."""
        with self._one_line_errors(name, reading=True):
            return _repeated(lambda: self._get(name))

    def stat(self, name: str) -> StoredObject | None:
        """Return size, version and age of an object; None if there is no such object."""
        try:
            with self._one_line_errors(name, reading=True):
                return _stored(_repeated(lambda: self._store.head(self._path(name))))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes | Path) -> ObjectVersion:
        """Write an object, replacing an old one. `content`: bytes, or a file."""
        with self._one_line_errors(name):
            return self._put(name, content, "overwrite")

    def create(self, name: str, content: bytes) -> ObjectVersion | None:
        """Write an object and return its version; return None, unwritten, if the object exists."""
        from obstore.exceptions import AlreadyExistsError

        with self._one_line_errors(name):
            try:
                return self._put(name, content, "create")
            except AlreadyExistsError:
                return None

    def replace(self, name: str, content: bytes, version: ObjectVersion) -> ObjectVersion | None:
        """Replace one version of an object and return the new version.

        Returns None, without writing, if the object has another version or none.
        """
        from obstore.exceptions import PreconditionError

        with self._one_line_errors(name):
            try:
                if self.url.startswith("gs:"):
                    mode = {"e_tag": version.e_tag, "version": version.generation}
                    return self._put(name, content, mode)  # type: ignore[arg-type]
                return self._put(name, content, {"e_tag": version.e_tag})
            except (PreconditionError, FileNotFoundError):
                return None

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; ignore names without an object."""
        # Google's store is asked for each object, and says if there is none
        groups = [names] if self.url.startswith("s3:") else [[name] for name in names]
        for group in filter(None, groups):
            with self._one_line_errors(group[0]), suppress(FileNotFoundError):
                _repeated(partial(self._delete, group))

    def objects(self) -> dict[str, StoredObject]:
        """Return all objects in this folder and below, by their names relative to it.

        Raises RunError for a name with `..`, and if the store fails.
        """
        above = self._path("").rstrip("/")
        with self._one_line_errors(""):
            pages = _repeated(lambda: list(self._store.list(above or None)))
            found = [(each["path"], _stored(each)) for page in pages for each in page]
        start = f"{above}/" if above else ""
        every = {path.removeprefix(start): each for path, each in found if path.startswith(start)}
        if wrong := [name for name in every if ".." in name.split("/")]:
            raise RunError(f"{self.url} has an object that is no file: {wrong[0]!r}")
        return every

    def folders(self) -> list[str]:
        """Return the sorted names of the folders directly in this folder."""
        above = self._path("").rstrip("/")
        with self._one_line_errors(""):
            answer = _repeated(lambda: self._store.list_with_delimiter(above or None))
            found = answer["common_prefixes"]
        return sorted(path.rpartition("/")[2] for path in found)

    def _get(self, name: str) -> tuple[bytes, StoredObject]:
        answer = self._store.get(self._path(name))
        return bytes(answer.bytes()), _stored(answer.meta)

    def _delete(self, names: Sequence[str]) -> None:
        self._store.delete([self._path(name) for name in names])

    def _put(self, name: str, content: bytes | Path, mode: PutMode) -> ObjectVersion:
        """Write an object.

        If a conditional request whose answer was lost has arrived, its repetition is refused.
        Callers then compare the object with their own content.
        """
        answer = _repeated(lambda: self._store.put(self._path(name), content, mode=mode))
        return ObjectVersion(str(answer["e_tag"]), answer["version"])

    @property
    def _store(self) -> ObjectStore:
        found = BUCKET_URL.fullmatch(self.url)
        assert found is not None
        return _open(found[1])

    def _path(self, name: str) -> str:
        """Return the path of an object in its bucket."""
        found = BUCKET_URL.fullmatch(self.url)
        assert found is not None
        return f"{found[2]}/{name}".lstrip("/")

    @contextmanager
    def _one_line_errors(self, name: str, reading: bool = False) -> Iterator[None]:
        """Context manager that turns errors of the object store into a one-line RunError.

        The error names the object. `reading`: raise FileNotFoundError if the object is missing.
        """
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            if reading and isinstance(error, FileNotFoundError):
                raise FileNotFoundError(f"no object {self.url}/{name}") from None
            reason = " ".join(str(error).split("\n\n")[0].split())
            where = f"{self.url}/{name}".rstrip("/")
            raise RunError(f"cannot access {where}: {reason[:LONGEST_ERROR]}") from None


def _repeated(request: Callable[[], Answer]) -> Answer:
    """Return the answer to a request, which is sent again if its connection breaks.

    obstore repeats neither a conditional write nor every request whose connection breaks while the
    server is restarted.
    """
    from obstore.exceptions import GenericError

    start = time.monotonic()
    for pause in BROKEN_PAUSES:
        try:
            return request()
        except GenericError:
            if time.monotonic() - start > PATIENCE.total_seconds():
                raise
            time.sleep(pause)
    return request()


def _stored(found: Any) -> StoredObject:
    """Return obstore's description of an object as a StoredObject."""
    version = ObjectVersion(str(found["e_tag"]), found["version"])
    return StoredObject(found["size"], version, found["last_modified"].timestamp())


@lru_cache(maxsize=16)
def _open(bucket: str) -> ObjectStore:
    """Return obstore's client of a bucket, given by its URL."""
    # a thread that imports obstore.store would not wait for another one that still imports obstore
    import obstore

    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return obstore.store.from_url(
        bucket,
        client_options={"allow_http": True} if plain else None,
        retry_config={
            "max_retries": RETRIES,
            "retry_timeout": PATIENCE,
            "backoff": {
                "init_backoff": FIRST_PAUSE,
                "max_backoff": timedelta(seconds=8),
                "base": 2,
            },
        },
    )
