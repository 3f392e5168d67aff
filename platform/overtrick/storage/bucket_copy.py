"""Local copies of what is stored in buckets: runs, models and data sets.

Commands work on files. A run in a bucket has a local copy of its files; `pull` downloads what has
changed in the bucket, `push` uploads what has changed here. The copies lie in the cache folder. The
bucket is the truth: while no command works on a run, its copy may be deleted without a loss.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from overtrick.core import RunError, UserError
from overtrick.core.file_lock import is_locked, waiting_for_lock
from overtrick.core.files import (
    cache_folder,
    local_path,
    read_text,
    replacing_folder,
    write_bytes,
    write_text,
)
from overtrick.storage.object_store import (
    ObjectFolder,
    ObjectVersion,
    check_url,
    is_url,
    split_url,
    without_file_scheme,
)
from overtrick.storage.run_file_names import CARD, CHILDREN, JOB, LOCK, TABLE, TUNE
from overtrick.storage.run_lease import LEASE, RunLease, check_stored_lease

BUCKETS = "buckets"  # the folder of all local copies, in the cache folder
URL_FILE = ".url"  # in the folder of copies from one URL: that URL
SINGLE = ".objects"  # in such a folder: single downloaded files, such as a Parquet file
OUTPUTS = ".outputs"  # in such a folder: results that are uploaded when their command ends
VERSIONS = ".versions.json"  # in a copy: the version of each object, and the file of that version
PULLING = ".pulling"  # in a copy: locked by the process that downloads
README = "README.txt"  # in the folder of the child runs of a run in a bucket
UNFINISHED = "unfinished-upload"  # an object in a folder while it is uploaded
CHILD_URL = re.compile(rf"(.*/[^/]+)/{CHILDREN}/[^/]+")
"""URL of a child run. The first part is the URL of its sweep or comparison."""

log = logging.getLogger(__name__)
_leases: dict[Path, RunLease] = {}
"""The leases that this process holds, by the local copy of the run."""


@dataclass(frozen=True)
class SyncedFile:
    """A local file when it was last equal to its object: version, size, and time of change."""

    version: ObjectVersion
    size: int
    changed: int  # ns since 1970, of the local file


_VERSIONS: TypeAdapter[dict[str, SyncedFile]] = TypeAdapter(dict[str, SyncedFile])


@dataclass(frozen=True)
class BucketCopy:
    """The local copy of a folder in a bucket, such as a run with all its child runs."""

    folder: Path
    objects: ObjectFolder

    def pull(self, below: str = "", working: bool = False) -> None:
        """Download changed objects; delete the local files of deleted objects.

        A file that was changed here stays until its object is changed or deleted. Nothing is done
        while another process of this machine works on the run, because its files are newer. The
        lease is not downloaded.

        - `below`: download only this folder of Ray Tune, even while a process works on the run.
          Other calls leave out the folders of Tune.
        - `working`: whether this process is the one that works on the run.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with waiting_for_lock(self.folder / PULLING):
            if below or working or not is_locked(self.folder / LOCK):
                self._pull(below)

    def _pull(self, below: str) -> None:
        found = self.objects.below(below).objects()
        versions = {f"{below}/{k}" if below else k: each.version for k, each in found.items()}
        if not below:
            versions = {k: each for k, each in versions.items() if not k.startswith(TUNE)}
        versions.pop(LEASE, None)
        known = self._versions()
        for name, version in versions.items():
            self._update(name, version, known)
        for name in [name for name in known if name not in versions]:
            if name.startswith(f"{below}/") if below else not name.startswith(TUNE):
                self._delete(name)
                del known[name]
        self._save_versions(known)

    def pull_object(self, name: str) -> Path:
        """Download one object if it differs from the local file; return the path of the file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with waiting_for_lock(self.folder / PULLING):
            found, known = self.objects.stat(name), self._versions()
            if found is not None:
                self._update(name, found.version, known)
                self._save_versions(known)
        return self.folder / name

    def _update(self, name: str, version: ObjectVersion, known: dict[str, SyncedFile]) -> None:
        """Download an object unless the local file is of its version; note the version in `known`.

        An object that is deleted meanwhile is left out, and so is the empty object by which some
        programs mark a folder.
        """
        path = self.folder / name
        known_e_tag = known[name].version.e_tag if name in known else None
        if known_e_tag == version.e_tag and os.path.exists(path):  # listings have no generations
            return
        try:
            content, stored = self.objects.read_version(name)
        except FileNotFoundError:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
        known[name] = SyncedFile(stored.version, stored.size, path.stat().st_mtime_ns)

    def push(self) -> None:
        """Upload all files that have changed since the last `pull` or `push`.

        Hidden files and those of Ray Tune stay here. The files by which models are complete and
        runs are finished come last. Raises RunError if this process does not hold the lease of the
        run, or no longer.
        """
        lease = _held_lease(self)
        known = self._versions()
        last = (CARD, TABLE)

        def order(path: Path) -> tuple[int, int, Path]:
            return (last.index(path.name) if path.name in last else -1, -len(path.parts), path)

        files = sorted(_uploaded_files(self.folder), key=order)
        try:
            for path in files:
                name = path.relative_to(self.folder).as_posix()
                try:
                    found, content = path.stat(), path.read_bytes()
                except FileNotFoundError:  # replaced in this moment by another thread
                    continue
                before = known.get(name)
                if before and (before.size, before.changed) == (found.st_size, found.st_mtime_ns):
                    continue
                lease.check_not_expired()
                version = self._upload(name, content, before.version if before else None)
                known[name] = SyncedFile(version, found.st_size, found.st_mtime_ns)
        finally:
            self._save_versions(known)

    def _upload(self, name: str, content: bytes, before: ObjectVersion | None) -> ObjectVersion:
        """Write an object on condition that it has the version `before`; None: that it is absent.

        So a late request of a process that has lost its lease replaces nothing that another process
        has written. Raises RunError if the object is another one.
        """
        if before is None:
            version = self.objects.create(name, content)
        else:
            version = self.objects.replace(name, content, before)
        if version is None:  # refused; maybe because the answer to our own request was lost
            with suppress(FileNotFoundError):
                there, stored = self.objects.read_version(name)
                if there == content:
                    return stored.version
            raise RunError(f"another process has changed {self.objects.url}/{name}")
        return version

    def delete(self, path: Path) -> None:
        """Delete a folder here and in the bucket. Raises RunError without the lease of the run."""
        _held_lease(self).check_not_expired()
        below = self.objects.below(path.relative_to(self.folder).as_posix())
        below.delete(list(below.objects()))
        shutil.rmtree(path, ignore_errors=True)

    def url_of(self, path: Path) -> str:
        """Return the URL of a file or folder of this copy."""
        name = path.relative_to(self.folder).as_posix()
        return self.objects.below("" if name == "." else name).url

    def _delete(self, name: str) -> None:
        """Delete a local file and the folders that are empty then."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        for above in path.relative_to(self.folder).parents:
            folder = self.folder / above
            if folder == self.folder or (folder.exists() and any(folder.iterdir())):
                return
            with suppress(FileNotFoundError):
                folder.rmdir()

    def _versions(self) -> dict[str, SyncedFile]:
        """Return the known versions by name; none if the file is missing or damaged."""
        try:
            return _VERSIONS.validate_json((self.folder / VERSIONS).read_bytes())
        except (OSError, ValidationError):
            return {}

    def _save_versions(self, versions: dict[str, SyncedFile]) -> None:
        write_bytes(self.folder / VERSIONS, _VERSIONS.dump_json(versions))


def run_copy(url: str) -> BucketCopy:
    """Return the local copy of a run in a bucket, which need not exist in the bucket.

    `url`: the URL of the run; that of a child run gives the copy of its sweep or comparison.
    """
    child = CHILD_URL.fullmatch(url)
    group = child[1] if child and run_exists(child[1], cache_period()) else url
    above, name = split_url(group, "the run")
    return BucketCopy(copies_folder(above.url) / name, above.below(name))


@lru_cache(maxsize=1000)
def run_exists(url: str, period: int) -> bool:
    """Return whether a run is stored at a URL.

    Checking a job looks up each opponent as a run; the cache saves most of these requests.
    `period`: from `cache_period`, so that an answer is kept for 10 seconds.
    """
    return ObjectFolder(url).stat(JOB) is not None


def cache_period() -> int:
    """Return the number of the current period of 10 seconds, by the clock of this machine."""
    return int(time.monotonic() // 10)


def copies_folder(url: str) -> Path:
    """Return the folder of the local copies of everything directly below a URL; create it."""
    folder = cache_folder().absolute() / BUCKETS / hashlib.sha256(url.encode()).hexdigest()[:16]
    if not (folder / URL_FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / URL_FILE, url)
    return folder


def copy_of(path: Path) -> BucketCopy | None:
    """Return the local copy that a file or folder belongs to; None if it is in no copy."""
    if BUCKETS not in path.parts:
        return None
    above = cache_folder().absolute() / BUCKETS
    if not path.is_relative_to(above):
        return None
    parts = path.relative_to(above).parts
    if len(parts) < 2:
        return None
    folder = above / parts[0]
    url = read_text(folder / URL_FILE)
    return BucketCopy(folder / parts[1], ObjectFolder(url).below(parts[1]))


def path_or_url(path: Path) -> str:
    """Return the URL of a file or folder in a local copy, or else its path as text."""
    copy = copy_of(path)
    return str(path) if copy is None else copy.url_of(path)


def absolute_or_url(place: str, name: str) -> str:
    """Return a bucket's URL without final slashes, and a local path as an absolute path.

    `place`: the URL of a bucket, a URL file:///PATH, or a path. `name`: the option or key that
    holds `place`, for errors. Raises UserError for another kind of URL, and for a path that no file
    can have.
    """
    place = without_file_scheme(place)
    return check_url(place, name) if is_url(place) else str(local_path(place, name).absolute())


def local_copy(place: str, name: str) -> Path:
    """Return the local path of a file or folder; download it first if `place` is a URL.

    `name`: the option or key that holds `place`, for errors. Raises UserError for an unknown kind
    of URL, if nothing is stored at the URL, and while a folder there is uploaded.
    """
    place = without_file_scheme(place)
    if not is_url(place):
        return Path(place)
    above, last = split_url(place, name)
    folder = copies_folder(above.url)
    if above.stat(last) is not None:
        return BucketCopy(folder / SINGLE, above).pull_object(last)
    copy = BucketCopy(folder / last, above.below(last))
    copy.pull()
    if copy.objects.stat(UNFINISHED) is not None:
        raise UserError(f"{name} is {place}: its upload is unfinished: repeat the command")
    if not any(_uploaded_files(copy.folder)):
        raise UserError(f"{name} is {place}: nothing is stored there")
    return copy.folder


@contextmanager
def checkpoint_folder(place: str, file: str) -> Iterator[Path]:
    """Context manager that yields the folder of a checkpoint, with one file of it.

    `place`: its path, or its URL; then the file is downloaded for the time of the block. `file`:
    the name of the file.
    """
    if not is_url(place):
        yield Path(place)
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / file).write_bytes(ObjectFolder(place).read(file))
        yield Path(folder)


@contextmanager
def output(place: str, name: str) -> Iterator[Path]:
    """Context manager that yields the local path of a file or folder that the block writes.

    If `place` is a URL, what is stored there is downloaded before the block and uploaded after it.
    Until all files of a folder are uploaded, `local_copy` refuses it; then repeating the command
    uploads them. `name`: the option that holds `place`, for errors. Raises UserError for another
    kind of URL.
    """
    place = without_file_scheme(place)
    if not is_url(place):
        yield local_path(place, name)
        return
    above, last = split_url(place, name)
    path, below = copies_folder(above.url) / OUTPUTS / last, above.below(last)
    if above.stat(JOB) is not None:
        raise UserError(f"{name} {place} is in the run {above.url}: name another URL")
    path.parent.mkdir(exist_ok=True)
    stored = below.objects()
    if above.stat(last) is not None:
        write_bytes(path, above.read(last))
    elif stored and UNFINISHED not in stored:
        with replacing_folder(path) as new:
            for each in stored:
                with suppress(FileNotFoundError):  # a program's mark of a folder
                    content = below.read(each)
                    (new / each).parent.mkdir(parents=True, exist_ok=True)
                    write_bytes(new / each, content)
    elif not stored and path.is_dir():
        shutil.rmtree(path)  # of an earlier object that was deleted
    elif not stored:
        path.unlink(missing_ok=True)
    yield path
    if path.is_file():
        above.write(last, path)
    elif path.is_dir():
        below.write(UNFINISHED, b"")
        upload(str(path), below.url)
        others = {each for each in below.objects() if not (path / each).exists()}
        below.delete(sorted(others - {UNFINISHED}))
        below.delete([UNFINISHED])


def upload(folder: str, url: str) -> None:
    """Upload all files of a folder and its subfolders to a URL."""
    target = ObjectFolder(url)
    for file in _uploaded_files(Path(folder)):
        target.write(file.relative_to(folder).as_posix(), file)


@contextmanager
def leased(folder: Path) -> Iterator[None]:
    """Context manager that holds the lease of a run in a bucket while its block changes the run.

    Downloads the run before the block, and uploads the changed files after it, also after an error.
    Does nothing for a run on a disk. `folder`: of the run; this process has locked its lock file.
    Raises UserError if another process works on the run, RunError if the lease was lost.
    """
    copy = copy_of(folder)
    if copy is None:
        yield
        return
    lease = RunLease(copy.objects)
    _leases[copy.folder] = lease
    try:
        copy.pull(working=True)
        try:
            yield
        except BaseException:
            try:
                copy.push()
            except RunError as error:
                log.warning("%s", error)
            raise
        copy.push()
    finally:
        del _leases[copy.folder]
        lease.release()


def create_run(folder: Path) -> None:
    """Upload a new run: its job file, by which others find it, and the folder of child runs.

    Does nothing for a run that is not in a bucket. `folder`: of the run. Raises UserError if
    another process has just made a run of this name.
    """
    copy = copy_of(folder)
    if copy is None:
        return
    if (folder / CHILDREN).exists():  # a bucket has no empty folders
        text = f"The child runs of {folder.name}.\n"
        write_text(folder / CHILDREN / README, text)
        copy.objects.write(f"{CHILDREN}/{README}", text.encode())
    if copy.objects.create(JOB, (folder / JOB).read_bytes()) is None:
        raise UserError(f"run {folder.name} has just been made by another process: try again")
    run_exists.cache_clear()


def delete_stale_copy(folder: Path) -> None:
    """Delete the local copy of a run that was deleted from its bucket.

    Does nothing for a run on a disk, or while a process works on the run.
    """
    if copy_of(folder) is not None and not is_locked(folder / LOCK):
        shutil.rmtree(folder, ignore_errors=True)


def push(path: Path) -> None:
    """Upload what has changed in the run that a file or folder belongs to, if it is in a bucket."""
    copy = copy_of(path)
    if copy is not None:
        copy.push()


def delete(folder: Path) -> None:
    """Delete a folder; in the local copy of a run, delete its objects too."""
    copy = copy_of(folder)
    if copy is not None:
        copy.delete(folder)
    else:
        shutil.rmtree(folder)


def _held_lease(copy: BucketCopy) -> RunLease:
    """Return the lease that this process holds on a run. Raises RunError if it holds none."""
    if copy.folder not in _leases:
        raise RunError(f"this process does not hold the lease of {copy.objects.url}")
    return _leases[copy.folder]


def check_lease(folder: Path) -> None:
    """Raise RunError if this process has lost the lease of a run in a bucket.

    This asks the bucket. Does nothing for a run on a disk.
    """
    copy = copy_of(folder)
    if copy is not None:
        check_stored_lease(copy.objects, _held_lease(copy).token)


def lease_token(path: Path) -> str:
    """Return the token of the lease that this process holds on the run of a file or folder."""
    copy = copy_of(path)
    assert copy is not None
    return _held_lease(copy).token


def _uploaded_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a copy that are uploaded: not those of Ray Tune, locks or hidden files."""
    for above, folders, files in os.walk(folder):
        at_top = above == str(folder)
        folders[:] = [f for f in folders if not f.startswith((".", TUNE) if at_top else ".")]
        for name in files:
            if not name.startswith(".") and not (at_top and name == LOCK):
                yield Path(above) / name
