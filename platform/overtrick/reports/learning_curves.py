"""Learning curves over several seeds: the mean, with a confidence band by Student's t."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy

from overtrick.core import Array
from overtrick.reports.figures import COLOURS, panels
from overtrick.reports.metric_names import History, last_steps, payoff_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = tuple[Array, Array, Array]
"""x (X,), mean over seeds (X,), and half the width of the confidence band (X,)."""

Curves = dict[str, dict[str, Curve]]
"""Curves by panel and label."""

CONFIDENCE = 0.95
MAX_COLUMNS = 4  # panels side by side
MAX_LINES = 4  # lines of a panel whose legend fits inside it


def confidence_band(values: Array) -> tuple[Array, Array]:
    """Return the mean over seeds (X,) and half the width of its confidence band (X,).

    `values`: (seeds, X) a metric at X points of the x axis. The width is nan for a single seed.
    """
    seeds = len(values)
    mean = values.mean(axis=0)
    if seeds < 2:
        return mean, np.full(mean.shape, np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, scipy.special.stdtrit(seeds - 1, (1 + CONFIDENCE) / 2) * error


def seed_curve(seeds: Sequence[Mapping[float, float]]) -> Curve | None:
    """Return the mean of a metric over several seeds at the x values that all seeds share.

    `seeds`: for each seed, a map from x to the metric. Seeds without any value are left out.
    Returns None if no x value is common to all other seeds.
    """
    seeds = [each for each in seeds if each]
    shared = sorted(set.intersection(*map(set, seeds))) if seeds else []
    if not shared:
        return None
    values = np.array([[each[x] for x in shared] for each in seeds])
    return np.array(shared), *confidence_band(values)


def payoff_curves(groups: Mapping[str, Sequence[History]], unit: str) -> Curves:
    """Return curves of the payoff after adaptation, for each opponent and each group of seeds.

    The x values are iterations; a curve is the mean over the seeds of a group. `groups`: maps the
    label of a group to the histories of its seeds. Returns the curves by opponent and label.
    """
    found: Curves = {}
    for label, histories in groups.items():
        for opponent, step in last_steps(entry for each in histories for entry in each).items():
            name = payoff_name(opponent, step, unit)
            curve = seed_curve([{i: m[name] for i, m in each if name in m} for each in histories])
            if curve is not None:
                found.setdefault(opponent, {})[label] = curve
    return found


def payoff_by_iteration(groups: Mapping[str, Sequence[History]], unit: str) -> Figure:
    """Plot the payoff after adaptation over the iterations, one chart for each opponent.

    A chart has one line for each group of seeds. `groups`: maps the label of a group to the
    histories of its seeds.
    """
    return draw_curves(payoff_curves(groups, unit), "iteration", _payoff_label(unit))


def payoff_by_value(
    payoffs: Mapping[str, Mapping[float, Sequence[float]]], key: str, unit: str
) -> Figure:
    """Plot the final payoff after adaptation over the values of one job setting.

    Each opponent has its own chart. `key`: the dotted job key of the setting. `payoffs`: for each
    opponent and each value of the setting, the payoff of every seed.
    """
    drawn: Curves = {}
    for opponent, by_value in payoffs.items():
        x = np.array(sorted(by_value))
        bands = [confidence_band(np.array(by_value[value])[:, None]) for value in x]
        mean, half = (np.concatenate(each) for each in zip(*bands, strict=True))
        drawn[opponent] = {"": (x, mean, half)}
    figure = draw_curves(drawn, key, _payoff_label(unit), marker="o")
    values = [value for by_value in payoffs.values() for value in by_value]
    if min(values) > 0 and max(values) >= 20 * min(values):
        for axis in figure.axes:
            axis.set_xscale("log")
    return figure


def _payoff_label(unit: str) -> str:
    return f"payoff after adaptation, {unit} a game"


def draw_curves(
    drawn: Curves, xlabel: str, ylabel: str, marker: str | None = None, yscale: str = "linear"
) -> Figure:
    """Draw curves with their confidence bands, one chart for each title.

    `drawn`: maps the title of each chart to the chart's curves by label. `yscale`: linear or log.
    """
    width = max(4.5, 3.2 * min(len(drawn), MAX_COLUMNS))
    figure, axes = panels(len(drawn), width, 3.4, MAX_COLUMNS)
    for axis, (title, lines) in zip(axes, drawn.items(), strict=True):
        for colour, (label, (x, mean, half)) in zip(itertools.cycle(COLOURS), lines.items()):
            axis.plot(x, mean, color=colour, marker=marker, ms=4, label=label)
            axis.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
        axis.set(title=title, xlabel=xlabel, yscale=yscale)
        axis.locator_params(axis="x", nbins=5)
        if 1 < len(lines) <= MAX_LINES:
            axis.legend(fontsize=7)
    if len(next(iter(drawn.values()))) > MAX_LINES:
        legend = axes[0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower center", ncols=2, fontsize=7)
    for first in axes[::MAX_COLUMNS]:
        first.set_ylabel(ylabel)
    return figure
