"""Compute the results of a comparison: mean payoffs and t tests.

If the comparison has an oracle, each mean payoff is also given as a fraction of its payoff.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from overtrick.comparison import table_files
from overtrick.comparison.comparison_job import EXACT, ComparisonJob, Rows
from overtrick.evaluation.evaluate import MIN_BEST_RESPONSE, Row
from overtrick.evaluation.game_cache import two_seat_game
from overtrick.evaluation.standard_error import standard_error
from overtrick.games import registry
from overtrick.storage.run_folder import RunFolder

SIGNIFICANCE = 0.05  # level of the t test


@dataclass(frozen=True)
class Outcome:
    """The results of a comparison."""

    game: str
    unit: str
    seeds: list[int]
    rows: Rows  # by method and `stranger` (the opponent); `payoffs` by seed, `steps` their mean
    against_baselines: Rows  # stranger (the opponent), ours, baselines, difference, p, verdict
    notes: list[str]


def summarise(
    table: ComparisonJob, cells: Mapping[tuple[str, int, int], Row], more_notes: Sequence[str]
) -> Outcome:
    """Compute the results of a comparison from all its evaluations.

    `cells`: maps (method, seed, column) to the evaluation against the opponent with the index
    `column`. Payoffs are points per game after the last adaptation step. A method whose training
    failed has no mean. `more_notes`: notes to append to the notes of the results.
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
                    "standard_error": standard_error(list(payoffs.values())),
                    "share": None,
                    "paper": table.paper.get(method, {}).get(opponent),
                    "payoffs": payoffs,
                    "steps": np.mean(steps, axis=0).tolist() if steps else [],
                }
            )
    best = {row["stranger"]: row["mean"] for row in rows if row["method"] == oracle}
    for row in rows:
        most = best.get(row["stranger"])
        if most is not None and most > MIN_BEST_RESPONSE and row["mean"] is not None:
            row["share"] = row["mean"] / most
    budget = table.evaluate
    notes = [
        f"{game.unit}s a game after {budget.steps} steps of {budget.games} games, mean and "
        f"standard error over seeds {', '.join(map(str, table.seeds))}"
    ]
    if oracle is not None:
        learnt = "a best response trained against each opponent"
        how = "the exact best response" if table.methods[oracle].oracle == EXACT else learnt
        notes.append(f"in brackets: share of {oracle}, which is {how}")
    against = _against_baselines(table, rows, oracle) if table.ours is not None else []
    if table.ours is not None and (missing := _missing_baselines(table, rows, oracle)):
        notes.append(f"not compared with the baselines, as {' and '.join(missing)} failed")
    return Outcome(game.name, game.unit, list(table.seeds), rows, against, [*notes, *more_notes])


def _baselines(table: ComparisonJob, oracle: str | None) -> list[str]:
    """Return the methods with which `ours` is compared. `oracle`: the method that is an oracle."""
    aside = {table.ours, oracle, *table.variants}
    return [method for method in table.methods if method not in aside]


def _missing_baselines(table: ComparisonJob, rows: Rows, oracle: str | None) -> list[str]:
    """Return the methods without which no comparison with the baselines is possible.

    They are `ours` and the baselines that have a result for no seed.
    """
    needed = [table.ours, *_baselines(table, oracle)]
    found = {row["method"] for row in rows if row["payoffs"]}
    return [method for method in needed if method is not None and method not in found]


def _against_baselines(table: ComparisonJob, rows: Rows, oracle: str | None) -> Rows:
    """Compare the payoff of the method `ours` with the mean of the baselines, per opponent.

    `rows`: a row for each method and opponent, with the payoffs by seed. `oracle`: the method that
    is an oracle, which is no baseline. The p value is from Welch's two-sided t test over seeds. It
    is None if there are too few seeds or if there is no variance.
    """
    baselines = _baselines(table, oracle)
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
        p = welch_p(list(ours.values()), list(theirs.values()))
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


def welch_p(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Return the p value of Welch's test that two samples have equal means (Welch 1947).

    Returns None if a sample has fewer than two values or if there is no variance.
    """
    if min(len(ours), len(theirs)) < 2:
        return None
    if max(np.std(ours, ddof=1), np.std(theirs, ddof=1)) < 1e-12:
        return None
    from scipy.stats import ttest_ind

    with warnings.catch_warnings():
        # scipy warns if one of the samples has no variance, where the p value is right
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        return float(ttest_ind(ours, theirs, equal_var=False).pvalue)


def wide(found: Outcome) -> Rows:
    """Return the results of a comparison as a table of texts, a row for each method.

    There is a column for each opponent, and one for published payoffs against the opponent, if any.
    """
    published = {row["stranger"] for row in found.rows if row["paper"] is not None}
    lines: dict[str, dict[str, Any]] = {}
    for row in found.rows:
        line = lines.setdefault(row["method"], {"": row["method"]})
        line[row["stranger"]] = _cell(row, len(found.seeds))
        if row["stranger"] in published:
            paper = row["paper"]
            line[f"{row['stranger']}, paper"] = "-" if paper is None else f"{paper:.3f}"
    return list(lines.values())


def _cell(row: Mapping[str, Any], seeds: int) -> str:
    """Return the result of a method against an opponent as text.

    The text has the mean payoff over seeds and, as far as they are known, the standard error, the
    mean as a percentage of the payoff of a best response, and how many of the `seeds` trainings
    failed. It is "failed" without a mean.
    """
    if row["mean"] is None:
        return "failed"
    error, share = row["standard_error"], row["share"]
    mean = f"{row['mean']:.3f}" + (f" ± {error:.3f}" if error is not None else "")
    failed = seeds - len(row["payoffs"])
    shared = mean if share is None else f"{mean} ({share:.0%})"
    return f"{shared}, {failed} failed" if failed else shared


def titled_tables(found: Outcome) -> list[tuple[Rows, str]]:
    """Return the table of all methods and, if there are baselines, a table of ours beside them.

    All entries are texts.
    """
    compared = [_comparison_cells(row) for row in found.against_baselines]
    title = "Ours against the mean of the baselines, p by Welch's t test over seeds"
    return [(wide(found), ""), *([(compared, title)] if compared else [])]


def _comparison_cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a row of `against_baselines` as text: payoffs with three decimals, p with two."""
    payoffs = {name: f"{row[name]:.3f}" for name in ("ours", "baselines", "difference")}
    p = "-" if row["p"] is None else f"{row['p']:.2g}"
    return {"stranger": row["stranger"], **payoffs, "p": p, "verdict": row["verdict"]}


def save(found: Outcome, folder: RunFolder) -> None:
    """Write the results of a comparison to files in a folder."""
    names = ["method", "stranger", "mean", "standard_error", "share", "paper"]
    rows = [
        [*(row[name] for name in names), *(row["payoffs"].get(seed) for seed in found.seeds)]
        for row in found.rows
    ]
    columns = [*names, *(f"seed {seed}" for seed in found.seeds)]
    content = asdict(found)
    table_files.save_tables(folder, titled_tables(found), found.notes, columns, rows, content)
