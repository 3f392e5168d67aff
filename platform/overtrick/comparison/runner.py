"""A table is worked on: trained, judged cell by cell, kept; stopped, it goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.random import Generator

from overtrick.comparison import statistics
from overtrick.comparison.schedule import ComparisonSchedule, Entry, in_training, planned
from overtrick.comparison.table_job import EXACT, TABLES, ModelOf, Table
from overtrick.config import job_file
from overtrick.core import RunError
from overtrick.core.files import write_text
from overtrick.distributed.workers import RngStream, generator, start_pool, start_ray
from overtrick.evaluation.evaluate import (
    AdaptationEvaluation,
    HeldOutEvaluation,
    Row,
    evaluate,
    flat_metrics,
    without_adaptation,
)
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.games import registry
from overtrick.policies.uniform import UniformPolicy
from overtrick.reports import learning_curves
from overtrick.runs import group, html_page, lifecycle
from overtrick.solvers.extensive import best_response
from overtrick.storage import model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.training.registry import TRAINERS

CELLS = "cells"  # the folder of what was judged, a file each


@dataclass(frozen=True)
class FinishedComparison:
    """A table whose cells have all been judged, but for methods that failed."""

    folder: RunFolder
    outcome: statistics.Outcome
    failed: list[str]  # why, a line each
    seconds: float
    undelivered: int  # events that wait for MLflow in the folders


def read_job(folder: RunFolder) -> Table:
    """The job of a table's folder. Raises Refused if it holds none, or a damaged one."""
    lifecycle.check_kind(folder, "table")
    return job_file.load_stored(folder, TABLES)


def run(folder: RunFolder, progress: Callable[[int], None]) -> FinishedComparison:
    """Train what is left to train and judge what is left to judge of a table.

    progress is told how much is done of what `plan.check` counts. Raises Refused if the folder
    holds no table or another process is at it; RunError if a stranger cannot be trained.
    """
    table = read_job(folder)
    plan = planned(table, folder)
    began = time.perf_counter()
    brief = table.model_copy(update={"methods": {}, "paper": {}})  # the trials tell of theirs
    with group.open_group(folder, brief, plan.jobs) as whole:
        if plan.jobs:
            _train(table, plan, whole, progress)
        rows = _judge(table, plan, whole, progress)
        for entry in plan.trials:
            won = [rows.get((entry.method, entry.seed, k)) for k in entry.columns]
            _keep_trial(whole.children[entry.trial], won)
        found = statistics.of(table, rows).noting(_closeness(table, plan))
        statistics.save(found, folder.path)
        if table.evaluate.every is not None:
            _draw(plan, whole, found.unit)
        _tell(whole, found)
    seconds = time.perf_counter() - began
    return FinishedComparison(folder, found, whole.failed, seconds, whole.undelivered)


def _train(
    table: Table, plan: ComparisonSchedule, whole: group.RunGroup, progress: Callable[[int], None]
) -> None:
    """Train every trial; those that meet the model of another come after it."""
    jobs = [in_training(table, job) for job in plan.jobs]
    start_ray([{"CPU": max(table.workers, *(float(job.resources.cpus) for job in jobs))}])
    whole.train(jobs[: plan.early], progress, _keep_model)
    for column, who in zip(table.opponents, plan.strangers, strict=True):
        if (
            isinstance(table.opponents[column], ModelOf)
            and not (Path(who) / model_files.CARD).exists()
        ):
            raise RunError(f"no model for opponents.{column}: {'; '.join(whole.failed)}")
    if plan.early < len(jobs):
        whole.train(jobs, progress, _keep_model)


def _keep_model(part: group.ChildRun) -> None:
    if not (part.folder.model / model_files.CARD).exists():
        lifecycle.save_model(part.job, part.folder, part.checkpoints.state(), part.tracker)


def _judge(
    table: Table, plan: ComparisonSchedule, whole: group.RunGroup, progress: Callable[[int], None]
) -> dict[tuple[str, int, int], Row]:
    """By method, seed and column: what was judged, unless the method could not be trained.

    Each is written as it comes.
    """
    place = whole.folder.path / CELLS
    place.mkdir(exist_ok=True)
    cells = [
        (entry, column, place / f"{number:04d}.json")
        for number, (entry, column) in enumerate(plan.cells)
        if entry.job is None or not whole.errors[entry.trial]
    ]
    left = [cell for cell in cells if not cell[2].exists()]
    done = whole.done + len(cells) - len(left)

    def told(shard: int, row: Row) -> None:
        nonlocal done
        write_text(left[shard][2], json.dumps(row) + "\n")
        done += 1
        progress(done)

    common = (table.game, AdaptationEvaluation(**table.evaluate.model_dump(exclude={"every"})))
    shards = []
    for entry, column, _ in left:
        knows = _knowledge(table, entry, whole) if entry.job is not None else None
        shards.append((entry, knows, plan.strangers[column], column))
    if table.workers and left:
        start_ray([{"CPU": 1.0}] * table.workers)
    crew = start_pool(table.workers if left else 0)
    try:
        crew.map(_row, common, shards, generator(0, RngStream.JUDGE), told)
    finally:
        crew.close()
    names = list(table.opponents)
    return {
        (entry.method, entry.seed, column): json.loads(file.read_text())
        | {"stranger": names[column]}
        for entry, column, file in cells
    }


def _knowledge(table: Table, entry: Entry, whole: group.RunGroup) -> Any:
    """A trained method's weights; its policy, if its trainer knows of no strangers."""
    folder = whole.children[entry.trial].folder.model
    if entry.job is not None and isinstance(entry.job.evaluation, HeldOutEvaluation):
        return model_files.load(folder).weights
    return model_files.policy(folder, two_seat_game(table.game)[0])


def _row(_: Generator, common: Any, entry: Entry, knows: Any, who: str, column: int) -> Row:
    """One player against one stranger, with the luck that it has among all of them."""
    choice, how = common
    luck, crew = generator(entry.seed, RngStream.JUDGE), start_pool(0)
    luck.spawn(column)  # those of the strangers before it
    if entry.job is not None and isinstance(entry.job.evaluation, HeldOutEvaluation):
        alone = entry.job.evaluation.model_copy(update={"opponents": (who,)})
        job = entry.job.model_copy(update={"evaluate": alone})
        return TRAINERS[job.trainer].evaluate_model(job, knows, crew, luck)[0]
    policy: Any = knows
    if entry.policy is not None:  # of the exact oracle nobody asks how it plays
        policy = UniformPolicy() if entry.policy == EXACT else cached_opponent(choice, entry.policy)
    how = how.model_copy(update={"opponents": (who,)})
    (row,) = evaluate(choice, without_adaptation, policy, how, crew, luck)
    if entry.policy == EXACT:
        return row | {"steps": [row["best_response"]], "share": 1.0}
    return row


def _keep_trial(part: group.ChildRun, rows: list[Row | None]) -> None:
    """A trial's own table, once it has been judged against everyone."""
    there = [row for row in rows if row is not None]
    if len(there) < len(rows) or part.folder.table.exists():
        return
    unit = registry.evaluation_game(two_seat_game(part.job.game)[0]).unit
    part.tracker.metrics(part.job.stop.iterations + 1, flat_metrics(there, unit))
    lifecycle.save_table(part.folder, there, part.tracker)


def _closeness(table: Table, plan: ComparisonSchedule) -> list[str]:
    """How far the strangers that were trained for the table are from an equilibrium."""
    game, tree = two_seat_game(table.game)
    notes = []
    for (column, who), name in zip(table.opponents.items(), plan.strangers, strict=True):
        if isinstance(who, ModelOf):
            note = f"{column} is the model of {who.method}, seed {table.seeds[0]}"
            if tree is not None:
                sigma = best_response.sigma_of(tree, [cached_opponent(table.game, name)] * 2)
                gap = best_response.exploitability(tree, sigma)
                note += f", whose exploitability is {gap:.3g} {game.unit}s"
            notes.append(note)
    return notes


def _draw(plan: ComparisonSchedule, whole: group.RunGroup, unit: str) -> None:
    """The learning curves of the methods, if they were looked at while they learnt."""
    histories: dict[str, list[learning_curves.History]] = {}
    for entry in plan.trials:
        part = whole.children[entry.trial]
        last = part.job.stop.iterations  # what comes later is of the finished model
        told = [(i, metrics) for i, metrics in part.tracker.history() if i <= last]
        if isinstance(part.job.evaluation, HeldOutEvaluation):
            histories.setdefault(entry.method, []).append(told)
    if learning_curves.curves_of(histories, unit):
        drawn = {"bands": learning_curves.learning(histories, unit)}
        lifecycle.save_figures(drawn, whole.folder, whole.tracker)


def _tell(whole: group.RunGroup, found: statistics.Outcome) -> None:
    """MLflow gets the means, and the table in every form."""
    unit = found.unit.replace(" ", "_")
    means = {
        f"{row['method'].replace('+', '_plus_')}/{row['stranger'].replace('+', '_plus_')}_{unit}":
        row["mean"] for row in found.rows if row["mean"] is not None
    }  # fmt: skip
    whole.tracker.metrics(whole.tracker.reported + 1, means)
    for name in statistics.FILES:
        whole.tracker.artifact(whole.folder.path / name)
    html_page.update_description(whole.folder, whole.tracker)
