"""Work in parts: each is kept beside the result as soon as it is done, and never done twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from overtrick.core import Array, UserError, concat_columns
from overtrick.distributed.workers import Shard, Work, WorkerPool, generator
from overtrick.storage import parquet

Progress = Callable[[str, int, int], None]
"""(stage, parts done, parts in all), called before the first part and after each."""


def parts_folder(out: Path) -> Path:
    """The folder of the parts of unfinished work."""
    return out.with_name(f".{out.name}.parts")


def load_existing(
    out: Path, kind: parquet.Kind, made_with: Mapping[str, Any]
) -> parquet.StoredTable | None:
    """What a file holds that was made with these parameters; None if there is no file. Raises
    UserError if anything else lies there."""
    if out.is_dir():
        raise UserError(f"{out} is a folder: name a file in it")
    if not out.exists():
        return None
    try:
        return parquet.load(out, kind, made_with)
    except UserError as error:
        said = str(error).removesuffix(f": {kind.remedy}")
        raise UserError(f"{said}: remove it, or name another file with --out") from None


def create_parts_folder(out: Path) -> Path:
    """The folder of the parts, made if it is not there. Raises UserError."""
    parts = parts_folder(out)
    try:
        parts.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {out.parent}: {error.strerror}") from None
    return parts


def run_shards(
    out: Path, kind: parquet.Kind, made_with: Mapping[str, Any], stage: str, work: Work,
    common: Any, shards: Sequence[Shard], together: int, crew: WorkerPool, progress: Progress,
) -> dict[str, Array]:  # fmt: skip
    """The columns of all shards' results, joined in order. So many shards together are a part, a
    file on disk; parts that are there are not done again.

    work(rng, common, *shard) gives columns (R, ...) by name. It should draw by a generator of the
    shard's own, for which shards are left to do depends on stops. The parts stay until the caller
    has kept the whole and takes their folder away. Raises UserError.
    """
    folder, made_with = create_parts_folder(out), {**made_with, "together": together}
    parts = [range(len(shards))[k : k + together] for k in range(0, len(shards), together)]
    files = [folder / f"{k}.parquet" for k in range(len(parts))]
    missing = [k for k, file in enumerate(files) if not is_valid_part(file, kind, made_with)]
    left = [shard for k in missing for shard in parts[k]]
    finished = len(shards) - len(left)
    results: dict[int, dict[str, Array]] = {}

    def keep(place: int, columns: dict[str, Array]) -> None:
        nonlocal finished
        results[left[place]] = columns
        part = left[place] // together
        if all(shard in results for shard in parts[part]):
            whole = concat_columns([results.pop(shard) for shard in parts[part]])
            parquet.save(files[part], kind, made_with, whole)
        finished += 1
        progress(stage, finished, len(shards))

    progress(stage, finished, len(shards))
    crew.map(work, common, [shards[k] for k in left], generator(0), keep)
    return concat_columns([parquet.load(file, kind, made_with).columns for file in files])


def is_valid_part(file: Path, kind: parquet.Kind, made_with: Mapping[str, Any]) -> bool:
    """Is a part whole, and of this work? If not it is done again."""
    try:
        parquet.load(file, kind, made_with)
    except UserError:
        return False
    return True
