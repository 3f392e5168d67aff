"""Scores by which sweeps compare runs; larger is better.

A table score is computed from the results table of a run. A progress score is computed from
the metrics of one iteration; it is None if the iteration had no evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from overtrick.reports import metric_names
from overtrick.training.base_trainer import ProgressScore, Rows

IMPS_AGAINST_PRETRAINED = "imps_per_board"
"""Name of the metric: mean IMPs per board against the pretrained bidder."""


def table_mean(rows: Rows) -> float:
    """Return column `mean` of a results table's first row."""
    return float(rows[0]["mean"])


def table_payoff(rows: Rows) -> float:
    """Return the payoff after the last adaptation step, averaged over the held-out opponents.

    `rows`: a results table with a row for each held-out opponent.
    """
    return sum(float(row["steps"][-1]) for row in rows) / len(rows)


def table_negative_exploitability(rows: Rows) -> float:
    """Return minus the exploitability in the first row of a results table."""
    return -float(rows[0]["exploitability"])


def final_negative_exploitability(rows: Rows) -> float:
    """Return minus the exploitability after the last step, in the first opponent's row.

    In games without a tree, return the mean payoff against all held-out opponents instead.
    """
    found = rows[0]["exploitability"]
    return table_payoff(rows) if found is None else -float(found[-1])


def payoff(metrics: Mapping[str, float]) -> float | None:
    """Return the payoff after the last adaptation step, averaged over the held-out opponents.

    `metrics`: the metrics of one iteration. Returns None if it had no evaluation.
    """
    last = metric_names.last_steps([(0, metrics)])
    payoffs = [
        value
        for name, value in metrics.items()
        for opponent, step in last.items()
        if name.startswith(metric_names.payoff_name(opponent, step, ""))
    ]
    return mean(payoffs) if payoffs else None


def negative_exploitability(metrics: Mapping[str, float]) -> float | None:
    """Return minus the first exploitability among an iteration's metrics; None if there is none."""
    gaps = (gap for name, gap in metrics.items() if name.startswith("exploitability"))
    return next((-gap for gap in gaps), None)


def negative_exploitability_or_payoff(metrics: Mapping[str, float]) -> float | None:
    """Return minus the first exploitability among an iteration's metrics, else the mean payoff.

    The payoff is that against the held-out opponents, in games without a tree. Returns None if the
    iteration had neither.
    """
    gap = negative_exploitability(metrics)
    return payoff(metrics) if gap is None else gap


def contracts_made(metrics: Mapping[str, float]) -> float | None:
    """Return the share of contracts made, averaged over the defenders in the evaluation."""
    shares = [value for name, value in metrics.items() if name.startswith(metric_names.MADE)]
    return mean(shares) if shares else None


def bidding_accuracy(metrics: Mapping[str, float]) -> float | None:
    """Return the score of a bidding network from the metrics of one iteration.

    If the network predicts calls, the score is its accuracy. If it predicts IMPs, the score is
    minus its mean absolute error. Returns None if the iteration had no evaluation.
    """
    if "error_imps" in metrics:
        return -metrics["error_imps"]
    return metrics.get("total_precision")


def board_imps(metrics: Mapping[str, float]) -> float | None:
    """Return the mean IMPs per board against the pretrained bidder; None if not measured."""
    return metrics.get(IMPS_AGAINST_PRETRAINED)


def named(metric: str) -> ProgressScore:
    """Return a function that reads the score of an iteration from one of its metrics.

    `metric`: name of the metric. A minus sign before the name negates the metric, for metrics that
    are better when smaller. The function returns None if the iteration lacks the metric.
    """
    name, sign = metric.removeprefix("-"), -1.0 if metric.startswith("-") else 1.0
    return lambda metrics: sign * metrics[name] if name in metrics else None
