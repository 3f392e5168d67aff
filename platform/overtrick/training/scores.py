"""How well a job does before its end: one number of an iteration's metrics, larger is better.

None if nothing was measured in that iteration. Each has its counterpart of a finished job's table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from overtrick.reports import learning_curves, metric_names
from overtrick.training.bidding.pretrained import WON

Metrics = Mapping[str, float]
Standing = Callable[[Metrics], float | None]


def payoff(metrics: Metrics) -> float | None:
    """Mean over strangers of the payoff after the last step."""
    last = metric_names.last_steps([(0, metrics)])
    won = [
        value
        for name, value in metrics.items()
        for stranger, step in last.items()
        if name.startswith(metric_names.payoff_name(stranger, step, ""))
    ]
    return mean(won) if won else None


def closeness(metrics: Metrics) -> float | None:
    """Minus the first exploitability."""
    gaps = (gap for name, gap in metrics.items() if name.startswith("exploitability"))
    return next((-gap for gap in gaps), None)


def made(metrics: Metrics) -> float | None:
    """The mean share of contracts made."""
    shares = [value for name, value in metrics.items() if name.startswith(learning_curves.MADE)]
    return mean(shares) if shares else None


def foretold(metrics: Metrics) -> float | None:
    """Total precision of calls; of what is foretold in IMPs, minus the mean error."""
    if "error_imps" in metrics:
        return -metrics["error_imps"]
    return metrics.get("total_precision")


def board_imps(metrics: Metrics) -> float | None:
    """IMPs a board against the pretrained."""
    return metrics.get(WON)


def named(metric: str) -> Standing:
    """The metric of this name; "-NAME" for one of which less is better."""
    name, sign = metric.removeprefix("-"), -1.0 if metric.startswith("-") else 1.0
    return lambda metrics: sign * metrics[name] if name in metrics else None
