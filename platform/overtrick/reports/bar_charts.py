"""Bar charts of counts and percentages, and means with error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from overtrick.reports.figures import COLOURS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def shares(counts_by_title: Mapping[str, Mapping[str, int]], columns: int = 2) -> Figure:
    """Draw one bar chart for each title: counts as percentages of their sum.

    `counts_by_title`: maps the title of each chart to the counts of its bars by name. A chart
    without counts is marked "none". `columns`: number of charts side by side.
    """
    figure, axes = panels(len(counts_by_title), 5.5 * columns, 3.2, columns)
    titled = zip(axes, cycle(COLOURS), counts_by_title.items(), strict=False)
    for axis, colour, (title, counts) in titled:
        total = sum(counts.values())
        axis.set(title=f"{title} ({total:,})", ylabel="%")
        if not total:
            axis.text(0.5, 0.5, "none", ha="center", transform=axis.transAxes)
            continue
        heights = [100 * count / total for count in counts.values()]
        axis.bar(list(counts), heights, color=colour)
        if len(counts) > 12:
            axis.tick_params(axis="x", labelsize=7, rotation=90)
    return figure


def grouped_shares(rows: Sequence[Mapping[str, Any]], key: str, names: Sequence[str]) -> Figure:
    """Draw a group of bars for each row of a table, one bar for each column of percentages.

    `key`: the column that labels the groups. `names`: the columns to draw, with fractions from 0 to
    1. A fraction of None has no bar.
    """
    figure, (axis,) = panels(1, max(5.5, 0.8 * len(rows)), 3.6)
    width = 0.8 / len(names)
    for k, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        measured = [(x, row[name]) for x, row in enumerate(rows) if row[name] is not None]
        centres = [x + (k - (len(names) - 1) / 2) * width for x, _ in measured]
        axis.bar(centres, [100 * share for _, share in measured], width, color=colour, label=name)
    axis.set_xticks(range(len(rows)), [str(row[key]) for row in rows], rotation=60, fontsize=8)
    axis.set(ylabel="%", ylim=(0, 100))
    figure.legend(loc="outside upper center", ncols=len(names))
    return figure


def means_with_errors(points: Sequence[tuple[float, float, float]], x: str, y: str) -> Figure:
    """Draw means with error bars of two standard errors, joined by a line.

    `points`: at least one (x, mean, standard error). `x`, `y`: labels of the axes.
    """
    figure, (axis,) = panels(1, 5.5, 3.6)
    xs, means, errors = zip(*points, strict=True)
    axis.errorbar(xs, means, [2 * error for error in errors], color=COLOURS[0], marker="o")
    axis.axhline(0, color=COLOURS[-1], linewidth=0.8)
    axis.set(xlabel=x, ylabel=y)
    return figure
