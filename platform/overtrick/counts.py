"""Pictures of how often things are."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from overtrick.figures import COLOURS


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
