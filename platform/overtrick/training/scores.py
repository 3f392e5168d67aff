"""Scores by which sweeps compare runs, larger is better: of a table, or of an iteration's metrics.

A score of metrics is None in an iteration without an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from overtrick.reports import learning_curves, metric_names
from overtrick.training.base_trainer import ProgressScore, Rows

IMPS_AGAINST_PRETRAINED = "imps_per_board"
"""The metric of IMPs a board won from the pretrained bidder."""


def table_payoff(rows: Rows) -> float:
    """Return the mean over held-out opponents of the payoff after the last adaptation step."""
    return sum(float(row["steps"][-1]) for row in rows) / len(rows)


def table_closeness(rows: Rows) -> float:
    """Return minus the exploitability of the first row."""
    return -float(rows[0]["exploitability"])


def payoff(metrics: Mapping[str, float]) -> float | None:
    """Return the mean over held-out opponents of the payoff after the last adaptation step."""
    last = metric_names.last_steps([(0, metrics)])
    won = [
        value
        for name, value in metrics.items()
        for opponent, step in last.items()
        if name.startswith(metric_names.payoff_name(opponent, step, ""))
    ]
    return mean(won) if won else None


def closeness(metrics: Mapping[str, float]) -> float | None:
    """Return minus the first exploitability."""
    gaps = (gap for name, gap in metrics.items() if name.startswith("exploitability"))
    return next((-gap for gap in gaps), None)


def contracts_made(metrics: Mapping[str, float]) -> float | None:
    """Return the mean share of contracts made."""
    shares = [value for name, value in metrics.items() if name.startswith(learning_curves.MADE)]
    return mean(shares) if shares else None


def bidding_accuracy(metrics: Mapping[str, float]) -> float | None:
    """Return the accuracy of the call network, or minus the mean error of the value network."""
    if "error_imps" in metrics:
        return -metrics["error_imps"]
    return metrics.get("total_precision")


def board_imps(metrics: Mapping[str, float]) -> float | None:
    """Return the IMPs a board won from the pretrained bidder."""
    return metrics.get(IMPS_AGAINST_PRETRAINED)


def named(metric: str) -> ProgressScore:
    """Score by one metric; "-NAME" for a metric of which less is better."""
    name, sign = metric.removeprefix("-"), -1.0 if metric.startswith("-") else 1.0
    return lambda metrics: sign * metrics[name] if name in metrics else None
