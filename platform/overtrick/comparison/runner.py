"""Run a comparison: train and evaluate its methods. Resume an interrupted comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.random import Generator

from overtrick.comparison import statistics, table_files
from overtrick.comparison.comparison_job import (
    EXACT,
    ComparisonJob,
    FinishedTable,
    ModelOf,
    Rows,
)
from overtrick.comparison.schedule import ComparisonSchedule, Entry, in_training, plan_comparison
from overtrick.core import RunError, UserError
from overtrick.core.json_files import read_json
from overtrick.distributed.workers import RngStream, generator, start_pool, start_ray
from overtrick.evaluation import evaluate
from overtrick.evaluation.evaluate import HeldOutEvaluation, Row
from overtrick.evaluation.game_cache import cached_opponent, two_seat_game
from overtrick.games import registry
from overtrick.policies.uniform import UniformPolicy
from overtrick.reports import learning_curves
from overtrick.reports.metric_names import History
from overtrick.reports.progress import OnProgress
from overtrick.runs import lifecycle
from overtrick.runs.child_runs import ChildRun, RunGroup, open_group
from overtrick.solvers.extensive import best_response
from overtrick.storage import bucket_copy, locate, model_files
from overtrick.storage.run_folder import RunFolder
from overtrick.storage.stored_results import ROW
from overtrick.training.registry import TRAINERS

CELLS = "cells"  # the folder of the evaluated cells, one file each


@dataclass(frozen=True)
class FinishedComparison(FinishedTable):
    """A comparison whose methods are evaluated with every seed against every opponent.

    Evaluations of methods whose training failed are missing.
    """

    outcome: statistics.Outcome

    def legend(self) -> list[str]:
        """Return lines that explain the numbers."""
        return self.outcome.notes

    def titled_tables(self) -> list[tuple[Rows, str]]:
        """Return the table of all methods, and that of our methods beside the baselines, if any."""
        return statistics.titled_tables(self.outcome)

    def json_results(self) -> dict[str, Any]:
        """Return the game, the unit, all rows, and the comparison with the baselines."""
        names = "game", "unit", "rows", "against_baselines"
        return {name: getattr(self.outcome, name) for name in names}


def read_job(folder: RunFolder) -> ComparisonJob:
    """Read the job of a comparison from its folder. Raises UserError for any other folder."""
    return table_files.read_stored_job(folder, "table", ComparisonJob)


def run(folder: RunFolder, progress: OnProgress) -> FinishedComparison:
    """Run the unfinished trainings and evaluations of a comparison and store its results.

    `progress`: called with the number of finished training iterations plus finished evaluations.
    Raises UserError if the folder is not that of a comparison, or if another process works on it.
    Raises RunError if a model that serves as opponent could not be trained.
    """
    table = read_job(folder)
    plan = plan_comparison(table, folder)
    began = time.perf_counter()
    brief = table.model_copy(update={"methods": {}, "paper": {}})  # trials report their own jobs
    with open_group(folder, brief, plan.jobs) as group:
        if plan.jobs:
            _train(table, plan, group, progress)
        cells = _evaluate(table, plan, group, progress)
        for entry in plan.trials:
            rows = [cells.get((entry.method, entry.seed, k)) for k in entry.columns]
            _save_trial(group.children[entry.trial], rows)
        notes = [*_opponent_notes(table, plan), *(f"failed: {line}" for line in group.failed)]
        found = statistics.summarise(table, cells, notes)
        statistics.save(found, folder)
        if table.evaluate.every is not None:
            _save_figures(plan, group, found.unit)
        _report(group, found)
    seconds = time.perf_counter() - began
    return FinishedComparison(folder, group.failed, seconds, group.undelivered, found)


def _train(
    table: ComparisonJob, plan: ComparisonSchedule, group: RunGroup, progress: OnProgress
) -> None:
    """Train all trials of a comparison, first those without trained opponents.

    A trial whose opponent is the model of another trial starts after that trial.
    """
    jobs = [in_training(table, job) for job in plan.jobs]
    start_ray([{"CPU": max(table.workers, *(float(job.resources.cpus) for job in jobs))}])
    group.train(jobs[: plan.early], progress, _save_model)
    for column, who in zip(table.opponents, plan.opponents, strict=True):
        trained = isinstance(table.opponents[column], ModelOf)
        if trained and not _is_stored(who):
            raise RunError(f"no model for opponents.{column}: {'; '.join(group.failed)}")
    if plan.early < len(jobs):
        group.train(jobs, progress, _save_model, first=plan.early)


def _save_model(child: ChildRun) -> None:
    """Store the last and the best model of a finished child run in its folder and in MLflow.

    Also uploads the folder if the run is in a bucket. Does nothing if the model is stored already.
    """
    if not model_files.is_model(child.folder.model):
        lifecycle.save_models(child.job, child.folder, child.checkpoints, child.tracker)
        bucket_copy.push(child.folder.path)


def _is_stored(model: str) -> bool:
    """Return whether there is a model at a path or URL."""
    with suppress(UserError):  # nothing is stored at the URL
        return model_files.is_model(locate.model_folder(model))
    return False


def _evaluate(
    table: ComparisonJob, plan: ComparisonSchedule, group: RunGroup, progress: OnProgress
) -> dict[tuple[str, int, int], Row]:
    """Evaluate each method with each seed against each opponent, unless the result is stored.

    Returns the results, old and new, by (method, seed, column), where a column is the index of an
    opponent. Each result is stored as soon as it is computed. Results of a method whose training
    failed are missing.
    """
    place = group.folder.path / CELLS
    place.mkdir(exist_ok=True)
    cells = [
        (entry, column, place / f"{number:04d}.json")
        for number, (entry, column) in enumerate(plan.cells)
        if entry.job is None or not group.errors[entry.trial]
    ]
    budget = table.evaluate.model_dump(exclude={"every"})
    common = (table.game, evaluate.AdaptationEvaluation(**budget))

    def shard_of(number: int) -> tuple[Any, ...]:
        entry, column, _ = cells[number]
        player = _load_player(table, entry, group) if entry.job is not None else None
        return entry, player, plan.opponents[column], column

    files = [file for _, _, file in cells]
    table_files.compute_missing(_row, common, files, shard_of, table.workers, group.done, progress)
    names = list(table.opponents)
    remedy = f"delete it, and `overtrick resume {group.folder.name}` evaluates again"
    rows = read_cells([((entry.method, column), file) for entry, column, file in cells], remedy)
    return {
        (entry.method, entry.seed, column): row | {"stranger": names[column]}
        for (entry, column, _), row in zip(cells, rows, strict=True)
    }


def read_cells(cells: Sequence[tuple[tuple[str, int], Path]], remedy: str) -> list[Row]:
    """Read stored evaluations, given as pairs of (method, column) and file.

    `remedy`: the end of the error message. Raises UserError if a file is damaged, or has another
    number of steps than the first file of its method and column.
    """
    rows, counts = list[Row](), dict[tuple[str, int], int]()
    for place, file in cells:
        row = read_json(file, ROW, remedy)
        count, first = len(row["steps"]), counts.setdefault(place, len(row["steps"]))
        if count != first:
            raise UserError(f"{file} is damaged ({count} steps, not {first}): {remedy}")
        rows.append(row)
    return rows


def _load_player(table: ComparisonJob, entry: Entry, group: RunGroup) -> Any:
    """Load the trained model of a method, as weights or as a policy.

    Returns the weights if the method's trainer evaluates its models against held-out opponents,
    because this evaluation may adapt the weights. Otherwise, returns a policy.
    """
    folder = group.children[entry.trial].folder.model
    if entry.job is not None and isinstance(entry.job.evaluation, HeldOutEvaluation):
        return model_files.load(folder).weights
    return model_files.policy(folder, two_seat_game(table.game)[0])


def _row(_: Generator, common: Any, entry: Entry, player: Any, who: str, column: int) -> Row:
    """Evaluate a method with one seed against one opponent; return a row of the results.

    - `common`: the tuple (game, evaluation budget).
    - `entry`: the method with its seed.
    - `player`: for a trained method, the result of `_load_player`.
    - `who`, `column`: the opponent, and its index among the opponents of the comparison.

    The random stream depends only on the method's seed and on `column`. So a method can be
    evaluated against each opponent in a separate call with the same random numbers.
    """
    game, budget = common
    rng, pool = generator(entry.seed, RngStream.EVALUATE), start_pool(0)
    rng.spawn(column)  # the generators of the opponents before this one
    if entry.job is not None and isinstance(entry.job.evaluation, HeldOutEvaluation):
        section = entry.job.evaluation.model_copy(update={"opponents": (who,)})
        job = entry.job.model_copy(update={"evaluate": section})
        return TRAINERS[job.trainer].evaluate_model(job, player, pool, rng)[0]
    policy: Any = player
    if entry.policy is not None:  # the exact oracle needs only the opponent's best response
        policy = UniformPolicy() if entry.policy == EXACT else cached_opponent(game, entry.policy)
    budget = budget.model_copy(update={"opponents": (who,)})
    (row,) = evaluate.evaluate(game, evaluate.without_adaptation, policy, budget, pool, rng)
    if entry.policy == EXACT:
        return row | {"steps": [row["best_response"]], "share": 1.0}
    return row


def _save_trial(child: ChildRun, rows: list[Row | None]) -> None:
    """Store the results table of a child run if all its evaluations are done.

    `rows`: the evaluation against each opponent; None for a missing one.
    """
    done = [row for row in rows if row is not None]
    if len(done) < len(rows) or child.folder.table.exists():
        return
    unit = registry.evaluation_game(two_seat_game(child.job.game)[0]).unit
    child.tracker.metrics(child.job.stop.iterations + 1, evaluate.flat_metrics(done, unit))
    lifecycle.save_table(child.folder, done, child.tracker)


def _opponent_notes(table: ComparisonJob, plan: ComparisonSchedule) -> list[str]:
    """Return a note on each opponent that the comparison trained: its method and exploitability."""
    game, tree = two_seat_game(table.game)
    notes = []
    for (column, who), name in zip(table.opponents.items(), plan.opponents, strict=True):
        if isinstance(who, ModelOf):
            note = f"{column} is the model of {who.method}, seed {table.seeds[0]}"
            if tree is not None:
                sigma = best_response.sigma_of(tree, [cached_opponent(table.game, name)] * 2)
                gap = best_response.exploitability(tree, sigma)
                note += f", whose exploitability is {gap:.3g} {game.unit}s"
            notes.append(note)
    return notes


def _save_figures(plan: ComparisonSchedule, group: RunGroup, unit: str) -> None:
    """Draw and store the learning curves of the methods that were evaluated during training.

    `unit`: of the payoffs.
    """
    histories: dict[str, list[History]] = {}
    for entry in plan.trials:
        child = group.children[entry.trial]
        last = child.job.stop.iterations  # later metrics are those of the final evaluation
        history = [(i, metrics) for i, metrics in child.folder.history() if i <= last]
        if isinstance(child.job.evaluation, HeldOutEvaluation):
            histories.setdefault(entry.method, []).append(history)
    if learning_curves.payoff_curves(histories, unit):
        drawn = {"bands": learning_curves.payoff_by_iteration(histories, unit)}
        lifecycle.save_figures(drawn, group.folder, group.tracker)


def _report(group: RunGroup, found: statistics.Outcome) -> None:
    """Send the mean payoffs and the result files of a comparison to MLflow."""
    unit = found.unit.replace(" ", "_")
    means = {
        table_files.cell_metric(row["method"], f"{row['stranger']}_{unit}"): row["mean"]
        for row in found.rows
        if row["mean"] is not None
    }
    table_files.report(group, means)
