"""Generation of data sets by shards: finished parts are stored, and never computed twice.

A data set is described by a `DatasetConfig`. Its work is cut into shards of a fixed size, which a
worker pool computes. Consecutive shards form a part, a file in a hidden folder beside the result.
An interrupted generation continues with the parts that are missing. Shards draw from generators of
their own, so that the result depends neither on the number of workers nor on interruptions.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from overtrick.config.job_file import Section, validated
from overtrick.config.overrides import field_overrides
from overtrick.core import Array, UserError, concat_columns
from overtrick.distributed.workers import Shard, Work, WorkerPool, generator
from overtrick.storage import parquet

Progress = Callable[[str, int, int], None]
"""Callback (stage, shards done, shards in all), called before the first shard and after each."""
Columns = dict[str, Array]


class DatasetConfig(Section, ABC):
    """Configuration of a data set that `overtrick generate` makes."""

    subject: ClassVar[str]  # the data set's name in error messages

    @classmethod
    def parse(cls, overrides: Sequence[str] = ()) -> Self:
        """Build the configuration from `key=value` overrides. Raises UserError."""
        return validated(cls, field_overrides(cls, overrides, cls.subject))

    @abstractmethod
    def default_path(self) -> Path:
        """Return the file or folder of the data set if the user names none."""

    @abstractmethod
    def build(self, out: Path, pool: WorkerPool, progress: Progress) -> dict[str, Any]:
        """Generate the data set at `out`, or check that it is there already.

        Returns the number of `rows`, and more for some data sets. Raises UserError if another data
        set or foreign files are at `out`, or if nothing can be written there.
        """


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Progress callback that does nothing."""


def generate(
    config: DatasetConfig, out: Path, pool: WorkerPool, progress: Progress = ignore_progress
) -> dict[str, Any]:
    """Generate a data set, or the part of it that is missing.

    Returns its path, its number of rows, and the seconds taken; some data sets add more. Raises
    UserError as `DatasetConfig.build` does.
    """
    began = time.monotonic()
    result = config.build(out, pool, progress)
    return {"path": str(out), **result, "seconds": time.monotonic() - began}


def parts_folder(out: Path) -> Path:
    """Return the hidden folder beside `out` that holds the parts of an unfinished data set."""
    return out.with_name(f".{out.name}.parts")


def create_parts_folder(out: Path) -> Path:
    """Create the folder of the parts if it is missing. Raises UserError if it cannot be created."""
    parts = parts_folder(out)
    try:
        parts.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out.parent}: {error.strerror}") from None
    return parts


def load_existing(
    out: Path, kind: parquet.Kind, made_with: Mapping[str, Any]
) -> parquet.StoredTable | None:
    """Load the finished data set in a file; return None if there is no file.

    `kind`, `made_with`: the kind of file and the parameters that it must have been generated with.
    Raises UserError if `out` is a folder or another file.
    """
    if out.is_dir():
        raise UserError(f"{out} is a folder: name a file in it")
    if not out.exists():
        return None
    try:
        return parquet.load(out, kind, made_with)
    except UserError as error:
        reason = str(error).removesuffix(f": {kind.remedy}")
        raise UserError(f"{reason}: remove it, or name another file with --out") from None


def run_shards(
    out: Path, kind: parquet.Kind, made_with: Mapping[str, Any], stage: str, work: Work,
    common: Any, shards: Sequence[Shard], per_part: int, pool: WorkerPool, progress: Progress,
    join: Callable[[list[Columns]], Columns] = concat_columns,
) -> Iterator[Columns]:  # fmt: skip
    """Compute the shards of one stage and yield the columns of each part, in order.

    `work(rng, common, *shard)` returns columns by name, and must draw from a generator of its own:
    the shards that are left, and so their places in the pool, depend on interruptions. `join`
    makes one set of columns of the `per_part` consecutive shards of a part. Parts on disk with the
    same `made_with` are not computed again; they stay until the caller deletes their folder.
    Raises UserError if the folder of the parts cannot be created.
    """
    folder, made_with = create_parts_folder(out), {**made_with, "together": per_part}
    parts = [range(len(shards))[k : k + per_part] for k in range(0, len(shards), per_part)]
    files = [folder / f"{stage}-{k}.parquet" for k in range(len(parts))]
    missing = [k for k, file in enumerate(files) if not is_valid_part(file, kind, made_with)]
    left = [shard for k in missing for shard in parts[k]]
    finished = len(shards) - len(left)
    results: dict[int, Columns] = {}

    def store(place: int, columns: Columns) -> None:
        nonlocal finished
        results[left[place]] = columns
        part = left[place] // per_part
        if all(shard in results for shard in parts[part]):
            joined = join([results.pop(shard) for shard in parts[part]])
            parquet.save(files[part], kind, made_with, joined)
        finished += 1
        progress(stage, finished, len(shards))

    progress(stage, finished, len(shards))
    pool.map(work, common, [shards[k] for k in left], generator(0), store)
    return (parquet.load(file, kind, made_with).columns for file in files)


def is_valid_part(file: Path, kind: parquet.Kind, made_with: Mapping[str, Any]) -> bool:
    """Return whether a file holds a complete part that was generated with these parameters."""
    try:
        parquet.load(file, kind, made_with)
    except UserError:
        return False
    return True
