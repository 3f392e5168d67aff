"""Every picture a run keeps; colours and labels in one place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from overtrick.core import Array

mpl.use("Agg")

OPPONENTS = "opponents"
"""Stands where a stranger's name does in the metrics of the opponents of training."""

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
"""Paul Tol's bright palette: told apart by colour-blind readers too."""


def payoff_name(stranger: str, step: int, unit: str) -> str:
    """The metric of a payoff against a stranger after so many steps, with its unit."""
    return f"{stranger}/after_{step}_{unit.replace(' ', '_')}"


def last_steps(history: Sequence[tuple[int, Mapping[str, float]]]) -> dict[str, int]:
    """The strangers of a run's metrics, and the most steps that each was met after."""
    last: dict[str, int] = {}
    for _, metrics in history:
        for name in metrics:
            if found := re.fullmatch(r"(.+)/after_(\d+)_.+", name):
                stranger, step = found[1], int(found[2])
                if stranger != OPPONENTS:
                    last[stranger] = max(last.get(stranger, 0), step)
    return last


def learning_curve(history: Sequence[tuple[int, Mapping[str, float]]], unit: str) -> Figure:
    """Adapted payoff against every stranger by iteration, from a run's metrics."""
    figure, (axis,) = _panels(1)
    for colour, (stranger, step) in zip(itertools.cycle(COLOURS), last_steps(history).items()):
        name = payoff_name(stranger, step, unit)
        points = [(i, m[name]) for i, m in history if name in m]
        axis.plot(*zip(*points, strict=True), color=colour, marker="o", ms=3, label=stranger)
    axis.set(xlabel="iteration", ylabel=f"payoff after adaptation, {unit} a game")
    axis.legend()
    return figure


def adaptation(rows: Sequence[Mapping[str, Any]], unit: str) -> Figure:
    """Payoff before and after each step against each stranger; the best response as a line."""
    figure, axes = _panels(len(rows))
    for axis, colour, row in zip(axes, itertools.cycle(COLOURS), rows):
        steps = np.arange(len(row["steps"]))
        axis.bar(steps, row["steps"], yerr=row["standard_error"], color=colour, capsize=3)
        axis.axhline(row["best_response"], color="black", ls="--", lw=1, label="best response")
        axis.axhline(0, color="black", lw=0.5)
        axis.set(title=row["stranger"], xlabel="gradient steps", xticks=steps)
        axis.legend(fontsize=7)
    axes[0].set_ylabel(f"payoff, {unit} a game")
    return figure


def styles(probabilities: Array, hands: Sequence[str], actions: Sequence[str]) -> Figure:
    """Action probabilities by hand (members, hands, A), a panel a member (Wu et al., Fig. 4)."""
    figure, axes = _panels(len(probabilities))
    for member, (axis, table) in enumerate(zip(axes, probabilities, strict=True)):
        below = np.zeros(len(hands))
        for a, action in enumerate(actions):
            axis.bar(hands, table[:, a], bottom=below, color=COLOURS[a % 7], label=action)
            below += table[:, a]
        axis.set(title=f"opponent {member + 1}", xlabel="hand", ylim=(0, 1))
    axes[0].set_ylabel("probability")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


def save(figures: Mapping[str, Figure], folder: Path) -> None:
    """Write each figure as NAME.png."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png", dpi=120)


def _panels(count: int) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(max(6.4, 2.6 * count), 4.0), layout="constrained")
    axes = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    return figure, list(axes)
