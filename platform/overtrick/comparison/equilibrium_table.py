"""Train the methods of an equilibrium table and compare their exploitability.

An interrupted table continues from the checkpoints of its child runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from overtrick.comparison import table_files
from overtrick.comparison.comparison_job import FinishedTable, Rows
from overtrick.comparison.equilibrium_job import EquilibriumTableJob, training_jobs
from overtrick.core import RunError
from overtrick.evaluation.standard_error import standard_error
from overtrick.games import registry
from overtrick.reports import learning_curves
from overtrick.reports.metric_names import DECISIONS, History
from overtrick.reports.progress import OnProgress
from overtrick.runs import lifecycle
from overtrick.runs.child_runs import ChildRun, RunGroup, open_group, save_results
from overtrick.storage.run_folder import RunFolder
from overtrick.training import scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[float, float]
"""Number of decisions before an evaluation, and the exploitability that it found."""


@dataclass(frozen=True)
class FinishedEquilibriumTable(FinishedTable):
    """An equilibrium table whose child runs have all ended.

    `rows`: for each game and method the exploitability at the last evaluation within the budget
    (mean, standard error and by seed), the number of decisions at that evaluation, and the curve of
    every seed. A method whose child runs failed has no mean.
    """

    rows: Rows
    notes: list[str]

    def legend(self) -> list[str]:
        """Return lines that explain the numbers."""
        return self.notes

    def titled_tables(self) -> list[tuple[Rows, str]]:
        """Return the table of all methods and games, without a title."""
        return [(wide(self.rows), "")]

    def json_results(self) -> dict[str, Any]:
        """Return the rows."""
        return {"rows": self.rows}


def run(folder: RunFolder, progress: OnProgress) -> FinishedEquilibriumTable:
    """Run the unfinished child runs of an equilibrium table and store its results.

    `progress`: called with the number of finished training iterations. Raises UserError if the
    folder is not that of an equilibrium table, or if another process works on it.
    """
    began = time.perf_counter()
    table = table_files.read_stored_job(folder, "equilibrium_table", EquilibriumTableJob)
    jobs = [
        lifecycle.read_job(child) if (child := folder.child(number)).job.exists() else job
        for number, job in enumerate(training_jobs(table))
    ]
    brief = table.model_copy(update={"methods": {}})  # child runs report their own jobs
    with open_group(folder, brief, jobs) as group:
        group.train(jobs, progress, save_results)
        rows = _rows(table, group)
        notes = [*_notes(table), *(f"failed: {line}" for line in group.failed)]
        _save(table, rows, notes, group)
        cells = {table_files.cell_metric(r["method"], r["game"]): r["mean"] for r in rows}
        means = {name: mean for name, mean in cells.items() if mean is not None}
        table_files.report(group, means)
    seconds = time.perf_counter() - began
    return FinishedEquilibriumTable(folder, group.failed, seconds, group.undelivered, rows, notes)


def exploitability_curve(history: History, iterations: int, name: str) -> list[Point]:
    """Return the number of decisions and the exploitability at each evaluation of a child run.

    `history`: metrics of the run by iteration. `iterations`: of the run; later metrics are those of
    the final evaluation. `name`: of the run. Raises RunError if an iteration lacks the number of
    decisions, or if exploitability was never measured.
    """
    points, decisions = [], 0.0
    for iteration, metrics in history:
        if iteration > iterations:
            break
        if DECISIONS not in metrics:
            raise RunError(f"no metric '{DECISIONS}' in iteration {iteration} of {name}")
        decisions += metrics[DECISIONS]
        score = scores.negative_exploitability(metrics)
        if score is not None:
            points.append((decisions, -score))
    if not points:
        raise RunError(f"{name} has measured no exploitability")
    return points


def last_point_within(curve: Sequence[Point], budget: int) -> Point:
    """Return the last point of a curve within a budget of decisions, or else the first point."""
    return next((point for point in reversed(curve) if point[0] <= budget), curve[0])


def _rows(table: EquilibriumTableJob, group: RunGroup) -> Rows:
    """Return a row for each game and method; see FinishedEquilibriumTable."""
    children = iter(group.children)
    trained: dict[tuple[str, str], dict[int, ChildRun]] = {}
    for game, column in table.games.items():
        for seed in column.seeds:
            for method in table.methods:
                trained.setdefault((game, method), {})[seed] = next(children)
    rows = []
    for game, column in table.games.items():
        for method in table.methods:
            curves = {
                seed: exploitability_curve(
                    child.folder.history(), child.job.stop.iterations, child.folder.name
                )
                for seed, child in trained[game, method].items()
                if not group.errors[child.number]
            }
            points = [last_point_within(curve, column.decision_budget) for curve in curves.values()]
            used, gaps = np.array(points).reshape(-1, 2).T
            rows.append(
                {
                    "game": game,
                    "method": method,
                    "mean": float(gaps.mean()) if len(gaps) else None,
                    "standard_error": standard_error(gaps.tolist()),
                    "decisions": float(used.mean()) if len(used) else None,
                    "failed": len(column.seeds) - len(gaps),
                    "exploitability": dict(zip(curves, gaps.tolist(), strict=True)),
                    "curves": curves,
                }
            )
    return rows


def wide(rows: Rows) -> Rows:
    """Return the results as a table of texts: a row for each method, a column for each game."""
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        lines.setdefault(row["method"], {"": row["method"]})[row["game"]] = _cell(row)
    return list(lines.values())


def _cell(row: dict[str, Any]) -> str:
    """Return a result as text: mean, standard error, millions of decisions, failed child runs."""
    if row["mean"] is None:
        return "failed"
    error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.3f}"
    failed = f", {row['failed']} failed" if row["failed"] else ""
    return f"{row['mean']:.3f}{error} ({row['decisions'] / 1e6:.3g} M{failed})"


def _notes(table: EquilibriumTableJob) -> list[str]:
    notes = []
    for name, column in table.games.items():
        unit = registry.payoff_unit(column.game.name, column.game.options)
        seeds = ", ".join(map(str, column.seeds))
        several = len(column.seeds) > 1
        over = f"mean and standard error over seeds {seeds}" if several else f"seed {seeds}"
        notes.append(
            f"{name}: exact exploitability in {unit}s a game at the last evaluation within "
            f"{column.decision_budget:,} decisions of all seats, or else at the first, {over}; in "
            "brackets: decisions until then, in millions"
        )
    return notes


def _save(table: EquilibriumTableJob, rows: Rows, notes: list[str], group: RunGroup) -> None:
    """Write the results to files and draw the curves; send both to MLflow."""
    points = [
        (row["game"], row["method"], seed, *point)
        for row in rows for seed, curve in row["curves"].items() for point in curve
    ]  # fmt: skip
    names = ["game", "method", "seed", "decisions", "exploitability"]
    content = {"rows": rows, "notes": notes}
    table_files.save_tables(group.folder, [(wide(rows), "")], notes, names, points, content)
    lifecycle.save_figures({"exploitability": _figure(table, rows)}, group.folder, group.tracker)


def _figure(table: EquilibriumTableJob, rows: Rows) -> Figure:
    """Draw exploitability by decisions: a chart for each game, a line for each method."""
    drawn: learning_curves.Curves = {game: {} for game in table.games}
    for row in rows:
        if row["curves"]:
            # all seeds are evaluated at the same iterations, after different numbers of decisions
            points = np.array(list(zip(*row["curves"].values(), strict=False)))
            band = learning_curves.confidence_band(points[:, :, 1].T)
            drawn[row["game"]][row["method"]] = (points[:, :, 0].mean(axis=1), *band)
    return learning_curves.draw_curves(drawn, "decisions", "exploitability", yscale="log")
