"""Files and metric names that all comparison tables share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from overtrick.comparison.comparison_job import Rows
from overtrick.config import job_file
from overtrick.config.job_file import JobT
from overtrick.core.files import read_text, write_text
from overtrick.distributed.workers import RngStream, generator, open_pool
from overtrick.reports import tables
from overtrick.reports.html import elements
from overtrick.reports.html.elements import PageSection
from overtrick.reports.progress import OnProgress
from overtrick.runs import folder_kind, html_page
from overtrick.runs.child_runs import RunGroup
from overtrick.storage import bucket_copy
from overtrick.storage.run_folder import RunFolder

FILES = ("table.md", "table.html", "table.csv", "table.json")


def read_stored_job(folder: RunFolder, trainer: str, job: type[JobT]) -> JobT:
    """Read the job of a comparison table from its folder.

    `trainer`, `job`: the kind of table, and the class of its jobs. Raises UserError for any other
    folder.
    """
    folder_kind.check_kind(folder, "table")
    return job_file.load_stored(folder, {trainer: job})


def save_tables(
    folder: RunFolder,
    titled_tables: Sequence[tuple[Rows, str]],
    notes: Sequence[str],
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    results: Any,
    sections: Sequence[PageSection] = (),
) -> None:
    """Write the results of a comparison as Markdown, HTML, CSV and JSON.

    Markdown and HTML have the tables with their titles, and the notes; HTML also has further
    `sections`. CSV has `columns` and `rows`; JSON has `results`.
    """
    texts = []
    for shown, title in titled_tables:
        texts += [*([f"{title}:"] if title else []), tables.markdown_of_rows(shown)]
    markdown = "\n\n".join([*texts, "\n".join(f"- {note}" for note in notes)]) + "\n"
    html = elements.page(
        folder.name,
        "comparison of methods",
        [
            *(
                PageSection(title or "Results", [elements.table(list(shown[0]), _texts(shown))])
                for shown, title in titled_tables
            ),
            PageSection("Notes", [elements.paragraph(note) for note in notes]),
            *sections,
            PageSection("Job", [elements.folded("every key", read_text(folder.job))]),
        ],
    )
    contents = markdown, html, tables.csv_text(columns, rows), json.dumps(results, indent=1) + "\n"
    for name, content in zip(FILES, contents, strict=True):
        write_text(folder.path / name, content)


def _texts(rows: Rows) -> list[list[str]]:
    return [list(map(str, row.values())) for row in rows]


def report(group: RunGroup, metrics: Mapping[str, float]) -> None:
    """Send the final metrics and the files of a table to MLflow, and update its description."""
    group.tracker.metrics(group.tracker.reported + 1, dict(metrics))
    for name in FILES:
        group.tracker.artifact(group.folder.path / name)
    html_page.update_description(group.folder, group.tracker)


def cell_metric(row: str, column: str) -> str:
    """Return the MLflow metric of a cell, in the characters that MLflow accepts."""
    return f"{row}/{column}".replace("+", "_plus_")


def compute_missing(
    function: Callable[..., Any],
    common: Any,
    files: Sequence[Path],
    shard_of: Callable[[int], tuple[Any, ...]],
    workers: int,
    done: int,
    progress: OnProgress,
) -> None:
    """Compute results whose files are missing, and write each file as soon as it is known.

    - `function`, `common`: as in `WorkerPool.map`; results are plain data. The function must not
      use its generator, which depends on the files that are missing.
    - `files`: of all results.
    - `shard_of`: returns the arguments of `function` for the result with a given number.
    - `workers`: Ray workers; 0: this process.
    - `done`: pieces of work that were finished before, besides the files. `progress`: called with
      the number of all finished pieces.
    """
    left = [number for number, file in enumerate(files) if not file.exists()]
    done += len(files) - len(left)

    def save(shard: int, found: Any) -> None:
        nonlocal done
        write_text(files[left[shard]], json.dumps(found) + "\n")
        bucket_copy.push(files[left[shard]])
        done += 1
        progress(done)

    with open_pool(workers if left else 0) as pool:
        shards = [shard_of(number) for number in left]
        pool.map(function, common, shards, generator(0, RngStream.EVALUATE), save)
