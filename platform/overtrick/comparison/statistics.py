"""What a table came to: means over seeds, shares of the oracle, and significance."""

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

from overtrick.comparison.table_job import EXACT, Table
from overtrick.core.files import write_text
from overtrick.evaluation.evaluate import Row
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.games import registry

FILES = ("table.md", "table.csv", "table.json")
LEAST = 0.01  # points of the oracle, below which a share says nothing
LEVEL = 0.05  # of significance
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """A table in figures."""

    game: str
    unit: str
    seeds: list[int]
    rows: Rows  # method, stranger, mean, standard_error, share, paper, payoffs by seed, steps
    against_baselines: Rows  # stranger, ours, baselines, difference, p, verdict
    notes: list[str]

    def noting(self, notes: Sequence[str]) -> Outcome:
        """The same with more to say below it."""
        return replace(self, notes=[*self.notes, *notes])


def of(table: Table, judged: Mapping[tuple[str, int, int], Row]) -> Outcome:
    """The outcome of a table, from what was judged by method, seed and column.

    A method that could not be trained has no mean; all figures are points a game after the last
    step.
    """
    game = registry.evaluation_game(two_seat_game(table.game)[0])
    columns = list(table.opponents)
    oracle = next((n for n, m in table.methods.items() if m.oracle is not None), None)
    rows = []
    for method in table.methods:
        for k, stranger in enumerate(columns):
            cells = {s: judged[method, s, k] for s in table.seeds if (method, s, k) in judged}
            won = {seed: float(row["steps"][-1]) for seed, row in cells.items()}
            steps = [row["steps"] for row in cells.values()]
            rows.append(
                {
                    "method": method,
                    "stranger": stranger,
                    "mean": _mean(won),
                    "standard_error": _error(won),
                    "share": None,
                    "paper": table.paper.get(method, {}).get(stranger),
                    "payoffs": won,
                    "steps": np.mean(steps, axis=0).tolist() if steps else [],
                }
            )
    best = {row["stranger"]: row["mean"] for row in rows if row["method"] == oracle}
    for row in rows:
        most = best.get(row["stranger"])
        if most is not None and most > LEAST and row["mean"] is not None:
            row["share"] = row["mean"] / most
    budget = table.evaluate
    notes = [
        f"{game.unit}s a game after {budget.steps} steps of {budget.games} games, mean and "
        f"standard error over seeds {', '.join(map(str, table.seeds))}"
    ]
    if oracle is not None:
        exact = table.methods[oracle].oracle == EXACT
        how = "the exact best response" if exact else "a training against each stranger"
        notes.append(f"in brackets: share of {oracle}, which is {how}")
    faced = _against(table, rows, oracle) if table.ours is not None else []
    return Outcome(game.name, game.unit, list(table.seeds), rows, faced, notes)


def _against(table: Table, rows: Rows, oracle: str | None) -> Rows:
    """Ours and the mean of the baselines, stranger by stranger, seed against seed.

    p is of Welch's two-sided t test over seeds; None where there is nothing to test.
    """
    aside = {table.ours, oracle, *table.variants}
    baselines = [method for method in table.methods if method not in aside]
    payoffs = {(row["method"], row["stranger"]): row["payoffs"] for row in rows}
    faced = []
    for stranger in table.opponents:
        ours = payoffs[table.ours, stranger]
        others = [payoffs[method, stranger] for method in baselines]
        shared = [seed for seed in table.seeds if others and all(seed in won for won in others)]
        theirs = {seed: float(np.mean([won[seed] for won in others])) for seed in shared}
        if not ours or not theirs:
            continue
        mean, mean_theirs = _mean(ours) or 0.0, _mean(theirs) or 0.0
        p = _welch(list(ours.values()), list(theirs.values()))
        said = "better" if mean > mean_theirs else "worse"
        faced.append(
            {
                "stranger": stranger,
                "ours": mean,
                "baselines": mean_theirs,
                "difference": mean - mean_theirs,
                "p": p,
                "verdict": said if p is not None and p < LEVEL else "not told apart",
            }
        )
    return faced


def _mean(won: Mapping[int, float]) -> float | None:
    return float(np.mean(list(won.values()))) if won else None


def _error(won: Mapping[int, float]) -> float | None:
    """The standard error of a mean over seeds; None of one seed."""
    if len(won) < 2:
        return None
    return float(np.std(list(won.values()), ddof=1) / np.sqrt(len(won)))


def _welch(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """p of the hypothesis that both have the same mean (Welch 1947)."""
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
    """A row a method, with a column a stranger and the paper's figure beside it, in words."""
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
    if row["mean"] is None:
        return "failed"
    error, share = row["standard_error"], row["share"]
    said = f"{row['mean']:.3f}" + (f" ± {error:.3f}" if error is not None else "")
    return said if share is None else f"{said} ({share:.0%})"


def markdown(found: Outcome) -> str:
    """The table, what ours does against the baselines, and the notes."""
    texts = [_lines(wide(found))]
    if found.against_baselines:
        texts.append("Ours against the mean of the baselines, p by Welch's t test over seeds:")
        shown = [
            row | {"p": None if row["p"] is None else f"{row['p']:.2g}"}
            for row in found.against_baselines
        ]
        texts.append(_lines(shown))
    texts.append("\n".join(f"- {note}" for note in found.notes))
    return "\n\n".join(texts) + "\n"


def _lines(rows: Rows) -> str:
    """Rows that all have the keys of the first, as Markdown."""
    header = list(rows[0])
    lines = [header, ["---"] * len(header), *(map(_short, row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _short(entry: Any) -> str:
    if entry is None:
        return "-"
    return f"{entry:.3f}" if isinstance(entry, float) else str(entry)


def save(found: Outcome, folder: Path) -> None:
    """Write the table in every form."""
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
