"""What several seeds came to: their mean, with the band in which it lies with 95 % confidence."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm, t

from overtrick.core import Array
from overtrick.reports.figures import COLOURS
from overtrick.reports.metric_names import last_steps, payoff_name

History = Sequence[tuple[int, Mapping[str, float]]]
"""Every iteration of one run and its metrics, in order."""

CONFIDENCE = 0.95

GAMES, MADE, RECOGNISED = "games", "made/", "recognised"
"""Metrics of card play: games seen; by defence, the share of contracts made; the share of decisions
in which a table knew something."""
WIDEST = 4  # panels side by side
CROWDED = 4  # lines in a panel beyond which the legend stands below


def band(values: Array) -> tuple[Array, Array]:
    """Mean (X,) over seeds of values (seeds, X), and half the width of its band by Student's t.

    The width is nan for one seed, of which nothing can be told.
    """
    seeds = len(values)
    mean = values.mean(axis=0)
    if seeds < 2:
        return mean, np.full(mean.shape, np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(seeds)
    return mean, t.ppf((1 + CONFIDENCE) / 2, seeds - 1) * error


def curves_of(groups: Mapping[str, Sequence[History]], unit: str) -> dict[str, dict[str, Any]]:
    """By stranger and group: iterations (X,), mean and half a band (X,) of the adapted payoff.

    groups: by label, the histories of its seeds. An iteration counts if every seed of its group
    was measured there.
    """
    together = [entry for histories in groups.values() for each in histories for entry in each]
    found: dict[str, dict[str, Any]] = {}
    for stranger, step in last_steps(together).items():
        name = payoff_name(stranger, step, unit)
        for label, histories in groups.items():
            seeds = [{i: m[name] for i, m in each if name in m} for each in histories]
            shared = sorted(set.intersection(*(set(each) for each in seeds)))
            if shared:
                values = np.array([[each[i] for i in shared] for each in seeds])
                found.setdefault(stranger, {})[label] = (np.array(shared), *band(values))
    return found


def learning(groups: Mapping[str, Sequence[History]], unit: str) -> Figure:
    """Adapted payoff by iteration, a panel a stranger, a line a group of seeds."""
    return _panels(curves_of(groups, unit), "iteration", unit, marker=None)


def by_value(payoffs: Mapping[str, Mapping[float, Sequence[float]]], key: str, unit: str) -> Figure:
    """Adapted payoff at the end by the value of a key, a panel a stranger.

    payoffs: by stranger and value, one payoff a seed.
    """
    drawn: dict[str, dict[str, Any]] = {}
    for stranger, by in payoffs.items():
        x = np.array(sorted(by))
        found = [band(np.array(by[value])[:, None]) for value in x]
        mean, half = (np.concatenate(each) for each in zip(*found, strict=True))
        drawn[stranger] = {"": (x, mean, half)}
    figure = _panels(drawn, key, unit, marker="o")
    values = [value for by in payoffs.values() for value in by]
    if min(values) > 0 and max(values) >= 20 * min(values):
        for axis in figure.axes:
            axis.set_xscale("log")
    return figure


def of_card_play(groups: Mapping[str, Sequence[History]]) -> bool:
    """Are there shares of contracts in the histories?"""
    entries = (m for histories in groups.values() for each in histories for _, m in each)
    return any(name.startswith(MADE) for metrics in entries for name in metrics)


def recognition(groups: Mapping[str, Sequence[History]], deals: int) -> Figure:
    """Contracts made against each defence, and decisions recognised, by games seen, a line a group
    of seeds (Hadjur 2018, Figs 5.1 and 5.2). The band of one seed is that of so many deals."""
    every = [entry for histories in groups.values() for each in histories for entry in each]
    names = sorted({n for _, m in every for n in m if n.startswith(MADE) or n == RECOGNISED})
    drawn: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, (label, histories) in itertools.product(names, groups.items()):
        seeds = [{m[GAMES]: m[name] for _, m in each if name in m} for each in histories]
        shared = sorted(set.intersection(*(set(each) for each in seeds)))
        if not shared:
            continue
        mean, half = band(np.array([[each[games] for games in shared] for each in seeds]))
        if len(seeds) == 1:
            half = norm.ppf((1 + CONFIDENCE) / 2) * np.sqrt(mean * (1 - mean) / deals)
        drawn[name][label] = np.array(shared), mean, half
    return _panels(drawn, "games seen", "", marker="o", ylabel="share")


def _panels(
    drawn: Mapping[str, Mapping[str, tuple[Array, Array, Array]]],
    xlabel: str,
    unit: str,
    marker: str | None,
    ylabel: str = "",
) -> Figure:
    across = min(len(drawn), WIDEST)
    down = -(-len(drawn) // WIDEST)
    size = (max(4.5, 3.2 * across), 3.4 * down)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis, (stranger, lines) in zip(axes[: len(drawn)], drawn.items(), strict=True):
        for colour, (label, (x, mean, half)) in zip(itertools.cycle(COLOURS), lines.items()):
            axis.plot(x, mean, color=colour, marker=marker, ms=4, label=label)
            axis.fill_between(x, mean - half, mean + half, color=colour, alpha=0.2, lw=0)
        axis.set(title=stranger, xlabel=xlabel)
        axis.locator_params(axis="x", nbins=5)
        if 1 < len(lines) <= CROWDED:
            axis.legend(fontsize=7)
    if len(next(iter(drawn.values()))) > CROWDED:
        lines_of = axes[0].get_legend_handles_labels()
        figure.legend(*lines_of, loc="outside lower center", ncols=2, fontsize=7)
    for axis in axes[len(drawn) :]:
        axis.axis("off")
    for first in axes[::across]:
        first.set_ylabel(ylabel or f"payoff after adaptation, {unit} a game")
    return figure
