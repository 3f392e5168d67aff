"""Results of a comparison table: means over seeds, shares of the oracle, and significance."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_ind_from_stats

from overtrick.comparison.comparison_job import EXACT, ComparisonJob
from overtrick.core.files import write_text
from overtrick.evaluation.evaluate import Row
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.games import registry

FILES = ("table.md", "table.csv", "table.json")
MIN_ORACLE = 0.01  # payoff of the oracle, in points, below which shares are left out
SIGNIFICANCE = 0.05  # level of the t test
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """The results of a comparison table."""

    game: str
    unit: str
    seeds: list[int]
    rows: Rows  # by method and `stranger` (the opponent); `payoffs` by seed, `steps` their mean
    against_baselines: Rows  # stranger (the opponent), ours, baselines, difference, p, verdict
    notes: list[str]

    def with_notes(self, notes: Sequence[str]) -> Outcome:
        """Return a copy of the results with additional notes."""
        return replace(self, notes=[*self.notes, *notes])


def summarise(table: ComparisonJob, cells: Mapping[tuple[str, int, int], Row]) -> Outcome:
    """Compute the results of a table from its evaluated cells.

    `cells`: the rows by method, seed and column. Payoffs are points per game after the last
    adaptation step. A method whose training failed has no mean.
    """
    game = registry.evaluation_game(two_seat_game(table.game)[0])
    columns = list(table.opponents)
    oracle = next((n for n, m in table.methods.items() if m.oracle is not None), None)
    rows = []
    for method in table.methods:
        for k, opponent in enumerate(columns):
            by_seed = {s: cells[method, s, k] for s in table.seeds if (method, s, k) in cells}
            payoffs = {seed: float(row["steps"][-1]) for seed, row in by_seed.items()}
            steps = [row["steps"] for row in by_seed.values()]
            rows.append(
                {
                    "method": method,
                    "stranger": opponent,
                    "mean": _mean(payoffs),
                    "standard_error": _standard_error(payoffs),
                    "share": None,
                    "paper": table.paper.get(method, {}).get(opponent),
                    "payoffs": payoffs,
                    "steps": np.mean(steps, axis=0).tolist() if steps else [],
                }
            )
    best = {row["stranger"]: row["mean"] for row in rows if row["method"] == oracle}
    for row in rows:
        most = best.get(row["stranger"])
        if most is not None and most > MIN_ORACLE and row["mean"] is not None:
            row["share"] = row["mean"] / most
    budget = table.evaluate
    notes = [
        f"{game.unit}s a game after {budget.steps} steps of {budget.games} games, mean and "
        f"standard error over seeds {', '.join(map(str, table.seeds))}"
    ]
    if oracle is not None:
        exact = table.methods[oracle].oracle == EXACT
        how = (
            "the exact best response"
            if exact
            else "a best response that is trained against each opponent"
        )
        notes.append(f"in brackets: share of {oracle}, which is {how}")
    against = _against_baselines(table, rows, oracle) if table.ours is not None else []
    return Outcome(game.name, game.unit, list(table.seeds), rows, against, notes)


def _against_baselines(table: ComparisonJob, rows: Rows, oracle: str | None) -> Rows:
    """Compare the method `ours` with the mean of the baselines against each opponent.

    The p value is from Welch's two-sided t test over seeds. It is None if there are too few seeds
    or if there is no variance.
    """
    aside = {table.ours, oracle, *table.variants}
    baselines = [method for method in table.methods if method not in aside]
    payoffs = {(row["method"], row["stranger"]): row["payoffs"] for row in rows}
    compared = []
    for opponent in table.opponents:
        ours = payoffs[table.ours, opponent]
        others = [payoffs[method, opponent] for method in baselines]
        shared = [seed for seed in table.seeds if others and all(seed in won for won in others)]
        theirs = {seed: float(np.mean([won[seed] for won in others])) for seed in shared}
        if not ours or not theirs:
            continue
        mean, mean_theirs = _mean(ours) or 0.0, _mean(theirs) or 0.0
        p = _welch(list(ours.values()), list(theirs.values()))
        verdict = "better" if mean > mean_theirs else "worse"
        compared.append(
            {
                "stranger": opponent,
                "ours": mean,
                "baselines": mean_theirs,
                "difference": mean - mean_theirs,
                "p": p,
                "verdict": verdict if p is not None and p < SIGNIFICANCE else "not told apart",
            }
        )
    return compared


def _mean(payoffs: Mapping[int, float]) -> float | None:
    return float(np.mean(list(payoffs.values()))) if payoffs else None


def _standard_error(payoffs: Mapping[int, float]) -> float | None:
    """Return the standard error of a mean over seeds; None for fewer than two seeds."""
    if len(payoffs) < 2:
        return None
    return float(np.std(list(payoffs.values()), ddof=1) / np.sqrt(len(payoffs)))


def _welch(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Return the p value of Welch's test for equal means (Welch 1947).

    None if a sample has fewer than two values or if there is no variance.
    """
    if min(len(ours), len(theirs)) < 2:
        return None
    spreads = [float(np.std(each, ddof=1)) for each in (ours, theirs)]
    if max(spreads) < 1e-12:
        return None
    tested = ttest_ind_from_stats(
        np.mean(ours), spreads[0], len(ours), np.mean(theirs), spreads[1], len(theirs),
        equal_var=False,
    )  # fmt: skip
    return float(tested.pvalue)


def wide(found: Outcome) -> Rows:
    """Return the table as text with a row for each method and a column for each opponent.

    Published payoffs have columns of their own.
    """
    published = {row["stranger"] for row in found.rows if row["paper"] is not None}
    lines: dict[str, dict[str, Any]] = {}
    for row in found.rows:
        line = lines.setdefault(row["method"], {"": row["method"]})
        line[row["stranger"]] = _cell(row)
        if row["stranger"] in published:
            paper = row["paper"]
            line[f"{row['stranger']}, paper"] = "-" if paper is None else f"{paper:.3f}"
    return list(lines.values())


def _cell(row: Mapping[str, Any]) -> str:
    """Return mean, standard error and share of a cell as text."""
    if row["mean"] is None:
        return "failed"
    error, share = row["standard_error"], row["share"]
    mean = f"{row['mean']:.3f}" + (f" ± {error:.3f}" if error is not None else "")
    return mean if share is None else f"{mean} ({share:.0%})"


def markdown(found: Outcome) -> str:
    """Return the table, the comparison with the baselines, and the notes as Markdown."""
    texts = [_markdown_table(wide(found))]
    if found.against_baselines:
        texts.append("Ours against the mean of the baselines, p by Welch's t test over seeds:")
        shown = [
            row | {"p": None if row["p"] is None else f"{row['p']:.2g}"}
            for row in found.against_baselines
        ]
        texts.append(_markdown_table(shown))
    texts.append("\n".join(f"- {note}" for note in found.notes))
    return "\n\n".join(texts) + "\n"


def _markdown_table(rows: Rows) -> str:
    """Return rows as a Markdown table. All rows have the keys of the first row."""
    header = list(rows[0])
    lines = [header, ["---"] * len(header), *(map(_format, row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _format(entry: Any) -> str:
    if entry is None:
        return "-"
    return f"{entry:.3f}" if isinstance(entry, float) else str(entry)


def save(found: Outcome, folder: Path) -> None:
    """Write the table as Markdown, CSV and JSON files into a folder."""
    text = io.StringIO()
    names = ["method", "stranger", "mean", "standard_error", "share", "paper"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *(f"seed {seed}" for seed in found.seeds)])
    for row in found.rows:
        by_seed = [row["payoffs"].get(seed, "") for seed in found.seeds]
        writer.writerow(["" if row[name] is None else row[name] for name in names] + by_seed)
    for name, said in zip(
        FILES,
        (markdown(found), text.getvalue(), json.dumps(asdict(found), indent=1) + "\n"),
        strict=True,
    ):
        write_text(folder / name, said)
