"""Pictures of how often things are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from overtrick.reports.figures import COLOURS


def shares(panels: Mapping[str, Mapping[str, int]], columns: int = 2) -> Figure:
    """A panel of bars for each title: the share of each thing among those of its panel, in per
    cent; a panel in which nothing was counted says so."""
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.5 * columns, 3.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, colour, (title, counts) in zip(axes, COLOURS * rows, panels.items(), strict=False):
        total = sum(counts.values())
        axis.set(title=f"{title} ({total:,})", ylabel="%")
        if not total:
            axis.text(0.5, 0.5, "none", ha="center", transform=axis.transAxes)
            continue
        heights = [100 * count / total for count in counts.values()]
        axis.bar(list(counts), heights, color=colour)
        if len(counts) > 12:
            axis.tick_params(axis="x", labelsize=7, rotation=90)
    for axis in axes[len(panels) :]:
        axis.axis("off")
    return figure


def grouped(rows: Sequence[Mapping[str, Any]], part: str, names: Sequence[str]) -> Figure:
    """For each row a group of bars, one for each name: its shares, in per cent; rows by their
    part. A share that nobody measured is left out."""
    figure = Figure(figsize=(max(5.5, 0.8 * len(rows)), 3.6), layout="constrained")
    axis = figure.subplots()
    wide = 0.8 / len(names)
    for k, (name, colour) in enumerate(zip(names, COLOURS, strict=False)):
        told = [(place, row[name]) for place, row in enumerate(rows) if row[name] is not None]
        places = [place + (k - (len(names) - 1) / 2) * wide for place, _ in told]
        axis.bar(places, [100 * share for _, share in told], wide, color=colour, label=name)
    axis.set_xticks(range(len(rows)), [str(row[part]) for row in rows], rotation=60, fontsize=8)
    axis.set(ylabel="%", ylim=(0, 100))
    figure.legend(loc="outside upper center", ncols=len(names))
    return figure


def against(told: Sequence[tuple[float, float, float]], x: str, y: str) -> Figure:
    """Means with two standard errors to either side, in their order: (x, mean, error)
    each, at least one."""
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axis = figure.subplots()
    places, means, errors = zip(*told, strict=True)
    axis.errorbar(places, means, [2 * error for error in errors], color=COLOURS[0], marker="o")
    axis.axhline(0, color=COLOURS[-1], linewidth=0.8)
    axis.set(xlabel=x, ylabel=y)
    return figure
