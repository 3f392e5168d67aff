"""Generate data sets in shards, and continue an interrupted generation.

A `DatasetConfig` describes a data set. Its work is cut into shards of a fixed size, computed by a
worker pool. Consecutive shards form a part, which is stored as a file in a hidden folder beside the
result. A continued generation computes only the missing parts. Each shard has its own random
generator, so the result depends neither on the number of workers nor on interruptions.
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from overtrick.config.overrides import field_overrides
from overtrick.config.sections import Section, validated
from overtrick.core import Array, UserError, concat_columns
from overtrick.distributed.workers import Shard, Work, WorkerPool, generator
from overtrick.storage import bucket_copy, parquet

Progress = Callable[[str, int, int], None]
"""Callback (stage, shards done, shards in all), called before the first shard and after each."""
Columns = dict[str, Array]


class DatasetConfig(Section, ABC):
    """Settings of a data set that `overtrick generate` makes."""

    subject: ClassVar[str]  # the data set's name in error messages

    @classmethod
    def parse(cls, overrides: Sequence[str] = ()) -> Self:
        """Build the configuration from `key=value` overrides. Raises UserError."""
        return validated(cls, field_overrides(cls, overrides, cls.subject))

    @abstractmethod
    def default_path(self) -> Path:
        """Return the file or folder that the data set is written to if the user names none."""

    @abstractmethod
    def build(self, out: Path, pool: WorkerPool, progress: Progress) -> dict[str, Any]:
        """Generate the data set at `out`, unless it is complete there with the same settings.

        Returns a dictionary. Its key `rows` is the number of rows; some data sets add keys.
        Does not delete the intermediate files in `parts_folder(out)`. Raises UserError if another
        data set or foreign files are at `out`, or if `out` cannot be written.
        """


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore the progress; the default of `generate`."""


def generate(
    config: DatasetConfig, out: str | Path, pool: WorkerPool, progress: Progress = ignore_progress
) -> dict[str, Any]:
    """Generate a data set, or complete an interrupted generation.

    `out`: path or URL of the file or folder of the data set. Once the data set is complete, the
    folder of partial files is deleted; it is on this machine, also if `out` is a URL. Returns a
    dictionary with the keys `path`, `rows` (number of rows) and `seconds` (duration); some data
    sets add keys. Raises UserError for a URL of another kind, and as `DatasetConfig.build` does.
    """
    began = time.monotonic()
    with bucket_copy.output(str(out), "--out") as path:
        result = config.build(path, pool, progress)
    shutil.rmtree(parts_folder(path), ignore_errors=True)
    return {"path": str(out), **result, "seconds": time.monotonic() - began}


def parts_folder(out: Path) -> Path:
    """Return the hidden folder beside `out` that holds the parts of an unfinished data set."""
    return out.with_name(f".{out.name}.parts")


def create_parts_folder(out: Path) -> Path:
    """Create `parts_folder(out)` if it is missing; return it. Raises UserError if that fails."""
    parts = parts_folder(out)
    try:
        parts.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out.parent}: {error.strerror}") from None
    return parts


def load_existing(
    out: Path, kind: parquet.Kind, made_with: Mapping[str, Any]
) -> parquet.StoredTable | None:
    """Load a finished data set from the file `out`; return None if there is no file.

    `kind`, `made_with`: the required kind of file, and the parameters that it must have been
    generated with. Raises UserError if `out` is a folder, or a file with another kind or other
    parameters.
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
    """Run one stage of a data set's generation in shards, and yield the results part by part.

    A part is a group of `per_part` consecutive shards, stored as one file beside the data set. A
    part that is already stored with the same `made_with` is not computed again.

    - `out`: the file or folder of the data set.
    - `kind`: the kind and version of data, stored in the file of each part.
    - `made_with`: the parameters that the results of this stage depend on.
    - `stage`: the name of the stage, for file names and progress.
    - `work(rng, common, *shard)`: computes one shard and returns columns by name. It must seed its
      own generator from the numbers in `shard`. It must not use `rng`, because a resumed generation
      passes another generator for the same shard.
    - `join`: combines the columns of the shards of a part.

    The files of the parts stay until `generate` deletes their folder. Raises UserError if that
    folder cannot be created.
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
    """Return True if a file holds a complete part that was generated with these parameters."""
    try:
        parquet.load(file, kind, made_with)
    except UserError:
        return False
    return True
