"""Package a job for a cluster: its files, and the command that runs it there."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtrick.core import UserError
from overtrick.storage.locate import SEED
from overtrick.storage.object_store import is_url

MAX_SIZE = 100 * 2**20  # bytes of files sent with a job; Ray takes 500 MiB in all
NO_RUNS_FOLDER = (
    "error: the folder of runs on this cluster is unknown: name an absolute path that outlives the "
    "job, or a URL such as s3://BUCKET/runs, by --runs, or by OVERTRICK_RUNS where the head is "
    "started"
)
PREPARE_RUNS = (
    'export OVERTRICK_RUNS="${OVERTRICK_RUNS#file://}"; '
    f'case "$OVERTRICK_RUNS" in /*) mkdir -p "$OVERTRICK_RUNS" || exit 1; '
    f"database=$OVERTRICK_RUNS;; "
    f's3://*|gs://*) database=$HOME;; *) echo "{NO_RUNS_FOLDER}" >&2; exit 2;; esac'
)
"""Shell command that makes the folder of runs, and finds a folder for MLflow's database."""
TRACKING_URI = "${MLFLOW_TRACKING_URI:-sqlite:///$database/mlflow.db}"
UPLOAD = "from overtrick.storage.bucket_copy import upload; import sys; upload(*sys.argv[1:])"
TRIES = 4
RETRY = (  # the trap keeps the shell alive when a signal stops both: it waits for the command
    "trap : TERM INT; for left in {left}; do {command}; code=$?; "
    "case $code in 130|143) exit $code;; esac; [ $code -lt 128 ] && exit $code; "
    'echo "the driver was killed (exit code $code); tries left: $left" >&2; '
    "done; exit $code"
)
"""Shell command that runs a command again after a signal has killed it, up to TRIES times."""


@dataclass(frozen=True)
class ClusterTask:
    """A job to run on a Ray cluster, and the command of `overtrick` that runs the job there."""

    command: str  # the command of `overtrick`: train, sweep, evaluate or resume
    name: str  # name of the job, or of the run to resume
    run: str  # name of the run
    job: Mapping[str, Any] | None  # plain data; None: resume the run
    runs: str  # the folder or URL of runs on the cluster; "": its own OVERTRICK_RUNS
    environment: Mapping[str, str]  # environment variables of the driver


def pack(task: ClusterTask, folder: Path) -> str:
    """Write a job and all local files that it names into a folder, to be uploaded to a cluster.

    Returns the shell command that runs the job on the cluster, in a copy of the folder. The command
    first copies the uploaded files into the folder or bucket `task.runs`, where they outlive the
    job. If the driver is killed, for instance for lack of memory, the command continues the run, at
    most TRIES - 1 times. Raises UserError if the files are too large. Also raises it if the
    job names local files and `task.runs` is empty.
    """
    if task.job is None:
        return _entry(f"{task.command} {shlex.quote(task.name)}")
    named = {text: found for text in _paths(task.job) if (found := _files_of(text))}
    files = sorted({path for found in named.values() for path in found})
    size = sum(_size(path) for path in files)
    if size > MAX_SIZE:
        largest = max(files, key=_size)
        raise UserError(
            f"{task.name} names {size / 2**20:.0f} MiB of files, the largest is {largest}: only "
            f"{MAX_SIZE >> 20} MiB are sent with a job; copy them to the cluster, name their paths "
            "there, and submit with --files-there"
        )
    if files and not task.runs:
        raise UserError(
            f"{task.name} names {files[0]}, which is stored with the runs: name the folder of "
            "runs on the cluster by --runs"
        )
    there = {}
    for text, found in named.items():
        above = _parent_without_seed(text)
        digest = hashlib.sha256("".join(map(_digest, found)).encode()).hexdigest()[:16]
        for path in found:
            stored = folder / "files" / digest / path.relative_to(above)
            stored.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if path.is_dir() else shutil.copyfile
            if not stored.exists():  # two paths may hold the same content
                copy(path, stored)
        there[text] = f"{task.runs}/.files/{digest}/{Path(text).relative_to(above)}"
    file = f"{task.name}.yaml"  # JSON is YAML, but for escaped pairs of surrogates
    text = json.dumps(_with_paths(task.job, there), indent=1, ensure_ascii=False) + "\n"
    try:
        (folder / file).write_text(text, encoding="utf-8")
    except UnicodeEncodeError:
        raise UserError(f"{task.name} names a path that is not text in UTF-8: rename it") from None
    before = "true"
    if there:  # stored with the runs, because a model may be evaluated later
        store = '"$OVERTRICK_RUNS/.files"'
        upload = f"python -c {shlex.quote(UPLOAD)} files {store}"
        before = upload if is_url(task.runs) else f"mkdir -p {store} && cp -r files/. {store}"
    return _entry(f"{task.command} {shlex.quote(file)} --name {shlex.quote(task.run)}", before)


def _entry(call: str, before: str = "true") -> str:
    """Return the shell command that runs a call of `overtrick` on a cluster.

    `before`: a shell command to run first.
    """
    command = f"python -m overtrick {call}"
    retry = RETRY.format(left=" ".join(map(str, reversed(range(TRIES)))), command=command)
    tracking = f'export MLFLOW_TRACKING_URI="{TRACKING_URI}"'
    return f"{PREPARE_RUNS}; {before} && {tracking} && {{ {retry}; }}"


def _paths(plain: Any) -> Iterator[str]:
    """Yield the absolute paths that a job names.

    `plain`: plain data of the job, or a part of it.
    """
    if isinstance(plain, Mapping):
        plain = list(plain.values())
    if isinstance(plain, list):
        for each in plain:
            yield from _paths(each)
    elif isinstance(plain, str) and plain.startswith("/"):
        yield plain


def _files_of(text: str) -> list[Path]:
    """Return the local files and folders that an absolute path names; "{seed}" stands for any text.

    The list is sorted, and empty if there are none.
    """
    if SEED not in text:
        return [Path(text)] if os.path.exists(text) else []
    above = _parent_without_seed(text)
    parts = str(Path(text).relative_to(above)).split(SEED)
    return sorted(above.glob("*".join(map(glob.escape, parts))))


def _parent_without_seed(text: str) -> Path:
    """Return the lowest folder above an absolute path whose own path has no "{seed}"."""
    return next(path for path in Path(text).parents if SEED not in str(path))


def _with_paths(plain: Any, there: Mapping[str, str]) -> Any:
    """Return a copy of a job's plain data with local paths replaced by paths on the cluster.

    `there`: maps each local path to the path on the cluster.
    """
    if isinstance(plain, Mapping):
        return {key: _with_paths(value, there) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_with_paths(each, there) for each in plain]
    return there.get(plain, plain) if isinstance(plain, str) else plain


def _files_in(path: Path) -> list[Path]:
    """Return all files in a folder; for a file, only the file itself."""
    return sorted(p for p in path.rglob("*") if os.path.isfile(p)) if path.is_dir() else [path]


def _size(path: Path) -> int:
    """Return the size in bytes of a file or a folder; stop counting above MAX_SIZE."""
    size = 0
    for part in path.rglob("*") if path.is_dir() else (path,):
        size += os.path.getsize(part) if os.path.isfile(part) else 0
        if size > MAX_SIZE:
            break
    return size


def _digest(path: Path) -> str:
    """Return a short hash of the content of a file or folder."""
    digest = hashlib.sha256()
    for part in _files_in(path):
        digest.update(str(part.relative_to(path)).encode() + b"\0" + part.read_bytes())
    return digest.hexdigest()[:16]
