"""What travels to a cluster with a job: the files that it names, and the command to run there."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtrick.core import UserError

LARGEST = 100 * 2**20  # bytes of files that travel with a job; Ray takes 500 MiB of all together
HOMELESS = (
    "error: this cluster does not say where it keeps runs: name an absolute path that outlives the "
    "job, by --runs, or as OVERTRICK_RUNS where its head is started"
)
KNOWN = f'case "$OVERTRICK_RUNS" in /*) ;; *) echo "{HOMELESS}" >&2; exit 2;; esac'
URI = "${MLFLOW_TRACKING_URI:-sqlite:///$OVERTRICK_RUNS/mlflow.db}"


@dataclass(frozen=True)
class Order:
    """What is to be done on the cluster."""

    command: str  # of `overtrick` there: train, sweep, evaluate, resume
    name: str  # of the job, or of the run to go on with
    job: Mapping[str, Any] | None  # plain data, or None: go on
    runs: str  # the folder of runs on the cluster; "" is the one that it names itself
    environment: Mapping[str, str]  # that the driver is given


def packed(order: Order, folder: Path) -> str:
    """Lay what travels into a folder; the command that the cluster runs there."""
    call = f'export MLFLOW_TRACKING_URI="{URI}" && exec python -m overtrick {order.command}'
    runs = f'{KNOWN}; mkdir -p "$OVERTRICK_RUNS"'
    if order.job is None:
        return f"{runs} && {call} {shlex.quote(order.name)}"
    files = sorted(set(_files(order.job)))
    size = sum(_size(path) for path in files)
    if size > LARGEST:
        largest = max(files, key=_size)
        raise UserError(
            f"the files that {order.name} names are {size / 2**20:.0f} MiB, {largest} the largest: "
            f"{LARGEST >> 20} MiB travel with a job; put them where the cluster sees them, name "
            "them as there, and submit with --files-there"
        )
    if files and not order.runs:
        raise UserError(
            f"{order.name} names {files[0]}, which is kept with the runs: name their folder on the "
            "cluster by --runs"
        )
    there = {}
    for path in files:
        kept = f"{_digest(path)}/{path.name}"
        (folder / "files" / kept).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, folder / "files" / kept)
        there[str(path)] = f"{order.runs}/.files/{kept}"
    file = f"{order.name}.yaml"  # JSON is YAML
    (folder / file).write_text(json.dumps(_renamed(order.job, there), indent=1) + "\n")
    if there:  # they stay with the runs, whose models may be judged later
        kept = '"$OVERTRICK_RUNS/.files"'
        runs = f"{KNOWN}; mkdir -p {kept} && cp -r files/. {kept}"
    return f"{runs} && {call} {shlex.quote(file)}"


def _files(plain: Any) -> Iterator[Path]:
    """The files and folders of this machine that a job names; it names them absolutely."""
    if isinstance(plain, Mapping):
        plain = list(plain.values())
    if isinstance(plain, list):
        for each in plain:
            yield from _files(each)
    elif isinstance(plain, str) and plain.startswith("/") and Path(plain).exists():
        yield Path(plain)


def _renamed(plain: Any, there: Mapping[str, str]) -> Any:
    """Plain data with other paths."""
    if isinstance(plain, Mapping):
        return {key: _renamed(value, there) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_renamed(each, there) for each in plain]
    return there.get(plain, plain) if isinstance(plain, str) else plain


def _parts(path: Path) -> list[Path]:
    """The file, or all files in the folder."""
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _size(path: Path) -> int:
    return sum(part.stat().st_size for part in _parts(path))


def _digest(path: Path) -> str:
    """What a file or folder holds, shortly: the same holds the same."""
    told = hashlib.sha256()
    for part in _parts(path):
        told.update(str(part.relative_to(path)).encode() + b"\0" + part.read_bytes())
    return told.hexdigest()[:16]
